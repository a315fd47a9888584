from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from typed import Patch

from graphdoc import read_documents
from graphdoc.documents.document import Document
from graphdoc.documents.readers.folders import source_reaching
from graphdoc.documents.readers.pair_files import Pairs, read_link_file, read_pair_file
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
    assert [pairs.location(number) for number in range(3)] == [f"{path}:{line}" for line in (1, 3, 4)]
    assert (len(pairs), pairs.name) == (3, str(path))
    for heading in ("id_a\tid_b\tlabel", "citing_id\tcited_id\tlabel", "x\ty\tLabel"):
        assert list(read_pair_file(written(path, f"{heading}\na\tb\t1\n"))) == [("a", "b", 1)]
    links = read_link_file(written(path, "citing_id\tcited_id\na\tb\nb\tc\n"))
    assert list(links) == [("a", "b", 1), ("b", "c", 1)] and links.location(1) == f"{path}:3"
    assert len(read_link_file(written(path, "id_1\tid_2\na\tb\n"))) == 2


def test_ids_are_those_of_documents(tmp_path: Path) -> None:
    """What stands around an id, or can be in no text, is left out of both."""
    given = (" doc 0 ", "a\u00a0", "b\0c")
    documents = [Document.from_mapping({"id": id, "text": "Rice."}).id for id in given]
    assert list(read_pair_file(written(tmp_path / "pairs.tsv", "\t".join((*given[:2], "1"))))) == [(*documents[:2], 1)]
    assert list(Pairs.from_sequence([(*given[:2], 1)])) == [(*documents[:2], 1)]
    assert list(read_link_file(written(tmp_path / "links.tsv", "\t".join(given[1:])))) == [(*documents[1:], 1)]
    with pytest.raises(DocumentError, match=r"links.tsv:1: "):
        read_link_file(written(tmp_path / "links.tsv", "a\t \n"))


def test_pairs_of_documents_that_are_not_there(tmp_path: Path) -> None:
    pairs = read_pair_file(written(tmp_path / "pairs.tsv", "a\tb\t1\na\t<x>\t0\ny\tb\t0\na\tc\t1\n"))
    left = pairs.among({"a", "b", "c"}, "leave_out")
    assert list(left) == [("a", "b", 1), ("a", "c", 1)] and left.location(1) == f"{tmp_path}/pairs.tsv:4"
    assert pairs.among({"a", "b", "c", "<x>", "y"}) is pairs
    with pytest.raises(DocumentError, match=r"pairs.tsv:2: .*'<x>'.*2 of 4 "):
        pairs.among(["a", "b", "c"])
    with pytest.raises(DocumentError, match=r"pairs.tsv:3: .*'y'"):
        pairs.among(dict.fromkeys(["a", "b", "c", "<x>"]))


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b"a\tb\t1\na b 0\n", [":2: "]), (b"a\tb\tyes\n", [":1: "]), (b"a\tb\n", [":1: "]), (b"a\t\t1\n", [":1: "]),
        (b"a\tb\t1\nid_a\tid_b\tlabel\n", [":2: "]), (b"a\tb\t1\na\tc\t1\nb\ta\t0\n", [":3: ", "'b'", "'a'", ":1"]),
        (b"", []), (b"id_a\tid_b\tlabel\n\n", []), (b"\xff\xfe", ["line 1"]),
    ],
)  # fmt: skip
def test_broken_files_of_pairs(tmp_path: Path, content: bytes, values: list[str]) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(DocumentError) as raised:
        read_pair_file(path)
    assert all(value in str(raised.value) for value in [str(path), *values])


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: Patch) -> Path:
    """A folder of documents, reached through a link as well, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "papers" / "deep").mkdir(parents=True)
    (tmp_path / "papers" / "a.md").write_text("Some text.")
    (tmp_path / "corpus.jsonl").write_text('{"id": "x", "text": "Some text."}\n')
    (tmp_path / "link").symlink_to("papers")
    (tmp_path / "outside").mkdir()
    (tmp_path / "papers" / "out").symlink_to(tmp_path / "outside")
    return tmp_path / "papers"


@pytest.mark.parametrize(
    ("source", "file", "is_read"),
    [
        ("papers", "papers/hits.html", True), ("papers", "papers/deep/down/hits.json.gz", True),
        ("link", "papers/hits.html", True), ("papers", "link/hits.html", True),
        ("papers", "papers/out/hits.html", True), ("papers/*.html", "papers/hits.html", True),
        ("papers/**/*.html", "papers/deep/hits.html", True), ("papers/d*", "papers/deep/hits.html", True),
        ("corpus.jsonl", "corpus.jsonl", True), ("corpus.jsonl#x", "./corpus.jsonl", True),
        ("papers", "papers/hits.run", False), ("papers", "papers/.hidden/hits.html", False),
        ("papers", "papers-hits.html", False), ("papers/*.md", "papers/hits.html", False),
        ("papers/*.html", "papers/deep/hits.html", False), ("papers/a.md", "papers/hits.html", False),
        ("corpus.jsonl#x", "hits.jsonl", False),
    ],
)  # fmt: skip
def test_files(papers: Path, source: str, file: str, is_read: bool) -> None:
    assert source_reaching(file, ["other.md", source], is_folder=False) == (source if is_read else None)
    if not Path(file).exists() and not file.endswith(".gz"):
        # As readers do it.
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text("<p>Only here.</p>")
        texts = [document.text for document in read_documents(source, on_error="skip")]
        assert ("Only here." in texts) is is_read


def test_folders(papers: Path) -> None:
    for source, folder, is_read in (
        ("papers", "papers", True),
        ("papers", "papers/vectors", True),
        ("papers/**/*.parquet", "papers/vectors", True),
        ("papers/*/*.json", "papers/vectors", True),
        ("papers/*.md", "papers/vectors", False),
        ("papers/a.md", "papers", False),
        ("papers", "papers/.vectors", False),
        ("papers", "vectors", False),
    ):
        assert source_reaching(folder, [source], is_folder=True) == (source if is_read else None)
