"""Data sets laid out as the hub keeps OpenWebText: Parquet files of one configuration, named in README.md."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_examples import SettingsFactory, text_of

from graphdoc.corpus.corpus import prepare_corpus
from graphdoc.corpus.document import CorpusReport
from graphdoc.corpus.source import CorpusSource, StreamingCorpus
from graphdoc.errors import DocumentError
from graphdoc.segmentation.segmenter import Segmenter

FILES, ROWS = 4, 5
README = """---
dataset_info:
  config_name: plain_text
  features:
  - name: text
    dtype: string
  splits:
  - name: train
    num_bytes: 10000
    num_examples: 20
configs:
- config_name: plain_text
  data_files:
  - split: train
    path: plain_text/train-*
  default: true
---
# OpenWebText
"""


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    folder = tmp_path / "openwebtext"
    (folder / "plain_text").mkdir(parents=True)
    (folder / "README.md").write_text(README, encoding="utf-8")
    for number in range(FILES):
        texts = [text_of(2, ROWS * number + row) for row in range(ROWS)]
        pq.write_table(pa.table({"text": texts}), folder / f"plain_text/train-{number:05d}-of-{FILES:05d}.parquet")
    return folder


def rows_of(corpus: Any) -> set[int]:
    return {document.group for document in corpus}


def test_it_is_stored_and_streamed_alike(settings: SettingsFactory, segmenter: Segmenter, web: Path) -> None:
    stored = prepare_corpus(settings(dataset=str(web)), segmenter)
    assert len(stored) == FILES * ROWS
    streamed = list(StreamingCorpus(settings(dataset=str(web), streaming=True), segmenter, shuffled=1))
    assert [one.id for one in streamed] == stored.ids
    assert [one.group for one in streamed] == [stored[number].group for number in range(len(stored))]
    assert not list((web.parent / "datasets").rglob("*.arrow")), "nothing is copied"
    first = prepare_corpus(settings(dataset=str(web), split="train[:25%]"), segmenter)
    assert first.ids == stored.ids[:ROWS]
    named = prepare_corpus(settings(dataset=str(web), dataset_config="plain_text"), segmenter)
    assert named.fingerprint == stored.fingerprint


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_every_process_reads_its_own_share(
    settings: SettingsFactory, segmenter: Segmenter, web: Path, processes: int
) -> None:
    chosen = settings(dataset=str(web), streaming=True)
    shares: list[set[int]] = []
    for rank in range(processes):
        process: Any = SimpleNamespace(rank=rank, count=processes)
        corpus = StreamingCorpus(chosen, segmenter, process, shuffled=1)
        shares.append(rows_of(corpus))
        assert corpus.report.documents == len(shares[-1])
        if FILES % processes == 0:
            assert len(shares[-1]) == FILES * ROWS // processes
    assert len(set.union(*shares)) == sum(map(len, shares)) == FILES * ROWS


def test_a_share_of_whole_files_reads_no_others(settings: SettingsFactory, web: Path) -> None:
    for number in (1, 3):
        (web / f"plain_text/train-{number:05d}-of-{FILES:05d}.parquet").write_bytes(b"broken")
    chosen = settings(dataset=str(web), streaming=True)
    assert len(list(CorpusSource(chosen).documents(CorpusReport(), 0, 2))) == 2 * ROWS
    with pytest.raises(DocumentError, match="after row 0"):
        list(CorpusSource(chosen).documents(CorpusReport(), 1, 2))


def test_changed_files_make_another_corpus_and_touched_ones_do_not(
    settings: SettingsFactory, segmenter: Segmenter, web: Path
) -> None:
    before = prepare_corpus(settings(dataset=str(web)), segmenter)
    path = web / f"plain_text/train-00002-of-{FILES:05d}.parquet"
    os.utime(path, ns=(0, 10**18))
    assert prepare_corpus(settings(dataset=str(web)), segmenter).fingerprint == before.fingerprint
    pq.write_table(pa.table({"text": [text_of(2, 1000 + row) for row in range(ROWS)]}), path)
    os.utime(path, ns=(0, 10**18))
    after = prepare_corpus(settings(dataset=str(web)), segmenter)
    assert after.content != before.content


def test_a_revision_may_be_chosen(
    settings: SettingsFactory, segmenter: Segmenter, web: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    real = datasets.load_dataset_builder
    monkeypatch.setattr(
        datasets, "load_dataset_builder", lambda *names, **options: asked.update(options) or real(*names, **options)
    )
    CorpusSource(settings(dataset=str(web), revision="refs/convert/parquet"))
    assert asked["revision"] == "refs/convert/parquet"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"split": "test"}, ["split 'test'"]),
        ({"dataset_config": "other"}, ["configuration 'other'"]),
        ({"split": "train[:10%]", "streaming": True}, ["split 'train[:10%]'"]),
    ],
)
def test_what_is_not_there_is_named(
    settings: SettingsFactory, web: Path, options: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(DocumentError) as caught:
        CorpusSource(settings(dataset=str(web), **options))
    assert all(part in str(caught.value) for part in (*parts, str(web)))
    assert "\n" not in str(caught.value)
