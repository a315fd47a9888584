"""Baselines of the papers' tables: coherence of topics, and vectors of whole chunks."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from graphdoc import Document, DocumentEncoder
from graphdoc.evaluation.rankers import RankedCorpus, rank_documents

pytest.importorskip("ir_measures")


@pytest.fixture
def baselines(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    return importlib.import_module("paper_baselines")


def test_coherence_against_a_loop(baselines: ModuleType) -> None:
    draw = np.random.default_rng(0)
    counts, topics = draw.integers(0, 2, (12, 15)), draw.random((3, 15))
    counts[:, 0] = 1
    values = []
    for topic in topics:
        best = sorted(range(15), key=lambda word: -topic[word])[:10]
        for place, one in enumerate(best):
            for other in best[place + 1 :]:
                joint = np.mean((counts[:, one] > 0) & (counts[:, other] > 0))
                apart = np.mean(counts[:, one] > 0) * np.mean(counts[:, other] > 0)
                values.append(-1 if joint == 0 else 0 if joint == 1 else math.log(joint / apart) / -math.log(joint))
    assert baselines.npmi(csr_matrix(counts.astype(float)), topics) == pytest.approx(np.mean(values))


def test_chunks_of_a_transformer_alone(
    baselines: ModuleType, tiny_encoder: Callable[..., DocumentEncoder], structured: list[Document]
) -> None:
    encoder = tiny_encoder("bert")
    corpus = RankedCorpus(structured, lambda: encoder, show_progress=False)
    before = encoder.encode(structured)
    for pooling in ("cls", "mean"):
        first = baselines.chunk_encoder(encoder, pooling, 1)
        for document in structured:
            segmented = first.segment(document)
            (ids,) = segmented.token_ids
            assert segmented.coverage.encoded_tokens == segmented.passages[0].tokens
            with torch.no_grad():
                hidden = encoder.model.passage_encoder.tokens(torch.tensor([ids]), torch.ones(1, len(ids)))[0]
            expected = hidden[0] if pooling == "cls" else hidden.mean(dim=0)
            np.testing.assert_allclose(first.encode(document), expected.numpy(), atol=1e-5)
    ids = [document.id for document in structured]
    found = rank_documents(corpus, ids, {}, list(baselines.PAPER_RANKERS), rankers=baselines.PAPER_RANKERS)
    assert all(scores.keys() == set(ids) - {id} for run in found.runs.values() for id, scores in run.items())
    np.testing.assert_array_equal(encoder.encode(structured), before)


def test_the_first_chunk_is_as_long_as_the_transformer_takes(
    baselines: ModuleType, backbone_folder: Callable[[str], Path], structured: list[Document]
) -> None:
    encoder = baselines.first_chunk_encoder(backbone_folder("bert"), device="cpu")
    document = Document.from_text(" ".join(section.text for section in structured[0].sections) + " Rice." * 90)
    segmented = encoder.segment(document)
    assert 60 <= len(segmented.token_ids[0]) <= 80
    coverage = segmented.coverage
    assert coverage.characters - coverage.encoded_characters == coverage.left_out[baselines.TOKEN_LIMIT]
