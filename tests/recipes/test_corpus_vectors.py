"""Document vectors of a training corpus: those of encoding its documents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from corpus_examples import SettingsFactory

from graphdoc import DocumentEncoder
from graphdoc.corpus.corpus import prepare_corpus
from graphdoc.corpus.document import CorpusReport
from graphdoc.corpus.parts import prepare_passage_vectors
from graphdoc.corpus.source import CorpusSource
from graphdoc.recipes import mined_negatives as module
from graphdoc.recipes.mined_negatives import corpus_vectors
from graphdoc.runtime.processes import Processes
from graphdoc.settings.run import TrainingSettings


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("window", [7, 10_000])
def test_vectors_are_those_of_the_documents(
    tiny_encoder: Callable[..., DocumentEncoder],
    settings: SettingsFactory,
    monkeypatch: pytest.MonkeyPatch,
    frozen: bool,
    window: int,
) -> None:
    encoder = tiny_encoder("roberta", graph_kind="section", graph_layers=2, attention_dropout=0.5, max_passages=100)
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
