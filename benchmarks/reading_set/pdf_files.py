"""PDF files with known structure, printed by Chromium, pdflatex and LibreOffice.

    python benchmarks/reading_set/pdf_files.py [FOLDER]

It takes pandoc, pdflatex, LibreOffice and Chromium, and the library playwright.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sources import (
    Source,
    changed_headings,
    joined,
    numbered,
    plain,
    shortened,
    sources,
    with_bold_headings,
    write,
    written,
)

SET = Path(__file__).resolve().parents[2] / "cache" / "reading_set"
_CHROMIUM = "/usr/bin/chromium"
_RUNNING_HEAD = "Notes on water and bread"

_PAGE = "@page { size: A4; margin: 22mm 20mm } body { font: 11pt/1.4 serif } code, pre { font-family: monospace }"
_STYLES = {
    "chromium-plain": "@page { size: A4; margin: 20mm }",
    "chromium-heads": _PAGE,
    "chromium-bold": _PAGE + "h1,h2,h3,h4 { font-size: 11pt; font-weight: bold; margin: 1em 0 .4em }",
    "chromium-columns": _PAGE
    + "body { font-size: 9.5pt; column-count: 2; column-gap: 8mm; text-align: justify; hyphens: auto }"
    "h1 { font-size: 14pt } h2 { font-size: 11pt } h3 { font-size: 10pt; font-style: italic }"
    "h1.title { column-span: all; font-size: 18pt; text-align: center }",
    "chromium-colour": _PAGE
    + "body { font-family: sans-serif; font-size: 10pt } h1 { color: #1a5276; font-size: 15pt; font-weight: normal }"
    "h2 { color: #1a5276; font-size: 12pt; font-weight: normal }"
    "h3 { color: #777; font-size: 10pt; font-weight: normal }",
}

_LATEX = r"""\documentclass[%(options)s]{%(class)s}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{amsmath,amssymb,textcomp}
\usepackage{longtable,booktabs,array,calc}
\usepackage[normalem]{ulem}
\usepackage{url}
%(packages)s
\providecommand{\tightlist}{\setlength{\itemsep}{0pt}\setlength{\parskip}{0pt}}
\providecommand{\hypertarget}[2]{#2}
\providecommand{\texorpdfstring}[2]{#1}
\providecommand{\href}[2]{#2}
\setcounter{secnumdepth}{%(depth)d}
\title{%(title)s}
\author{The project}
\date{November 2026}
\begin{document}
\maketitle
%(before)s
%(body)s
\end{document}
"""
_GEOMETRY = r"\usepackage[a4paper,margin=25mm]{geometry}"
_PDFLATEX: dict[str, dict[str, Any]] = {
    "latex-article": {"packages": _GEOMETRY + r"\usepackage{lmodern}\usepackage{hyperref}", "depth": 3},
    "latex-two-columns": {
        "options": "10pt,twocolumn",
        "packages": r"\usepackage{mathptmx}\usepackage{fancyhdr}\pagestyle{fancy}\fancyhf{}"
        rf"\fancyhead[L]{{{_RUNNING_HEAD}}}\fancyhead[R]{{\thepage}}",
        "depth": 3,
    },
    "latex-report": {
        "class": "report",
        "packages": _GEOMETRY + r"\usepackage{lmodern}\pagestyle{headings}\usepackage{hyperref}",
        "depth": 3,
        "before": r"\tableofcontents",
    },
    "latex-roman": {
        "options": "10pt,twocolumn",
        "packages": r"\usepackage{mathptmx}\usepackage{titlesec}\renewcommand{\thesection}{\Roman{section}}"
        r"\renewcommand{\thesubsection}{\Alph{subsection}}"
        r"\titleformat{\section}{\centering\scshape}{\thesection.}{.5em}{}"
        r"\titleformat{\subsection}{\itshape}{\thesubsection.}{.5em}{}"
        r"\titlespacing*{\section}{0pt}{12pt}{4pt}\titlespacing*{\subsection}{0pt}{8pt}{3pt}",
        "depth": 2,
    },
    "latex-bold": {
        "options": "11pt",
        "packages": _GEOMETRY + r"\usepackage{titlesec}\titleformat*{\section}{\bfseries}"
        r"\titleformat*{\subsection}{\bfseries\itshape}\setlength{\parindent}{0pt}\setlength{\parskip}{6pt}",
        "depth": 0,
    },
}
_CHAPTER = {"t": "Str", "c": "Chapter "}
_ROMAN = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV")

_WORDS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PARTS = (
    ("header", "header1.xml", f"<w:p><w:r><w:t>{_RUNNING_HEAD}</w:t></w:r></w:p>"),
    (
        "footer",
        "footer1.xml",
        '<w:p><w:pPr><w:jc w:val="center"/></w:pPr><w:r><w:t xml:space="preserve">Page </w:t></w:r>'
        '<w:fldSimple w:instr=" PAGE "><w:r><w:t>1</w:t></w:r></w:fldSimple></w:p>',
    ),
)


def save(folder: Path, name: str, made: Path, known: dict[str, Any]) -> None:
    """Put a file and what is known of it into the set."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}{made.suffix}"
    shutil.copyfile(made, path)
    path.with_name(f"{path.name}.json").write_text(json.dumps(known, ensure_ascii=False, indent=1), encoding="utf-8")


def print_pages(chosen: Sequence[Source], folder: Path, work: Path) -> None:
    """Print HTML with Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        for style, css in _STYLES.items():
            for source in chosen:
                shown = numbered(source) if style == "chromium-heads" else source
                heads = style in ("chromium-heads", "chromium-columns")
                html = written(shown, "html", "--standalone", "--metadata", "lang=en", "--wrap=none")
                start, end = html.index("<style"), html.index("</style>")
                page.set_content(html[:start] + f"<style>{css}" + html[end:])
                made = work / f"{source.name}.pdf"
                mark = '<div style="font-size:8px;width:100%;margin:0 15mm;display:flex;justify-content:space-between">'
                page.pdf(
                    path=str(made),
                    prefer_css_page_size=True,
                    tagged=style in ("chromium-plain", "chromium-heads"),
                    outline=style == "chromium-heads",
                    display_header_footer=heads,
                    header_template=f"{mark}<span>{_RUNNING_HEAD}</span><span>24/11/2026</span></div>",
                    footer_template=f'{mark}<span>Page <span class="pageNumber"></span> of '
                    '<span class="totalPages"></span></span></div>',
                )
                furniture = f"{_RUNNING_HEAD} 24/11/2026 Page of 1 2 3 4 5 6 7 8 9\n" * 9 if heads else ""
                save(folder / style, source.name, made, shown.known(furniture))
        browser.close()


def _with_roman(source: Source) -> Source:
    counts = [0, 0]

    def change(level: int, inlines: list[Any]) -> list[Any]:
        if level > 2:
            return inlines
        counts[level - 1] += 1
        if level == 1:
            counts[1] = 0
        number = f"{_ROMAN[counts[0]]}." if level == 1 else f"{chr(64 + counts[1])}."
        return [{"t": "Str", "c": number}, {"t": "Space"}, *inlines]

    return changed_headings(source, change)


def typeset(chosen: Sequence[Source], folder: Path, work: Path) -> None:
    """Typeset with pdflatex."""
    for style, settings in _PDFLATEX.items():
        is_book = style == "latex-report"
        taken = [joined(list(chosen[:3]), "three-chapters", "Water, bread and machines")] if is_book else chosen
        for source in taken:
            options = ["--wrap=none"]
            if is_book:
                options.append("--top-level-division=chapter")
            body = written(source, "latex", *options, "--no-highlight")
            if "twocolumn" in settings.get("options", ""):
                # longtable does not work in two columns.
                body = body.replace("longtable", "tabular").replace(r"\begin{tabular}[]", r"\begin{tabular}")
                for line in (r"\endhead", r"\endfirsthead", r"\endlastfoot", r"\endfoot"):
                    body = body.replace(line, "")
            title = written(
                Source(source.name, source.title, [{"t": "Plain", "c": source.title}], source.version), "latex"
            )
            filled = (
                {"options": "11pt", "class": "article", "before": ""}
                | settings
                | {"body": body, "title": title.strip()}
            )
            (work / "paper.tex").write_text(_LATEX % filled, encoding="utf-8")
            for _ in range(2):
                done = subprocess.run(
                    ["pdflatex", "-interaction=nonstopmode", "paper.tex"], cwd=work, capture_output=True
                )
            if done.returncode:
                print(f"{style} {source.name}: pdflatex says", *_complaints(done.stdout))
            known = source
            if settings["depth"]:
                known = _with_roman(source) if style == "latex-roman" else numbered(source)
            if is_book:
                known = changed_headings(known, lambda level, text: [_CHAPTER, *text] if level == 1 else text)
            furniture = "The project November 2026 1 2 3 4 5 6 7 8 9"
            if style == "latex-two-columns":
                furniture += f" {_RUNNING_HEAD}" * 9
            if is_book:
                heads = [plain(block["c"][2]) for block in source.blocks if block["t"] == "Header"]
                furniture = "\n".join([furniture, "Contents", *heads * 3, *map(str, range(60))])
            save(folder / style, source.name, work / "paper.pdf", known.known(furniture))
            for made in work.glob("paper.*"):
                made.unlink()


def _complaints(log: bytes) -> list[str]:
    return [line for line in log.decode("utf-8", "replace").split("\n") if line.startswith("!")][:3]


def add_heads(path: Path) -> None:
    """Give a DOCX file a running head and page numbers."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    types, links = files["[Content_Types].xml"].decode(), files["word/_rels/document.xml.rels"].decode()
    references = ""
    for kind, name, content in _PARTS:
        tag = "hdr" if kind == "header" else "ftr"
        files[f"word/{name}"] = f"<w:{tag} {_WORDS}>{content}</w:{tag}>".encode()
        link = f'<Relationship Id="{kind}9" Type="{_LINKS}/{kind}" Target="{name}"/>'
        links = links.replace("</Relationships>", f"{link}</Relationships>")
        mime = f"application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}+xml"
        types = types.replace("</Types>", f'<Override PartName="/word/{name}" ContentType="{mime}"/></Types>')
        references += f'<w:{kind}Reference xmlns:r="{_LINKS}" w:type="default" r:id="{kind}9"/>'
    document = files["word/document.xml"].decode()
    edges = "".join(f'w:{edge}="1440" ' for edge in ("top", "right", "bottom", "left"))
    margins = f'<w:pgMar {edges}w:header="700" w:footer="700" w:gutter="0"/>'
    section = f"<w:sectPr>{references}{margins}</w:sectPr>"
    start = document.rfind("<w:sectPr")
    document = document[:start] + section + "</w:body></w:document>"
    files |= {"[Content_Types].xml": types.encode(), "word/_rels/document.xml.rels": links.encode()}
    files["word/document.xml"] = document.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def convert(path: Path, to: str, work: Path) -> Path:
    """Let LibreOffice convert a file."""
    profile = f"-env:UserInstallation=file://{work}/profile"
    command = ["soffice", profile, "--headless", "--convert-to", to, "--outdir", str(work), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path.with_suffix(f".{to.partition(':')[0]}")


def print_word(chosen: Sequence[Source], folder: Path, work: Path) -> None:
    """Print Word files with LibreOffice."""
    with_outline = 'pdf:writer_pdf_Export:{"ExportBookmarks":{"type":"boolean","value":"%s"}}'
    for style, change, outline in (("word", None, "true"), ("word-bold", with_bold_headings, "false")):
        for source in chosen:
            made = work / f"{source.name}.docx"
            shown = change(source) if change else source
            write(shown, made, "docx", title=True)
            add_heads(made)
            printed = convert(made, with_outline % outline, work)
            furniture = f"{_RUNNING_HEAD} Page 1 2 3 4 5 6 7 8 9\n" * 9
            save(folder / style, source.name, printed, source.known(furniture))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=SET, help="the set (default: %(default)s)")
    parser.add_argument("--documents", type=int, default=6, help="number of sources (default: %(default)s)")
    parser.add_argument("--blocks", type=int, help="take only the first blocks of every source, for small files")
    chosen = parser.parse_args(arguments)
    documents = sources()[: chosen.documents]
    if chosen.blocks:
        documents = [shortened(document, chosen.blocks) for document in documents]
    for make in (print_pages, typeset, print_word):
        with tempfile.TemporaryDirectory() as work:
            make(documents, chosen.folder / "pdf", Path(work))


if __name__ == "__main__":
    main()
