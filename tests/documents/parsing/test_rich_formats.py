from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from graphdoc.documents.document import Document
from graphdoc.documents.parsing import extraction
from graphdoc.documents.parsing.latex import prepare_latex
from graphdoc.documents.readers import ReadingReport, read_documents
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError, MissingExtraError

needs_xberg = pytest.mark.skipif(importlib.util.find_spec("xberg") is None, reason="xberg is not installed")

LATEX = r"""\documentclass{article}
\newcommand{\method}{GraphDoc}
\title{My Paper}
\begin{document}\maketitle
\begin{abstract}Abstract words.\end{abstract}
\section{One}\label{one} Text on the same line.
% a comment
The \method{} way of \emph{things}~\cite{key}, 50\% done. % another

Second paragraph.
\subsection{Two}
\begin{itemize}
\item i
\item j
\end{itemize}
\end{document}
"""


@needs_xberg
def test_latex(tmp_path: Path) -> None:
    path = tmp_path / "paper.tex"
    path.write_text(LATEX, encoding="utf-8")
    document = Document.from_file(path)
    assert (document.id, document.title) == ("paper", "My Paper")
    assert document.sections == (
        Section("Abstract words."),
        Section(
            "Text on the same line. The GraphDoc way of things [key], 50% done.\n\nSecond paragraph.",
            "One",
            1,
            ("One",),
        ),
        Section("i\nj", "Two", 2, ("One", "Two")),
    )


@needs_xberg
@pytest.mark.parametrize(
    ("source", "title"),
    [
        (r"\title{My Paper}", "My Paper"),
        (r"\title[Short]{My Paper\thanks{Paid by \textbf{nobody}.}}", "My Paper"),
        (
            "\\title{A long\n  paper on {\\em things} \\\\[2pt] and \\textbf{more}, 50\\%}",
            "A long paper on things and more, 50%",
        ),
        (r"\newcommand{\name}{GraphDoc}\title{The \name{} library}", "The GraphDoc library"),
        (r"% \title{No}" + "\n", "One"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_titles_of_latex(tmp_path: Path, source: str, title: str, inside: bool) -> None:
    begin = r"\begin{document}"
    lines = [r"\documentclass{article}", *([begin, source] if inside else [source, begin]), r"\maketitle"]
    path = tmp_path / "paper.tex"
    path.write_text("\n".join([*lines, r"\section{One} Text here.", r"\end{document}"]), encoding="utf-8")
    document = Document.from_file(path)
    assert document.title == title
    # Without a title the only section of level 1 gives it.
    heading = "" if title == "One" else "One"
    assert [(section.heading, section.text) for section in document.sections] == [(heading, "Text here.")]


def test_pdf_and_a_running_event_loop(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.figure")
    figure = pyplot.Figure(figsize=(8, 11))
    lines = [(24, "My Paper"), *((10, f"Line {number} of ordinary words in this text.") for number in range(4))]
    for number, (size, text) in enumerate(lines):
        figure.text(0.1, 0.9 - number / 20, text, size=size)
    path = tmp_path / "paper.pdf"
    figure.savefig(path)

    async def read() -> Document:
        return Document.from_file(path)

    document = asyncio.run(read())
    assert document.title == "My Paper"
    assert document.text.split("\n\n")[-1] == "Line 3 of ordinary words in this text."


@needs_xberg
def test_the_library_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Its threads abort an interpreter that ends while they hand over a result."""
    path = tmp_path / "paper.tex"
    path.write_text(LATEX, encoding="utf-8")
    code = (
        "import os, sys\n"
        "from graphdoc import Document\n"
        "from graphdoc.documents.parsing.extraction import _process\n"
        f"first = Document.from_file({str(path)!r})\n"
        "pid = _process.running.pid\n"
        f"if os.fork() == 0: os._exit(Document.from_file({str(path)!r}) != first or _process.running.pid == pid)\n"
        f"assert os.wait()[1] == 0 and Document.from_file({str(path)!r}) == first and _process.running.pid == pid\n"
        "assert 'xberg' not in sys.modules\n"
        "print(pid)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(result.stdout), 0)


@needs_xberg
def test_a_process_that_ends_costs_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "paper.tex"
    path.write_text(LATEX, encoding="utf-8")
    document = Document.from_file(path)
    kill = extraction.xberg_program.write_block

    def kill_first(stream: IO[bytes], content: bytes) -> None:
        running = extraction._process.running
        assert running is not None
        running.kill()
        running.wait()
        kill(stream, content)

    with monkeypatch.context() as patched:
        patched.setattr(extraction.xberg_program, "write_block", kill_first)
        with pytest.raises(DocumentError) as caught:
            Document.from_file(path)
    assert all(part in str(caught.value) for part in (str(path), "LATEX", "SIGKILL", "memory"))
    assert Document.from_file(path) == document


@pytest.mark.parametrize("name", [f"broken.{kind}" for kind in ("pdf", "docx", "odt", "pptx", "epub", "eml")])
def test_broken_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"no such thing")
    with pytest.raises(DocumentError, match=f"{name}: it cannot be read as") as caught:
        Document.from_file(path)
    assert "\n" not in str(caught.value)
    path.write_bytes(b"")
    with pytest.raises(DocumentError, match=f"{name}: it is empty"):
        Document.from_file(path)


def test_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xberg", None)
    path = tmp_path / "paper.tex"
    path.write_text(LATEX, encoding="utf-8")
    with pytest.raises(MissingExtraError, match=r"pip install -e '\.\[ingest\]'"):
        Document.from_file(path)
    (tmp_path / "tides.txt").write_text("Tides rise.", encoding="utf-8")
    # Every file of the kind would be missing from a folder, so that is left out where it was asked for alone.
    with pytest.raises(MissingExtraError):
        list(read_documents(tmp_path, on_error="skip_in_folders"))
    report = ReadingReport()
    assert [document.id for document in read_documents(tmp_path, on_error="skip", report=report)] == ["tides"]
    assert [one.source for one in report.skipped] == [str(path)] and "ingest" in report.skipped[0].reason


WHOLE = "\\documentclass{article}\n\\begin{document}\n%s\n\\end{document}\n"


@pytest.mark.parametrize(
    "source",
    [
        WHOLE % "\\begin{center} Alpha in line.\nMore. Beta \\end{center} Gamma after.",
        WHOLE % "\\begin{itemize} \\item Alpha \\item Beta \\end{itemize} Gamma after.",
        WHOLE % "\\begin{theorem}[Named Gamma] Alpha.\\end{theorem} Beta.",
        WHOLE % "\\begin{verbatim} alpha = 1\nbeta = 2 \\end{verbatim} Gamma.",
        WHOLE % "Alpha.\n\\newpage Beta.\n\\clearpage\nGamma.",
        WHOLE % "\\begin{tabular}{ll} Alpha & Beta \\\\ \\end{tabular} Gamma.",
        WHOLE % "\\begin{figure}[ht] \\centering \\caption{Alpha.} \\end{figure} Beta. \\maketitle Gamma.",
        "\\section{One}\nAlpha.\n\nBeta.\n\\section{Two} Gamma.",
        "\\documentclass{article}\n\\usepackage{x}\nAlpha. Beta.\n\nGamma.",
    ],
)
def test_latex_loses_no_text(source: str, tmp_path: Path) -> None:
    file = tmp_path / "paper.tex"
    file.write_text(source)
    text = Document.from_file(file).text.casefold()
    assert [word for word in ("alpha", "beta", "gamma") if word not in text] == []


def test_latex_that_repeats_an_open_bracket() -> None:
    for command in ("\\section[", "\\cite[", "\\title{", "\\label{"):
        assert command in prepare_latex(command * 100_000)[1] or command == "\\title{"
