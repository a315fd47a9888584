from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from collections_of_topics import make_overview
from typed import Log

from graphdoc.errors import DocumentError
from graphdoc.overview.names import GivenName, apply_given_names, name_groups, read_names, write_names

TIDES = [f"The Tidal Basin {word} fills. It is the state of the tide: see src/tidal/basin.rs" for word in "abcd"]
BREAD = [f"Flour, salt and sourdough starter. A sourdough starter {word} rises in the oven." for word in "abcd"]


def test_names_are_phrases_as_they_are_written() -> None:
    words = [("tidal", "basin", "tide"), ("sourdough", "starter", "flour", "oven")]
    tides, bread = name_groups([*TIDES, *BREAD], [np.arange(4), np.arange(4, 8)], words, "en")
    assert tides[0] == "Tidal Basin" and "state of the tide" not in tides
    assert bread[0] == "sourdough starter"
    for phrases in (tides, bread):
        used = [word.lower() for phrase in phrases for word in phrase.split()]
        assert len(used) == len(set(used)) and {"src", "rs", "the", "a"}.isdisjoint(used)


def test_weights_by_hand() -> None:
    # Words apart from each other, so that phrases are single words; `p log(p / q)` by NumPy.
    held = np.array(
        [[1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0]]
    )
    words = ["zinc", "copper", "iron", "silver"]
    texts = [", ".join(word for word, has in zip(words, column, strict=True) if has) for column in held.T]
    own, everything = held[:, :4].mean(axis=1), held.mean(axis=1)
    order = np.argsort(-own * np.log(own / everything), kind="stable")[:3]
    (found,) = name_groups(texts, [np.arange(4)], [words], "en")
    assert list(found) == [words[place] for place in order]


def test_nothing_to_say_and_no_spaces() -> None:
    assert name_groups(["a", "", "b"], [np.arange(3)], [()], "en") == [()]
    assert name_groups(["\u6f6e\u6c50"] * 3, [np.arange(2)], [("\u6f6e\u6c50",)], "zh") in ([()], [("\u6f6e\u6c50",)])


def test_names_that_people_give_are_kept(tmp_path: Path, caplog: Log) -> None:
    overview = make_overview(group_size=15)
    ids = [digest.id for digest in overview.documents]
    path = write_names(tmp_path / "names.csv", overview.groups, ids)
    assert overview.with_names(read_names(path)).to_dict() == overview.to_dict()
    typical = ids[overview.groups[1].typical[0]]
    path.write_text(f"typical,group,name\n{typical},9,What I call it\n,1,=First\nno/such,2,Gone\n{ids[0]},,\n")
    named_again = overview.with_names(read_names(path))
    expected = ["=First", "What I call it", *(group.name for group in overview.groups[2:])]
    assert [group["name"] for group in named_again.to_dict()["groups"]] == expected
    assert "Gone" in caplog.text
    assert apply_given_names(overview.groups, ids, [GivenName("1", "", "")])[0].name == overview.groups[0].name


@pytest.mark.parametrize("content", [b"id,title\na,b\n", b"name\nx\n", b"\xff\xfe\x00"])
def test_tables_that_are_none_of_names(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_bytes(content)
    with pytest.raises(DocumentError, match="names"):
        read_names(tmp_path / "names.csv")
