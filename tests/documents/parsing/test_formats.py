from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from graphdoc.documents.parsing.formats import numbered_lines
from graphdoc.errors import DocumentError


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    content = "\ufeffa\tb \r\n\n \t\r\nc\x0bd\u2028e\nlast".encode()
    (tmp_path / "plain.tsv").write_bytes(content)
    (tmp_path / "packed.tsv.gz").write_bytes(gzip.compress(content))
    for name in ("plain.tsv", "packed.tsv.gz"):
        assert list(numbered_lines(tmp_path / name)) == [(1, "a\tb "), (4, "c\x0bd\u2028e"), (5, "last")]


def test_lines_are_read_one_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "long.tsv").write_bytes(b"a\nb\n\xff\n")
    lines = numbered_lines(tmp_path / "long.tsv")
    assert [next(lines), next(lines)] == [(1, "a"), (2, "b")]
    with pytest.raises(DocumentError) as raised:
        next(lines)
    assert str(raised.value).startswith(f"{tmp_path}/long.tsv: line 3 ")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.tsv", tmp_path):
        with pytest.raises(DocumentError, match=f"^{path}: "):
            list(numbered_lines(path))
