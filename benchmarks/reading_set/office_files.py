"""DOCX, ODT, PPTX, EPUB, IPYNB and EML files with known structure, by pandoc, LibreOffice and Python.

    python benchmarks/reading_set/office_files.py [FOLDER]

It takes pandoc and LibreOffice.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path

from pdf_files import SET, add_heads, convert, save
from sources import Source, numbered, plain, sources, with_bold_headings, write, written

_HEADS = "Notes on water and bread Page 1\n"


def write_words(chosen: Sequence[Source], folder: Path, work: Path) -> None:
    """Word and LibreOffice files: by pandoc, by LibreOffice, with bold lines for headings, with running heads."""
    for source in chosen:
        made = work / f"{source.name}.docx"
        write(source, made, "docx", "--toc")
        save(folder / "docx" / "pandoc-contents", source.name, made, source.known("Table of Contents"))
        write(with_bold_headings(source), made, "docx")
        add_heads(made)
        save(folder / "docx" / "bold-lines", source.name, made, source.known(_HEADS))
        write(with_bold_headings(numbered(source)), made, "docx")
        save(folder / "docx" / "bold-numbered", source.name, made, numbered(source).known())
        made = work / f"{source.name}.odt"
        write(source, made, "odt", "--toc")
        save(folder / "odt" / "pandoc-contents", source.name, made, source.known("Table of Contents"))
        save(
            folder / "docx" / "libreoffice", source.name, convert(made, "docx", work), source.known("Table of Contents")
        )
        made = work / f"{source.name}-styled.docx"
        write(source, made, "docx")
        add_heads(made)
        save(folder / "odt" / "libreoffice", source.name, convert(made, "odt", work), source.known(_HEADS))
        made = work / f"{source.name}-bold.docx"
        write(with_bold_headings(source), made, "docx")
        save(folder / "odt" / "bold-lines", source.name, convert(made, "odt", work), source.known())


def write_others(chosen: Sequence[Source], folder: Path, work: Path) -> None:
    """Presentations, books, notebooks and mails."""
    for source in chosen:
        for kind, options in (("epub3", ["--toc"]), ("epub2", ["--epub-chapter-level=2"])):
            made = work / f"{source.name}.epub"
            write(source, made, kind, *options)
            save(folder / "epub" / f"pandoc-{kind}", source.name, made, source.known())
        made = work / f"{source.name}.pptx"
        write(source, made, "pptx", "--slide-level=2")
        save(folder / "pptx" / "pandoc", source.name, made, source.known())
        made = work / f"{source.name}.ipynb"
        made.write_text(written(source, "ipynb", title=False), encoding="utf-8")
        save(folder / "ipynb" / "pandoc", source.name, made, source.known())
        for way in ("html", "both"):
            message = EmailMessage()
            message["Subject"], message["From"] = plain(source.title), "Keeper of the gauge <keeper@example.org>"
            message["To"], message["Date"] = "readers@example.org", "Tue, 24 Nov 2026 10:00:00 +0000"
            if way == "html":
                message.set_content("This mail is a page; open it in a browser.")
            else:
                message.set_content("A short form follows.\n")
            message.add_alternative(written(source, "html", "--standalone", "--metadata", "lang=en"), subtype="html")
            if way == "both":
                message.add_attachment(b"%PDF-1.5", maintype="application", subtype="pdf", filename="gauge.pdf")
            made = work / f"{source.name}.eml"
            made.write_bytes(message.as_bytes())
            save(folder / "eml" / way, source.name, made, source.known())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=SET, help="the set (default: %(default)s)")
    parser.add_argument("--documents", type=int, default=6, help="number of sources (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    documents = sources()[: chosen.documents]
    for make in (write_others, write_words):
        with tempfile.TemporaryDirectory() as work:
            make(documents, chosen.folder, Path(work))


if __name__ == "__main__":
    main()
