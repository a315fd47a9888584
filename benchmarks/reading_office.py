"""PDF, Word and other files of office programs, as graphdoc and other libraries read them.

    python benchmarks/reading_set/pdf_files.py
    python benchmarks/reading_set/office_files.py
    python benchmarks/reading_office.py --kinds pdf docx odt pptx epub ipynb eml --name reading_office

The arguments are those of ``reading.py``. Further readers, each with a library of its name that has to be installed:
``xberg``, ``pypdf``, ``pdfminer``, ``pdfplumber``, ``mammoth``.
"""

from __future__ import annotations

import asyncio
import json
import mimetypes
from pathlib import Path
from typing import Any

import reading
from reading import Reading

from graphdoc import Document

_MIME = {".ipynb": "application/x-ipynb+json", ".epub": "application/epub+zip", ".eml": "message/rfc822"}


def read_with_xberg(path: Path) -> Reading:
    """Read any kind with xberg: its headings, and all other nodes as text."""
    import xberg

    async def extract() -> Any:
        config = xberg.ExtractionConfig(include_document_structure=True, use_cache=False, disable_ocr=True)
        mime = _MIME.get(path.suffix) or mimetypes.guess_type(path.name)[0]
        source = xberg.ExtractInput(kind="bytes", bytes=path.read_bytes(), mime_type=mime, filename=path.name)
        return (await xberg.extract(source, config)).results[0]

    found = asyncio.run(extract())
    headings, body = [], []
    for node in found.document.nodes if found.document else ():
        content = json.loads(str(node.content))
        if str(node.content_layer) not in ("body", "footnote"):
            continue
        if content["node_type"] == "heading":
            headings.append((int(content["level"]), content["text"]))
        elif content["node_type"] == "table":
            body += [cell["content"] for cell in content["grid"]["cells"]]
        elif content["node_type"] not in ("group", "title"):
            body.append(str(content.get("text") or content.get("content") or ""))
    return Reading(str(found.metadata.title or ""), headings, "\n\n".join(body))


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
        "xberg": (read_with_xberg, frozenset({"pdf", "docx", "odt", "pptx", "epub", "ipynb", "eml"})),
        "pypdf": (read_with_pypdf, _PDF),
        "pdfminer": (read_with_pdfminer, _PDF),
        "pdfplumber": (read_with_pdfplumber, _PDF),
        "mammoth": (read_with_mammoth, _DOCX),
    }
    reading.main()
