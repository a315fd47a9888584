from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from graphdoc.documents.document import Document
from graphdoc.documents.readers.pair_files import read_link_file, read_pair_file
from graphdoc.errors import DocumentError


def written(path: Path, text: str) -> Path:
    content = text.encode("utf-8")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz"])
def test_pairs(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, "\ufeffa\tb\t1\r\n\nc d\té\t0\n<b>\t [red]\u2028x \t1")
    pairs = read_pair_file(path)
    assert list(pairs) == [("a", "b", 1), ("c d", "é", 0), ("<b>", "[red]\u2028x", 1)]
    assert [pairs.place(number) for number in range(3)] == [f"{path}:{line}" for line in (1, 3, 4)]
    assert (len(pairs), pairs.name) == (3, str(path))


def test_ids_are_those_of_documents(tmp_path: Path) -> None:
    """What stands around an id, or can be in no text, is left out of both."""
    given = (" doc 0 ", "a\u00a0", "b\0c")
    documents = [Document.from_mapping({"id": id, "text": "Rice."}).id for id in given]
    assert list(read_pair_file(written(tmp_path / "pairs.tsv", "\t".join((*given[:2], "1"))))) == [(*documents[:2], 1)]
    assert list(read_link_file(written(tmp_path / "links.tsv", "\t".join(given[1:])))) == [(*documents[1:], 1)]
    with pytest.raises(DocumentError, match=r"links.tsv:1: "):
        read_link_file(written(tmp_path / "links.tsv", "a\t \n"))


@pytest.mark.parametrize("heading", ["id_a\tid_b\tlabel", "citing_id\tcited_id\tlabel", "x\ty\tLabel"])
def test_a_heading_is_passed_over(tmp_path: Path, heading: str) -> None:
    assert list(read_pair_file(written(tmp_path / "pairs.tsv", f"{heading}\na\tb\t1\n"))) == [("a", "b", 1)]


def test_links(tmp_path: Path) -> None:
    path = written(tmp_path / "links.tsv.gz", "citing_id\tcited_id\na\tb\nb\tc\n")
    links = read_link_file(path)
    assert list(links) == [("a", "b", 1), ("b", "c", 1)]
    assert links.place(1) == f"{path}:3"
    assert len(read_link_file(written(tmp_path / "links.tsv", "id_1\tid_2\na\tb\n"))) == 2


def test_pairs_of_documents_that_are_not_there(tmp_path: Path) -> None:
    pairs = read_pair_file(written(tmp_path / "pairs.tsv", "a\tb\t1\na\t<x>\t0\ny\tb\t0\na\tc\t1\n"))
    left = pairs.among({"a", "b", "c"}, "leave_out")
    assert list(left) == [("a", "b", 1), ("a", "c", 1)]
    assert left.place(1) == f"{tmp_path}/pairs.tsv:4"
    assert pairs.among({"a", "b", "c", "<x>", "y"}) is pairs
    with pytest.raises(DocumentError, match=r"pairs.tsv:2: .*'<x>'.*2 of 4 "):
        pairs.among(["a", "b", "c"])
    with pytest.raises(DocumentError, match=r"pairs.tsv:3: .*'y'"):
        pairs.among(dict.fromkeys(["a", "b", "c", "<x>"]))


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b"a\tb\t1\na b 0\n", [":2: "]),
        (b"a\tb\tyes\n", [":1: "]),
        (b"a\tb\n", [":1: "]),
        (b"a\t\t1\n", [":1: "]),
        (b"a\tb\t1\nid_a\tid_b\tlabel\n", [":2: "]),
        (b"a\tb\t1\na\tc\t1\nb\ta\t0\n", [":3: ", "'b'", "'a'", ":1"]),
        (b"", []),
        (b"id_a\tid_b\tlabel\n\n", []),
        (b"\xff\xfe", ["line 1"]),
    ],
)
def test_broken_files_of_pairs(tmp_path: Path, content: bytes, values: list[str]) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(DocumentError) as raised:
        read_pair_file(path)
    assert all(value in str(raised.value) for value in [str(path), *values])
