from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphdoc.settings.corpus import CorpusSettings


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, ["source is missing, and so is corpus.dataset", "give source"]),
        ({"source": []}, ["source is missing, and so is corpus.dataset"]),
        ({"source": ["a.jsonl"], "dataset": "b"}, ["'a.jsonl'", "'b'", "leave one of them out"]),
        ({"source": ["a.jsonl", "-"]}, ["standard input", "save it as a file"]),
        ({"source": "a", "on_error": "ignore"}, ["on_error is 'ignore'", "'skip'"]),
        ({"source": "a", "least_passages": 0}, ["least_passages is 0", "1 or more"]),
        ({"source": "a", "max_passages": 1}, ["max_passages is 1", "least_passages (2)"]),
        ({"source": "a", "shuffle_buffer": 0}, ["shuffle_buffer is 0"]),
        ({"source": "a", "preparing_processes": 0}, ["preparing_processes is 0"]),
        ({"source": "a", "preparing_processes": 513}, ["preparing_processes is 513", "512 or less"]),
    ],
)
def test_wrong_values_are_named_with_the_fix(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        CorpusSettings(**values)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_one_source_may_be_a_string() -> None:
    assert CorpusSettings(source="a.jsonl").sources == ["a.jsonl"]
    assert CorpusSettings(source=["a.jsonl", "b"]).sources == ["a.jsonl", "b"]
    assert CorpusSettings(dataset="a").sources == []


def test_cache_comes_from_the_setting_the_environment_or_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("GRAPHDOC_CACHE", raising=False)
    assert CorpusSettings(source="a").corpora_folder == Path("/home/somebody/.cache/graphdoc/corpora")
    monkeypatch.setenv("GRAPHDOC_CACHE", "/large")
    assert CorpusSettings(source="a").corpora_folder == Path("/large/corpora")
    assert CorpusSettings(source="a", cache="~/own").corpora_folder == Path("/home/somebody/own/corpora")


def test_processes_that_stream_share_the_cores_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert CorpusSettings(source="a").processes == 8
    assert CorpusSettings(source="a", streaming=True).processes == 2
    assert CorpusSettings(source="a", streaming=True, preparing_processes=5).processes == 5
