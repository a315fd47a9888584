from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphdoc.documents import Columns
from graphdoc.errors import SettingsError
from graphdoc.settings.corpus import CorpusSettings


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, ["source=null", "dataset"]),
        ({"source": []}, ["source=[]", "dataset"]),
        ({"source": ["a.jsonl"], "dataset": "b"}, ["a.jsonl", "dataset='b'"]),
        ({"source": ["a.jsonl", "-"]}, ["'-'", "standard input", "save it as a file"]),
        ({"source": ""}, ["source=''", "blank"]),
        ({"source": 3}, ["source=3", "text"]),
        ({"source": "a", "on_error": "ignore"}, ["on_error='ignore'", "skip_in_folders, skip or stop"]),
        ({"source": "a", "least_passages": 0}, ["least_passages=0", "at least 1"]),
        ({"source": "a", "max_passages": 1}, ["max_passages=1", "least_passages=2"]),
        ({"source": "a", "preparing_processes": 0}, ["preparing_processes=0", "at least 1"]),
        ({"source": "a", "preparing_processes": 513}, ["preparing_processes=513", "at most 512"]),
        ({"source": "a", "split": "train[:10%]"}, ["split='train[:10%]'", "leave_out_splits"]),
        ({"source": "a", "dataset_config": "b"}, ["dataset_config='b'", "dataset"]),
        ({"source": "a", "revision": "b"}, ["revision='b'", "dataset"]),
        ({"source": "a", "data_files": "b"}, ["data_files='b'", "dataset"]),
        ({"dataset": "a", "data_files": {"train": 3}}, ["data_files={'train': 3}", "text"]),
        ({"dataset": "a", "label_from": "folder"}, ["label_from='folder'", "dataset"]),
        ({"source": "a", "cache": "b\0"}, ["cache='b\\x00'", "NUL"]),
        ({"source": "a", "columns": {"txt": "b"}}, ["columns.txt", "columns.text"]),
        ({"source": "a", "sources": "b"}, ["sources", "source"]),
    ],
)
def test_wrong_values_are_named_with_the_fix(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        CorpusSettings(**values)
    assert str(caught.value).isprintable()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_files_of_a_data_set_are_named_in_any_form() -> None:
    for files in ("data/*.parquet", ["a.parquet", "b.parquet"], {"train": "a.parquet", "test": ["b.parquet"]}):
        assert CorpusSettings(dataset="a", revision="main", data_files=files).data_files == files


def test_other_documents_are_read_in_the_same_way() -> None:
    settings = CorpusSettings(
        dataset="a", dataset_config="b", revision="c", data_files="d", split="e", max_passages=7, columns={"text": "f"}
    )
    assert settings.with_source("g") == CorpusSettings(source="g", max_passages=7, columns=Columns(text="f"))


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
