from __future__ import annotations

from pathlib import Path

import pytest

from graphdoc.settings.corpus import CorpusSettings
from graphdoc.settings.output_folder import output_folder, require_usable_output


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    (tmp_path / "documents" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "documents")
    return tmp_path / "documents"


def corpus(source: str | list[str], tmp_path: Path, **changes: str) -> CorpusSettings:
    return CorpusSettings(source=source, **{"cache": str(tmp_path / "cache"), **changes})


@pytest.mark.parametrize(
    "output", ["documents", "documents/run", "documents/deep/run", "link/run", "x/../documents/run"]
)
@pytest.mark.parametrize("pattern", ["", "/**/*", "/**/*.md", "/**/*.json", "/*/../**/*.jsonl"])
def test_what_would_be_read_as_documents_is_refused(
    documents: Path, tmp_path: Path, output: str, pattern: str
) -> None:
    if output.startswith("x"):
        (tmp_path / "x").mkdir()
    source = [str(tmp_path / "elsewhere.jsonl"), f"{documents}{pattern}"]
    with pytest.raises(ValueError, match=r"^output=.* lies in corpus\.source=.*; choose an output elsewhere"):
        require_usable_output(str(tmp_path / output), corpus(source, tmp_path))


def test_the_cache_is_no_place_for_documents_either(documents: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^corpus\.cache=.*documents/cache/corpora lies in corpus\.source"):
        require_usable_output("run", corpus(str(documents), tmp_path, cache=str(documents / "cache")))


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
    require_usable_output(str(tmp_path / output), corpus(str(tmp_path / source), tmp_path))


@pytest.mark.parametrize("output", ["", " ", "\t"])
def test_a_blank_name_is_refused(tmp_path: Path, output: str) -> None:
    with pytest.raises(ValueError, match="is no name of a folder"):
        require_usable_output(output, corpus("documents", tmp_path))


def test_the_home_folder_may_be_written_short() -> None:
    assert output_folder("~/runs/1") == Path.home() / "runs" / "1"


def test_what_leads_nowhere_is_told_by_those_who_go_there(documents: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for output in ("~nobody-of-that-name/run", str(tmp_path / "loop" / "run")):
        require_usable_output(output, corpus(str(documents), tmp_path))
    for source in ("~nobody-of-that-name/papers", str(tmp_path / "loop"), str(tmp_path / "loop" / "**" / "*.md")):
        require_usable_output("run", corpus(source, tmp_path))
