"""An encoder in mteb, on two tasks that are made here. mteb (270 MB with polars) is no part of any extra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from graphdoc.encoder import DocumentEncoder
from graphdoc.integrations.sentence_transformers import save_for_sentence_transformers

pytest.importorskip("sentence_transformers", reason="needs the extra graphdoc[interop]")
pytest.importorskip("mteb", reason="mteb is large; to run this: pip install mteb==2.26.24")
import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from sentence_transformers import SentenceTransformer

CORPUS = {
    "rice": "Rice is polished, soaked and steamed. The grains must stay whole.",
    "vinegar": "Vinegar needs air. Bacteria burn the alcohol of wine at its surface.",
    "clocks": "Two clocks never agree for long. A log gives every entry a number.",
}
QUERIES = {"q1": "How is rice steamed?", "q2": "What do bacteria do to wine?"}
JUDGED = {"q1": {"rice": 1}, "q2": {"vinegar": 1}}
PAIRS = (["Rice is steamed.", "Rice is steamed.", "Tides rise."], ["Rice is steamed.", "Clocks.", "The sea rises."])


def metadata(name: str, kind: str, score: str) -> Any:
    """What mteb wants to know of a task."""
    return TaskMetadata(
        name=name,
        type=kind,
        main_score=score,
        description="Made for a test.",
        reference=None,
        dataset={"path": "none", "revision": "none"},
        category="t2t",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
    )


class Retrieval(AbsTaskRetrieval):  # type: ignore[name-defined, misc]
    metadata = metadata("MadeHereRetrieval", "Retrieval", "ndcg_at_10")

    def load_data(self, *_: Any, **__: Any) -> None:
        self.dataset = {
            "default": {
                "test": {
                    "corpus": Dataset.from_list(
                        [{"id": id, "text": text, "title": ""} for id, text in CORPUS.items()]
                    ),
                    "queries": Dataset.from_list([{"id": id, "text": text} for id, text in QUERIES.items()]),
                    "relevant_docs": JUDGED,
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True


class Similarity(AbsTaskSTS):  # type: ignore[name-defined, misc]
    metadata = metadata("MadeHereSTS", "STS", "cosine_spearman")
    min_score, max_score = 0, 5

    def load_data(self, *_: Any, **__: Any) -> None:
        rows = {"sentence1": PAIRS[0], "sentence2": PAIRS[1], "score": [5.0, 0.0, 3.0]}
        self.dataset = {"test": Dataset.from_dict(rows)}
        self.data_loaded = True


def test_an_encoder_is_measured_as_its_vectors_say(mini: DocumentEncoder, tmp_path: Path) -> None:
    model = SentenceTransformer(str(save_for_sentence_transformers(mini, tmp_path)), device="cpu")
    results = mteb.evaluate(model, [Retrieval(), Similarity()], cache=None, show_progress_bar=False, co2_tracker=False)
    retrieval, similarity = (result.scores["test"][0] for result in results.task_results)

    # The vectors of the encoder itself, and nDCG by hand: one document of each query is relevant.
    queries, corpus = mini.encode_query(list(QUERIES.values())), mini.encode(list(CORPUS.values()))
    ranks = (-mini.similarity(queries, corpus)).argsort(axis=1)
    wanted = [list(CORPUS).index(next(iter(judged))) for judged in JUDGED.values()]
    gains = [1 / np.log2(2 + list(row).index(number)) for row, number in zip(ranks, wanted, strict=True)]
    assert retrieval["ndcg_at_10"] == pytest.approx(np.mean(gains), abs=1e-5)

    first, second = (mini.encode([{"text": text} for text in texts]) for texts in PAIRS)
    cosines = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    expected = np.corrcoef(cosines.argsort().argsort(), [2, 0, 1])[0, 1]
    assert similarity["cosine_spearman"] == pytest.approx(expected, abs=1e-5)
