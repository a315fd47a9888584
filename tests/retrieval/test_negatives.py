"""Files of mined negatives: written, read again, and refused where they are damaged or of something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc.documents.section import clean_text
from graphdoc.errors import OutputError, RetrievalError
from graphdoc.retrieval.negatives import CLOSE, JUDGED, SIMILAR, NegativeLists

LISTS = NegativeLists(
    {"by": "both", "depth": 3, "excluded": {JUDGED: 2, CLOSE: 0, SIMILAR: 1}},
    {"q1": ("tide", "wave", "ökö"), "q2": (), "q3": ("tide",)},
)


@pytest.mark.parametrize("name", ["lists.jsonl", "deep/er/lists.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    path = LISTS.write(tmp_path / name)
    found = NegativeLists.read(path, documents=["tide", "wave", "ökö", "gate"], queries=["q1", "q2", "q3"])
    assert found == LISTS
    assert list(found.lists) == list(LISTS.lists)
    assert found.content == LISTS.content
    first = path.read_bytes()
    assert LISTS.write(path).read_bytes() == first
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


# A byte order mark alone is no id, as white space is none.
IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9).filter(
    lambda id: clean_text(id).strip()
)


@settings(deadline=None, max_examples=50)
@given(lists=st.dictionaries(IDS, st.lists(IDS, unique=True, max_size=4).map(tuple), max_size=4))
def test_any_ids_are_kept(tmp_path_factory: pytest.TempPathFactory, lists: dict[str, tuple[str, ...]]) -> None:
    path = tmp_path_factory.mktemp("lists") / "lists.jsonl"
    written = NegativeLists({}, lists)
    assert NegativeLists.read(written.write(path)).lists == lists


def test_content_is_that_of_the_lists() -> None:
    assert NegativeLists({"by": "words"}, LISTS.lists).content == LISTS.content
    assert NegativeLists({}, {**LISTS.lists, "q3": ("wave",)}).content != LISTS.content


def test_in_words() -> None:
    lines = LISTS.describe()
    assert "4 mined negatives of 3 queries, 1.3 each, by both" in lines
    assert any("2 candidates" in line and "judged" in line for line in lines)
    assert any("1 query has none left" in line for line in lines)
    assert len(lines) == 4


def refused(path: Path, **options: list[str]) -> str:
    with pytest.raises(RetrievalError) as error:
        NegativeLists.read(path, **options)
    message = str(error.value)
    assert path.name in message
    assert len(message.splitlines()) == 1
    return message


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "lists.jsonl"
    assert "no such file" in refused(path).lower()
    lines = LISTS.write(path).read_text().splitlines()

    def with_lines(*changed: str) -> str:
        path.write_text("\n".join(changed) + "\n")
        return refused(path)

    path.write_text("")
    assert "format" in refused(path)
    assert "format" in with_lines(*lines[1:])
    assert "format" in with_lines("[1, 2]")
    assert "2 queries" in with_lines(*lines[:-1])
    assert "lists.jsonl:4" in with_lines(*lines[:-1], lines[-1][:-4])
    assert "lists.jsonl:2" in with_lines(lines[0], '{"query": 1, "negatives": []}')
    assert "lists.jsonl:2" in with_lines(lines[0], '{"query": "q1", "negatives": ["a", 2]}')
    assert "lists.jsonl:2" in with_lines(lines[0], '{"query": "q1", "negatives": "abc"}')
    assert "twice" in with_lines(lines[0], lines[1], lines[1])
    assert "twice" in with_lines(lines[0], '{"query": "q1", "negatives": ["a", "a"]}')
    header = json.loads(lines[0])
    for excluded in (5, {JUDGED: "x"}):
        assert "excluded" in with_lines(json.dumps({**header, "record": {"excluded": excluded}}), *lines[1:])
    newer = with_lines(json.dumps({**header, "format_version": 7}), *lines[1:])
    assert "7" in newer
    assert "version" in newer
    packed = LISTS.write(tmp_path / "lists.jsonl.gz")
    packed.write_bytes(packed.read_bytes()[:-9])
    refused(packed)


def test_ids_that_are_not_there(tmp_path: Path) -> None:
    path = LISTS.write(tmp_path / "lists.jsonl")
    message = refused(path, documents=["tide", "ökö"])
    assert "1 document" in message
    assert "'wave'" in message
    message = refused(path, queries=["q2"])
    assert "2 queries" in message
    assert "'q1'" in message


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        LISTS.write(tmp_path / "file" / "lists.jsonl")
