"""Which files named like manual pages are pages, whatever else their names and contents look like."""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path

import pytest

from graphdoc import Document
from graphdoc.documents.parsing.roff.recognized import is_manual_page, leads_to, why_passed_over
from graphdoc.errors import DocumentError

PAGE = ".TH SOW 1\n.SH NAME\nsow \\- put seeds into the soil\n"
ROTATED = [
    ("index.html.1", "<p>Seeds.</p>"),
    ("notes.md.2", "# Seeds\n\n.5 of them.\n"),
    ("app.txt.1", "started\n"),
    ("report.pdf.1", "%PDF-1.7\n"),
    ("docx.docx.3", "PK\x03\x04"),
    ("notes.txt.1.gz", "Seeds.\n"),
    ("x.tex.1", "\\documentclass{article}\n\\begin{document}\nSeeds.\n"),
    ("page.man.1", "Seeds.\n"),
    # Lines that macros begin with, in files of other kinds.
    ("mail.1", "From: a gardener\n\nThe page begins with\n.TH SOW 1\n.SH NAME\nsow\n"),
    ("server.log.1", "started\n.so what\n.SH \nstopped\n"),
    ("quote.1", "'so what he said\n.SH NAME\nof it\n"),
    ("quote.2", "'tis said\n.SH NAME\n"),
    ("include.1", ".so what he said\n"),
    ("includes.1", ".so a.1\n.so b.1\n"),
    ("block.1", ".ig\n.TH SOW 1\nno end\n"),
    ("empty.1", ""),
    ("empty.1.gz", ""),
    ("blank.1", "\n \n"),
]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(("name", "content"), ROTATED)
def test_other_files_that_are_named_like_pages(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path / name, content.encode())
    assert why_passed_over(path)
    with pytest.raises(DocumentError, match="no macros") as found:
        Document.from_file(path)
    # A reason that lists the suffix of the file among those that are known says nothing.
    assert ".1 to .9" not in str(found.value)


@pytest.mark.parametrize("name", ["sow.1", "index.html.1", "sow.txt.1.gz", "sow.roff", "sow.1.man"])
@pytest.mark.parametrize(
    "before",
    [
        "",
        "'\\\" t\n",
        '\\" a comment without a point\n',
        "\n.\n'br\n.de V\ntext of a macro\n..\n.ig \\\" note\nA licence.\n..\n",
        ".ig end\nA licence.\n..\n.end\n.ds x y\n\\t\n",
        '.\\" a comment\r\n',
    ],
)
def test_pages(tmp_path: Path, name: str, before: str) -> None:
    path = write(tmp_path / name, (before + PAGE).encode())
    assert not why_passed_over(path)
    assert Document.from_file(path).title == "sow(1) - put seeds into the soil"


@pytest.mark.parametrize("start", [".Dd May 1\n", ".Dt SOW 1\n", ".Sh NAME\n", ".SH NAME\n", "'TH SOW 1\n"])
def test_each_macro_that_a_page_begins_with(start: str) -> None:
    assert is_manual_page(start.encode())


def test_pages_with_a_byte_order_mark(tmp_path: Path) -> None:
    marked = [PAGE.encode(encoding) for encoding in ("utf-16", "utf-32", "utf-8-sig")]
    marked.append(codecs.BOM_UTF16_BE + PAGE.encode("utf-16-be"))
    for number, content in enumerate(marked):
        path = write(tmp_path / f"sow{number}.1", content)
        assert not why_passed_over(path) and Document.from_file(path).title.startswith("sow(1)")


def test_a_page_behind_many_comments(tmp_path: Path) -> None:
    path = write(tmp_path / "sow.1.gz", ('.\\" A licence.\n' * 20_000 + PAGE).encode())
    assert not why_passed_over(path) and Document.from_file(path).title.startswith("sow(1)")


def test_what_a_page_leads_to() -> None:
    assert leads_to(b'.\\" moved\n\n.so man1/reap.1\n.\\" note\n') == "man1/reap.1"
    assert leads_to(".so man1/reap.1\n".encode("utf-16")) == "man1/reap.1"
    assert leads_to(b".so man1/reap.1\ntext\n") == leads_to(PAGE.encode()) == leads_to(b"") == ""
