from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

import pytest
from typed import Patch

from graphdoc.documents.document import Document
from graphdoc.documents.parsing import pandoc
from graphdoc.documents.readers import ReadingReport, read_documents
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError, MissingExtraError

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pypandoc") is None, reason="pandoc is not installed")
WHOLE = "\\documentclass{article}\n\\begin{document}\n%s\n\\end{document}\n"
LATEX = r"""\documentclass{article}
\newcommand{\method}{GraphDoc}
\title{My Paper\thanks{Paid by \textbf{nobody}.}}
\author{Ann Lee \and Bob Ray}
\begin{document}\maketitle
\begin{abstract}Abstract words.\end{abstract}
\section{One}\label{one} Text on the same line.
% a comment
The \method{} way of \emph{things}~\cite{key}, 50\% done\footnote{A note.} (\citep[see][p.~3]{a,b}). % another

Section~\ref{one}, and $\alpha_i \le \frac{1}{2}$, \eqref{nowhere}.
\subsection{Two}
\begin{itemize}
\item i
\item j
\end{itemize}
\begin{table}[ht]\caption{Depths.}\begin{tabular}{|l|p{3cm}|}Ebb & 1 \\ \hline Flood & 2\end{tabular}\end{table}
\begin{figure}[ht]\includegraphics[width=3cm]{x.png}\caption{The gauge.}\label{x}\end{figure}
\begin{tikzpicture}\node at (1,2) {Label};\end{tikzpicture}
\begin{thebibliography}{9}\bibitem{key} Doe.\end{thebibliography}
\end{document}
"""
ORG = """#+TITLE: Tides
#+AUTHOR: Ann Lee
Opening[fn:1] and [cite:@doe].
* TODO [#A] Shore :tag:
CLOCK: [2012-10-26 Fri 14:50]--[2012-10-26 Fri 15:00] =>  0:10
Text with /emphasis/, [[http://x.y][a link]] and \\(x^2\\).
- one
  - two
| a | b |
| 1 | 2 |
** Inner
#+BEGIN_SRC python
print(1)
#+END_SRC
[fn:1] A note.
"""
MEDIAWIKI = """{{Infobox|name=Tide}}
'''Tides''' are [[water|waters]].<ref>A note.</ref>
== Shore ==
* one
** two
{|
! A !! B
|-
| 1 || 2
|}
[[File:t.jpg|thumb|A picture]]
[[Category:Sea]]
"""
TYPST = """#set document(title: "Tides")
#let name = "GraphDoc"
= Shore
Text of #name with *bold* $x^2 + alpha$ @doe.#footnote[A note.]
- one
- two
== Inner <lab>
#figure(table(columns: 2, [A], [B]), caption: [Depths])
"""
ASCIIDOC = """= Tides
Ann Lee
:name: GraphDoc

Opening of {name} with *bold*.footnote:[A note.] See <<shore>>.

ifdef::name[]
image::gauge.png[Gauge,300]
endif::[]

[[shore]]
== Shore

* one
** two

|===
|A |B
|===

----
code
----
"""
SLIDES = r"""\documentclass{beamer}\title{Tides}
\begin{document}
\begin{frame}\titlepage\end{frame}
\begin{frame}<1->[fragile]{Shore}
\begin{columns}\begin{column}{0.5\textwidth}Text.\end{column}\end{columns}
\end{frame}
\frame{\frametitle{Inner} \only<2>{More.}}
\end{document}
"""
# As LibreOffice and Word write headings, notes, and letters of several scripts.
RTF_OF_OFFICE = r"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset204 B;}{\f2\fcharset128 C;}}
{\info{\title Tides}}\pard\plain\s1\ilvl0\outlinelevel0\b{\listtext\pard\plain 1.\tab}\ls1 Shore\par
\pard\plain Text.{\*\footnote \pard A note.} {\f1 \'d0\'e8\'f1} caf\'e9 \f2\'93\'fa\'96\{\'83\\\'95\'5c\'83v \'41}"""
RTF = r"""{\rtf1\ansi{\info{\title Tides}{\author Ann}}
\pard\outlinelevel0 Shore\par
\pard Text with {\i emphasis} caf\'e9{\footnote A note.}.\par
\trowd\cellx1000\cellx2000\intbl A\cell B\cell\row
\pard last\par}"""


def read(folder: Path, name: str, source: str) -> Document:
    (folder / name).write_text(source, encoding="utf-8")
    return Document.from_file(folder / name)


def shown(document: Document) -> list[tuple[str, str]]:
    return [(section.heading, section.text) for section in document.sections]


def test_latex(tmp_path: Path) -> None:
    document = read(tmp_path, "paper.tex", LATEX)
    assert (document.id, document.title) == ("paper", "My Paper")
    one = "Text on the same line. The GraphDoc way of things, 50% done.\n\nA note.\n\nSection 1, and αi ≤ 1/2,."
    two = Section("i\nj\n\nDepths.\n\nEbb\t1\nFlood\t2\n\nThe gauge.", "Two", 2, ("One", "Two"))
    assert document.sections == (Section("Abstract words."), Section(one, "One", 1, ("One",)), two)
    assert document.metadata["author"] == ("Ann Lee", "Bob Ray")
    assert document.metadata["dropped_elements"] == {"thebibliography": 1, "tikzpicture": 1}


@pytest.mark.parametrize(
    ("name", "source", "sections", "metadata"),
    [
        ("tides.org", ORG,
         [("", "Opening and.\n\nA note."), ("Inner", "print(1)"),
          ("Shore", "Text with emphasis, a link and x2.\n\none\ntwo\n\na\tb\n1\t2")],
         {"author": "Ann Lee"}),
        ("tides.mediawiki", MEDIAWIKI,
         [("", "Tides are waters.\n\nA note."), ("Shore", "one\ntwo\n\nA\tB\n1\t2\n\nA picture")],
         {"dropped_elements": {"mediawiki": 1}}),
        ("tides.typ", TYPST,
         [("Inner", "Depths\n\nA\tB"), ("Shore", "Text of GraphDoc with bold x2 + α.\n\nA note.\n\none\ntwo")], {}),
        ("tides.adoc", ASCIIDOC,
         [("", "Opening of GraphDoc with bold. See Shore.\n\nA note.\n\nGauge"), ("Shore", "one\ntwo\n\nA\tB\n\ncode")],
         {"author": ("Ann Lee",), "name": "GraphDoc"}),
        ("tides.rtf", r"{\rtf1\ansi\ansicpg1251{\info{\title Tides}}\'cf\'f0\'e8 \u1084\'ec\u1080?\u1088?. K\u228?se.}",
         [("", "При мир. Käse.")], {}),
        ("tides.rtf", r"{\rtf1{\info{\title Tides}}\uc0 x\u229 ?y}", [("", "xå?y")], {}),
        ("tides.rtf", r"{\rtf1\ansicpg1251{\info{\title Tides}}C:\\u1?a\\'cf \u-10179?\u-8704?\u123?\b\'cf\'5cx}",
         [("", r"C:\u1?a\'cf 😀{П\x")], {}),
        ("tides.rtf", RTF_OF_OFFICE, [("Shore", "Text. Рис café 日本ソ表プ A\n\nA note.")], {}),
        ("tides.tex", SLIDES, [("Inner", "More."), ("Shore", "Text.")], {}),
        ("tides.rtf", RTF, [("Shore", "Text with emphasis café.\n\nA note.\n\nA\tB\n\nlast")], {"author": "Ann"}),
    ],
)  # fmt: skip
def test_other_formats(
    tmp_path: Path, name: str, source: str, sections: list[tuple[str, str]], metadata: dict[str, object]
) -> None:
    document = read(tmp_path, name, source)
    assert sorted(shown(document)) == sections
    assert document.title == ("" if name.endswith("mediawiki") else "Tides")
    assert dict(document.metadata) == metadata
    assert read(tmp_path, "asciidoc.asciidoc", ASCIIDOC).title == "Tides"


@pytest.mark.parametrize(
    ("source", "title"),
    [
        (r"\title[Short]{My Paper}", "My Paper"),
        ("\\title{A\n  paper on {\\em things} \\\\[2pt] and \\textbf{more}, 50\\%}", "A paper on things and more, 50%"),
        (r"\title{\texorpdfstring{Making \texttt{dough}}{Making dough}}", "Making dough"),
        (r"\title{Dough \texorpdfstring{\emph{rises}}{rises} twice}", "Dough rises twice"),
        (r"% \title{No}" + "\n", "One"),
    ],
)  # fmt: skip
def test_titles_of_latex(tmp_path: Path, source: str, title: str) -> None:
    heading = r"\section{\texorpdfstring{One}{1}} Text here."
    lines = [r"\documentclass{article}", source, r"\begin{document}", r"\maketitle", heading, r"\end{document}"]
    document = read(tmp_path, "p.tex", "\n".join(lines))
    assert document.title == title
    # Without a title the only section of level 1 gives it.
    assert shown(document) == [("" if title == "One" else "One", "Text here.")]


@pytest.mark.parametrize(
    "source",
    [
        WHOLE % "\\begin{center} Alpha in line.\nMore. Beta \\end{center} Gamma after.",
        WHOLE % "\\begin{theorem}[Named Gamma] Alpha.\\end{theorem} Beta.",
        WHOLE % "\\begin{verbatim} alpha = 1\nbeta = 2 \\end{verbatim} Gamma.",
        WHOLE % "\\begin{figure}[ht] \\centering \\caption{Alpha.} \\end{figure} Beta. \\maketitle Gamma.",
        WHOLE % "\\begin{description}[style=x]\\itemsep0pt\n\\item[Alpha] Beta\\item<1->[Gamma] d\\end{description}",
        WHOLE % "\\pkg{Alpha} and \\fbox{\\pkg{Beta}} and \\rotatebox{90}{Gamma}.",
        WHOLE % "\\resizebox{\\textwidth}{!}{\\begin{tabular}{ll} Alpha & \\multirow{2}{*}{Beta}\\end{tabular}} Gamma.",
        "\\section{One}\nAlpha.\n\nBeta.\n\\section{Two} Gamma.",
        "\\documentclass{article}\n\\usepackage{x}\nAlpha. Beta.\n\nGamma.",
    ],
)
def test_latex_loses_no_text(source: str, tmp_path: Path) -> None:
    text = read(tmp_path, "paper.tex", source).text.casefold()
    assert [word for word in ("alpha", "beta", "gamma") if word not in text] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.tex", WHOLE % "\\input{%s} \\include{%s} Text."), ("a.org", '#+INCLUDE: "%s"\n\nText.\n'),
        ("a.typ", '#include "%s"\n\nText.\n'), ("a.adoc", "include::%s[]\n\nText.\n"),
    ],
)  # fmt: skip
def test_other_files_are_not_read(tmp_path: Path, name: str, source: str) -> None:
    other = tmp_path / ("other" + Path(name).suffix)
    other.write_text("secret", encoding="utf-8")
    document = read(tmp_path, name, source.replace("%s", str(other)))
    assert document.text == "Text." and "other" in document.metadata["warnings"][0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("loop.tex", WHOLE % r"\def\a{\a\a}\a"), ("open.tex", "\\section[" * 20_000),
        ("deep.tex", "\\begin{itemize}\\item " * 2_000 + "x" + "\\end{itemize}" * 2_000),
        ("formula.tex", f"${'{' * 100_000}$"), ("undefined.typ", "#foo[bar]"),
    ],
)  # fmt: skip
def test_hostile_files_are_refused(tmp_path: Path, name: str, source: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, name, source)
    assert name in str(caught.value) and "\n" not in str(caught.value)


MANY = r"\newcommand{\a}{xxxxxxxxxx}" + "".join(
    rf"\newcommand{{\{name}}}{{" + rf"\{last}" * 10 + "}" for last, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("limits", "source", "named"),
    [
        ({"_SECONDS": 0.2}, MANY + r"\h", "time"), ({"_HEAP": 2**25, "_HEAP_PER_BYTE": 0}, MANY + r"\h", "memory"),
        ({"_ANSWER": 2**16, "_ANSWER_PER_BYTE": 0}, MANY + r"\e", "65,536"),
    ],
)  # fmt: skip
def test_limits(tmp_path: Path, monkeypatch: Patch, limits: dict[str, float], source: str, named: str) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(pandoc, name, value)
    began = time.monotonic()
    with pytest.raises(DocumentError, match=named):
        read(tmp_path, "bomb.tex", source)
    assert time.monotonic() - began < 30


def test_missing_library_names_the_extra(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "pypandoc", None)
    path = tmp_path / "paper.tex"
    path.write_text(LATEX, encoding="utf-8")
    with pytest.raises(MissingExtraError, match="ingest"):
        Document.from_file(path)
    (tmp_path / "tides.txt").write_text("Tides rise.", encoding="utf-8")
    # Every file of the kind would be missing from a folder, so that is left out where it was asked for alone.
    with pytest.raises(MissingExtraError):
        list(read_documents(tmp_path, on_error="skip_in_folders"))
    report = ReadingReport()
    assert [document.id for document in read_documents(tmp_path, on_error="skip", report=report)] == ["tides"]
    assert [one.source for one in report.skipped] == [str(path)] and "ingest" in report.skipped[0].reason
