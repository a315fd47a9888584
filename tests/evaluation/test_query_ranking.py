"""Ranking documents for queries by an encoder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import SettingsError
from graphdoc.evaluation import score_run
from graphdoc.evaluation.measures import metric_name
from graphdoc.evaluation.query_ranking import RankingEvaluator

pytest.importorskip("ir_measures", reason="needs the extra graphdoc[retrieval]")

TEXTS = {"a": "Rice is steamed. Koji grows on rice.", "b": "Tides rise and fall.", "c": "A kiln is fired with wood.",
         "d": "Rice mould."}  # fmt: skip
QUERIES = {"q1": "steamed rice", "q2": "high tide", "q3": "wood fire"}
QRELS = {"q1": {"a": 1, "d": 2}, "q2": {"b": 1}, "q3": {"c": 1, "a": 0}}


@pytest.fixture
def documents() -> list[Document]:
    return [Document.from_text(text, id=id) for id, text in TEXTS.items()]


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_documents_are_ranked_by_the_vectors_that_the_encoder_gives(
    tiny_encoder: Callable[..., DocumentEncoder], documents: list[Document], similarity: str
) -> None:
    encoder = tiny_encoder(similarity=similarity)
    evaluator = RankingEvaluator(documents, QUERIES, QRELS, depth=3)
    queries, vectors = encoder.encode_query(list(QUERIES.values())), encoder.encode(documents)
    scores = np.asarray(queries, np.float64) @ np.asarray(vectors, np.float64).T
    if similarity == "cosine":
        scores /= np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(vectors, axis=1))
    for one in (evaluator, evaluator.prepared(encoder), evaluator.prepared(encoder, encode_passages=True)):
        run = one.rank(encoder)
        for query, row in zip(QUERIES, scores, strict=True):
            best = np.argsort(-row)[:3]
            assert list(run[query]) == [list(TEXTS)[place] for place in best]
            assert list(run[query].values()) == pytest.approx(row[best].tolist(), abs=1e-5)
        numbers = one(encoder)
        assert set(numbers) == {"ndcg_at_10", "map", "mrr_at_10", "recall_at_100"}
        assert one.best == "ndcg_at_10"
        assert numbers == score_run(run, QRELS, evaluator.measures).metrics()


def test_documents_are_ranked_by_their_best_passages(tiny_encoder: Callable[..., DocumentEncoder]) -> None:
    encoder = tiny_encoder(passage_words=4)
    draw = np.random.default_rng(0)
    words = " ".join(TEXTS.values()).split()
    texts = [". ".join(" ".join(draw.choice(words, 4)) for _ in range(count)) for count in range(1, 9)]
    documents = [Document.from_text(f"{text}.", id=f"d{number}") for number, text in enumerate(texts)]
    run = RankingEvaluator(documents, QUERIES, QRELS, unit="passage").rank(encoder)
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in encoder.encode(documents, level="passage")]
    for query, vector in zip(QUERIES, encoder.encode_query(list(QUERIES.values())), strict=True):
        scores = [np.sort(part @ vector)[-3:].sum() / 3 / np.linalg.norm(vector) for part in unit]
        expected = dict(zip((one.id for one in documents), scores, strict=True))
        assert run[query] == pytest.approx(expected, abs=1e-5)
    assert max(map(len, unit)) > 4


def test_measures() -> None:
    assert metric_name("ndcg@10") == "ndcg_at_10"
    assert metric_name("MAP") == "map"
    with pytest.raises(SettingsError, match="ndgc"):
        RankingEvaluator([], {}, {}, best="ndgc@10")
