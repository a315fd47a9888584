"""Files of mined negatives: written, read again, and refused where they are damaged or of something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc.documents.section import clean_text
from graphdoc.errors import OutputError, RetrievalError
from graphdoc.retrieval.mining import CLOSE, JUDGED, SIMILAR, NegativeLists

LISTS = NegativeLists(
    {"by": "both", "depth": 3, "excluded": {JUDGED: 2, CLOSE: 0, SIMILAR: 1}},
    {"q1": ("tide", "wave", "ökö"), "q2": (), "q3": ("tide",)},
)


@pytest.mark.parametrize("name", ["lists.jsonl", "deep/er/lists.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    path = LISTS.write(tmp_path / name)
    found = NegativeLists.read(path)
    assert found == LISTS and list(found.lists) == list(LISTS.lists) and found.content == LISTS.content
    assert LISTS.write(path).read_bytes() == path.read_bytes()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        LISTS.write(tmp_path / "file" / "lists.jsonl")


# A byte order mark alone is no id, as white space is none.
IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9).filter(
    lambda id: clean_text(id).strip()
)


@settings(deadline=None, max_examples=50)
@given(lists=st.dictionaries(IDS, st.lists(IDS, unique=True, max_size=4).map(tuple), max_size=4))
def test_any_ids_are_kept(tmp_path_factory: pytest.TempPathFactory, lists: dict[str, tuple[str, ...]]) -> None:
    path = tmp_path_factory.mktemp("lists") / "lists.jsonl"
    assert NegativeLists.read(NegativeLists({}, lists).write(path)).lists == lists


def test_lists_are_known_by_their_content_and_described() -> None:
    assert NegativeLists({"by": "words"}, LISTS.lists).content == LISTS.content
    assert NegativeLists({}, {**LISTS.lists, "q3": ("wave",)}).content != LISTS.content
    assert "4 mined negatives of 3 queries, 1.3 each, by both" in LISTS.describe() and len(LISTS.describe()) == 4


def test_damaged_files(tmp_path: Path) -> None:
    path = LISTS.write(tmp_path / "lists.jsonl")
    header, *lines = path.read_text().splitlines()
    values = json.loads(header)
    for content, named in (
        ([], "damaged"),
        (lines, ":1"),
        (["[1, 2]"], ":1"),
        ([header, *lines[:-1]], "2 queries"),
        ([header, *lines[:-1], lines[-1][:-4]], ":4"),
        ([header, '{"query": 1, "negatives": []}'], ":2"),
        ([header, '{"query": "q1", "negatives": ["a", 2]}'], ":2"),
        ([header, '{"query": "q1", "negatives": "abc"}'], ":2"),
        ([header, lines[0], lines[0]], ":3"),
        ([header, '{"query": "q1", "negatives": ["a", "a"]}'], ":2"),
        ([json.dumps({**values, "format_version": 7}), *lines], "7"),
    ):
        path.write_text("".join(f"{line}\n" for line in content))
        with pytest.raises(RetrievalError) as error:
            NegativeLists.read(path)
        assert path.name in str(error.value) and named in str(error.value) and "\n" not in str(error.value)
    packed = LISTS.write(tmp_path / "lists.jsonl.gz")
    packed.write_bytes(packed.read_bytes()[:-9])
    for missing in (packed, tmp_path / "nowhere"):
        with pytest.raises(RetrievalError, match=missing.name):
            NegativeLists.read(missing)
