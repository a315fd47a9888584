"""Small files of ``benchmarks/reading_set/pdf_files.py --documents 1 --blocks 16``, whose structure is known."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from graphdoc.documents.document import Document

FILES = Path(__file__).parent / "files"


def words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


@pytest.mark.parametrize("path", sorted(FILES.glob("*.pdf")), ids=lambda path: path.stem)
def test_headings_and_text_are_those_of_the_source(path: Path) -> None:
    known = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    document = Document.from_file(path)
    headings = [section.heading for section in document.sections if section.heading]
    # A heading that stands for the title as well counts once.
    names = [words(name) for name in dict.fromkeys((document.title, *headings)) if name]
    assert names == [words(name) for name in (known["title"], *(text for _, text in known["headings"]))]
    body = Counter(words(known["body"]))
    lost = body - Counter(words(document.text))
    assert lost.total() <= 0.005 * body.total(), lost
    surplus = Counter(words(document.text)) - body
    # The names of author and month below the title of LaTeX are text as well.
    allowed = {"the", "project", "november", "2026", "riffraff"}
    assert all(word in allowed or word.isdigit() for word in surplus), surplus
