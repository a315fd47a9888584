"""PDF, Word and other files of office programs, as graphdoc and other libraries read them.

    python benchmarks/reading_set/pdf_files.py
    python benchmarks/reading_set/office_files.py
    python benchmarks/reading_office.py --kinds pdf docx odt pptx epub ipynb eml --name reading_office

The arguments are those of ``reading.py``. Further readers, each with a library of its name that has to be installed:
``pypdf``, ``pdfminer``, ``pdfplumber``, ``mammoth``.
"""

from __future__ import annotations

from pathlib import Path

import reading
from reading import Reading

from graphdoc import Document


def read_with_pypdf(path: Path) -> Reading:
    """Read PDF with pypdf, which knows no headings."""
    import pypdf

    return Reading("", [], "\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages))


def read_with_pdfminer(path: Path) -> Reading:
    """Read PDF with pdfminer.six, which knows no headings."""
    from pdfminer.high_level import extract_text

    return Reading("", [], extract_text(path))


def read_with_pdfplumber(path: Path) -> Reading:
    """Read PDF with pdfplumber, which knows no headings."""
    import pdfplumber

    with pdfplumber.open(path) as file:
        return Reading("", [], "\n".join(page.extract_text() or "" for page in file.pages))


def read_with_mammoth(path: Path) -> Reading:
    """Read DOCX with mammoth, and the HTML that it makes with graphdoc."""
    import mammoth

    with path.open("rb") as file:
        document = Document.from_html(mammoth.convert_to_html(file).value)
    headings = [(section.level, section.heading) for section in document.sections if section.heading]
    return Reading(document.title, headings, document.text)


_PDF, _DOCX = frozenset({"pdf"}), frozenset({"docx"})

if __name__ == "__main__":
    reading.READERS |= {
        "pypdf": (read_with_pypdf, _PDF),
        "pdfminer": (read_with_pdfminer, _PDF),
        "pdfplumber": (read_with_pdfplumber, _PDF),
        "mammoth": (read_with_mammoth, _DOCX),
    }
    reading.main()
