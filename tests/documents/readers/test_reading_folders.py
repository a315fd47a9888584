"""Which places sources of documents read: what is written there would be read too."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoc import read_documents
from graphdoc.documents.readers.folders import source_reaching


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
        ("papers", "papers/hits.html", True),
        ("papers", "papers/deep/down/hits.json.gz", True),
        ("link", "papers/hits.html", True),
        ("papers", "link/hits.html", True),
        ("papers", "papers/out/hits.html", True),
        ("papers/*.html", "papers/hits.html", True),
        ("papers/**/*.html", "papers/deep/hits.html", True),
        ("papers/d*", "papers/deep/hits.html", True),
        ("corpus.jsonl", "corpus.jsonl", True),
        ("corpus.jsonl#x", "./corpus.jsonl", True),
        ("papers", "papers/hits.run", False),
        ("papers", "papers/.hidden/hits.html", False),
        ("papers", "papers-hits.html", False),
        ("papers/*.md", "papers/hits.html", False),
        ("papers/*.html", "papers/deep/hits.html", False),
        ("papers/a.md", "papers/hits.html", False),
        ("corpus.jsonl#x", "hits.jsonl", False),
    ],
)
def test_files(papers: Path, source: str, file: str, is_read: bool) -> None:
    assert source_reaching(file, ["other.md", source], is_folder=False) == (source if is_read else None)
    if not Path(file).exists() and not file.endswith(".gz"):
        # As readers do it.
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text("<p>Only here.</p>")
        texts = [document.text for document in read_documents(source, on_error="skip")]
        assert ("Only here." in texts) is is_read


@pytest.mark.parametrize(
    ("source", "folder", "is_read"),
    [
        ("papers", "papers", True),
        ("papers", "papers/vectors", True),
        ("papers/**/*.parquet", "papers/vectors", True),
        ("papers/*/*.json", "papers/vectors", True),
        ("papers/*.md", "papers/vectors", False),
        ("papers/a.md", "papers", False),
        ("papers", "papers/.vectors", False),
        ("papers", "vectors", False),
    ],
)
def test_folders(papers: Path, source: str, folder: str, is_read: bool) -> None:
    assert source_reaching(folder, [source], is_folder=True) == (source if is_read else None)
