"""What recipes share that train on documents known beforehand, and documents that are held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_examples import SettingsFactory, text_of, write_rows

from graphdoc import DocumentEncoder
from graphdoc.corpus.corpus import prepare_corpus
from graphdoc.corpus.document import CorpusReport
from graphdoc.corpus.parts import prepare_passage_vectors
from graphdoc.corpus.source import CorpusSource
from graphdoc.errors import DocumentError
from graphdoc.recipes import mined_negatives as module
from graphdoc.recipes.base import CorpusRecipe
from graphdoc.recipes.mined_negatives import corpus_vectors
from graphdoc.runtime.processes import Processes
from graphdoc.settings.finetuning import ClassificationSettings
from graphdoc.settings.run import TrainingSettings
from graphdoc.training.run import RunContext

LABELS: list[Any] = ["rice", 7, 2.5, ["tide", "marsh"], [], None, " rice \t", "7"]


class AnyData(CorpusRecipe):
    """Data of no task."""

    def collator(self) -> Any:
        raise NotImplementedError

    def counts(self) -> dict[str, Any]:
        return {}


@dataclass
class Written:
    """A corpus and where it is."""

    data: AnyData
    path: Path
    rows: list[dict[str, Any]]


@pytest.fixture
def written(tiny_encoder: Callable[..., DocumentEncoder], tmp_path: Path) -> Written:
    rows = [
        {"id": f"d{number // 2}", "text": text_of(1, number), "label": label, "split": "dev" if number % 2 else None}
        for number, label in enumerate(LABELS)
    ]
    path = write_rows(tmp_path / "corpus.jsonl", rows)
    corpus = {"source": str(path), "cache": str(tmp_path / "cache"), "preparing_processes": 1}
    settings = ClassificationSettings(corpus=corpus, output=str(tmp_path / "run"))
    return Written(AnyData(RunContext(settings, tiny_encoder(), Processes(torch.device("cpu")))), path, rows)


def test_documents_are_read_again_whatever_their_labels_are(written: Written) -> None:
    for wanted in ([], [2], [1, 3, 6], list(range(len(LABELS)))):
        found = written.data.documents_of(np.array(wanted, np.int64))
        assert [one.text for one in found] == [written.rows[row]["text"] for row in wanted]


@pytest.mark.parametrize("change", [{"label": "moss"}, {"text": "Rice."}, {"split": "test"}])
def test_documents_that_have_changed_are_named(written: Written, change: dict[str, str]) -> None:
    write_rows(written.path, [*written.rows[:2], {**written.rows[2], **change}, *written.rows[3:]])
    assert len(written.data.documents_of(np.array([0, 1, 3]))) == 3
    with pytest.raises(DocumentError, match=r"corpus\.jsonl: document 'd1' has changed .*; start the run again"):
        written.data.documents_of(np.array([0, 2]))


@pytest.mark.parametrize(("frozen", "window"), [(False, 7), (True, 10_000)])
def test_vectors_are_those_of_the_documents(
    tiny_encoder: Callable[..., DocumentEncoder],
    settings: SettingsFactory,
    monkeypatch: pytest.MonkeyPatch,
    frozen: bool,
    window: int,
) -> None:
    encoder = tiny_encoder("roberta", graph_kind="section", graph_layers=2, max_passages=100)
    for part in encoder.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    chosen = settings()
    processes = Processes(torch.device("cpu"))
    corpus = prepare_corpus(chosen, encoder.segmenter, processes, show_progress=False)
    vectors = prepare_passage_vectors(corpus, encoder.model, show_progress=False) if frozen else None
    monkeypatch.setattr(module, "WINDOW_PASSAGES", window)
    encoder.model.train()
    state = torch.get_rng_state()
    found = corpus_vectors(encoder, corpus, vectors, TrainingSettings(), processes)
    assert torch.equal(torch.get_rng_state(), state)
    assert encoder.model.training
    encoder.model.eval()
    documents = {document.id: document for _, document in CorpusSource(chosen).documents(CorpusReport())}
    expected = encoder.encode([documents[id] for id in corpus.ids])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert len(found) == 36
