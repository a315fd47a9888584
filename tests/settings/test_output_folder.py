from __future__ import annotations

from pathlib import Path

import pytest

from graphdoc.documents.readers.folders import source_reaching
from graphdoc.errors import SettingsError
from graphdoc.settings.output_folder import output_folder
from graphdoc.settings.sub_documents import PretrainingSettings


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    (tmp_path / "documents" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "documents")
    return tmp_path / "documents"


@pytest.mark.parametrize(
    "output", ["documents", "documents/run", "documents/deep/run", "link/run", "x/../documents/run"]
)
@pytest.mark.parametrize("pattern", ["", "/**/*", "/**/*.md", "/**/*.json", "/*/../**/*.jsonl"])
def test_what_would_be_read_as_documents_is_refused(
    documents: Path, tmp_path: Path, output: str, pattern: str
) -> None:
    if output.startswith("x"):
        (tmp_path / "x").mkdir()
    source = f"{documents}{pattern}"
    assert source_reaching(tmp_path / output, [str(tmp_path / "elsewhere.jsonl"), source], is_folder=True) == source


@pytest.mark.parametrize(
    ("output", "cache", "key"), [("documents/run", "cache", "output"), ("run", "documents/cache", "corpus.cache")]
)
def test_a_run_writes_nothing_among_its_documents(
    documents: Path, tmp_path: Path, output: str, cache: str, key: str
) -> None:
    corpus = {"source": str(documents), "cache": str(tmp_path / cache)}
    with pytest.raises(SettingsError) as caught:
        PretrainingSettings(corpus=corpus, output=str(tmp_path / output))
    assert str(caught.value).startswith(f"{key}=")
    assert f"corpus.source={documents}" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("documents", "run"),
        ("documents", "documents-run"),
        ("documents/deep", "documents/run"),
        ("documents", "documents/.runs/1"),
        ("documents/*.md", "documents/run"),
        ("documents/**/*.pdf", "documents/run"),
        ("documents/a.md", "documents/run"),
        ("nowhere", "nowhere/run"),
    ],
)
def test_what_is_not_read_may_be_written(documents: Path, tmp_path: Path, source: str, output: str) -> None:
    assert source_reaching(tmp_path / output, [str(tmp_path / source)], is_folder=True) is None


def test_the_home_folder_may_be_written_short() -> None:
    assert output_folder("~/runs/1") == Path.home() / "runs" / "1"


def test_what_leads_nowhere_is_reported_by_those_who_go_there(documents: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for output in ("~nobody-of-that-name/run", str(tmp_path / "loop" / "run")):
        assert source_reaching(output_folder(output), [str(documents)], is_folder=True) is None
    for source in ("~nobody-of-that-name/papers", str(tmp_path / "loop"), str(tmp_path / "loop" / "**" / "*.md")):
        assert source_reaching(tmp_path / "run", [source], is_folder=True) is None
