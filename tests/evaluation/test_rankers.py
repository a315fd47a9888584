"""Documents ranked by queries and by each other in every way, against loops and against search."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from small_index import documents as documents
from small_index import encoder as encoder
from small_index import read_index as read_index
from typed import Documents, Encoders, Patch

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.evaluation import RankingEvaluator, score_run
from graphdoc.evaluation.rankers import RANKERS, SEARCHES, WEIGHTED, RankedCorpus, rank_documents, rank_queries
from graphdoc.retrieval.search import SearchOptions
from graphdoc.retrieval.sentences import encode_sentences
from graphdoc.similarity.hierarchical import DocumentScorer, SentenceSet

pytest.importorskip("ir_measures")

TEXTS = {
    "tides": ("The moon pulls the sea. Tides rise twice a day.", "Salt marshes slow the sea.\n\nThe sea is salt."),
    "marsh": ("Salt marshes slow the sea. Reeds grow there.", "The moon is far away."),
    "rice": ("Steamed rice is cooled. Koji is sown on rice.", "The rice is steamed again."),
    "lathe": ("A lathe turns wood. The wood is oak.", "Oak is a hard wood."),
    "oak": ("Oak is a hard wood. It grows slowly.", "The moon has no trees."),
}
RELEVANT = {"tides": {"marsh": 1}, "marsh": {"tides": 1}, "lathe": {"oak": 1}, "oak": {"lathe": 1}}


@pytest.fixture(scope="module")
def texts() -> list[Document]:
    """Five documents of two sections."""
    return [
        Document(id, (Section(first, "Opening words"), Section(second, "The rest")), title=id.title())
        for id, (first, second) in TEXTS.items()
    ]


@pytest.fixture
def corpus(texts: Documents, encoder: DocumentEncoder) -> RankedCorpus:
    return RankedCorpus(texts, lambda: encoder, show_progress_bar=False)


def test_every_row_ranks_all_others(corpus: RankedCorpus) -> None:
    found = rank_documents(corpus, list(RELEVANT), RELEVANT, list(RANKERS))
    assert list(found.runs) == list(RANKERS)
    for run in found.runs.values():
        assert {source: scores.keys() for source, scores in run.items()} == {
            source: TEXTS.keys() - {source} for source in RELEVANT
        }
    # The words of the texts leave no doubt.
    for name in ("tf-idf", "bm25", "bm25-keywords"):
        assert max(found.runs[name]["lathe"], key=found.runs[name]["lathe"].__getitem__) == "oak"


def test_words_are_those_of_a_search(corpus: RankedCorpus, texts: Documents, encoder: DocumentEncoder) -> None:
    index = DocumentIndex.create("memory://", encoder)
    index.update(texts)
    scorer = RANKERS["bm25-keywords"](corpus)
    for place, source in enumerate(texts):
        found = {hit.id: hit.score for hit in index.search(source, len(texts), by="words", words_level="document")}
        scores = dict(zip(corpus.places, scorer(place).tolist(), strict=True))
        del scores[source.id]
        assert found and {id: score for id, score in scores.items() if score} == pytest.approx(found)


def test_bm25_against_a_loop(corpus: RankedCorpus) -> None:
    scores = RANKERS["bm25"](corpus)(0)
    words = [re.findall(r"\b\w\w+\b", text.lower()) for text in corpus.texts]
    mean = np.mean([len(own) for own in words])
    expected = []
    for own in words:
        total = 0.0
        for word in words[0]:
            having = sum(word in other for other in words)
            idf = math.log(1 + (len(words) - having + 0.5) / (having + 0.5))
            count = own.count(word)
            total += idf * count / (count + 1.2 * (1 - 0.75 + 0.75 * len(own) / mean))
        expected.append(total)
    np.testing.assert_allclose(scores, expected)


@pytest.mark.parametrize("normalization", ["none", "zscore"])
def test_sentences_by_definition_of_paper(texts: Documents, encoder: DocumentEncoder, normalization: str) -> None:
    corpus = RankedCorpus(texts, lambda: encoder, normalization=normalization, show_progress_bar=False)  # type: ignore[arg-type]
    rankings = rank_documents(corpus, ["tides"], RELEVANT, ["sentences"])
    sets = list(encode_sentences(encoder, texts, encoder.model.config.paragraph, False))
    first, direction = SentenceSet.from_vectors([sets[0].vectors], [sets[0].places[:, 3]]), corpus.direction
    scorer = DocumentScorer(first, by="sentences", normalization=normalization, direction=direction)  # type: ignore[arg-type]
    scorer.add(SentenceSet.from_vectors([one.vectors for one in sets[1:]], [one.places[:, 3] for one in sets[1:]]))
    expected = dict(zip(list(TEXTS)[1:], scorer.scores().tolist(), strict=True))
    assert rankings.runs["sentences"]["tides"] == pytest.approx(expected, abs=1e-5)


def test_words_joined_with_sentences(corpus: RankedCorpus) -> None:
    found = rank_documents(corpus, list(RELEVANT), RELEVANT, ["tf-idf+sentences", "tf-idf", "sentences"], folds=2)
    weight = found.weights["tf-idf+sentences"]
    share = weight.fold_weights[weight.folds["tides"]]
    parts = []
    for name in ("tf-idf", "sentences"):
        scores = found.runs[name]["tides"]
        low, high = min(scores.values()), max(scores.values())
        parts.append({id: (score - low) / (high - low) for id, score in scores.items()})
    expected = {id: share * parts[0][id] + (1 - share) * parts[1][id] for id in parts[0]}
    assert dict(found.runs["tf-idf+sentences"]["tides"]) == pytest.approx(expected)


QUERIES = {"a": "spring tides of the sea", "b": "steamed rice", "c": "wood on a lathe"}
QRELS = {"a": {"tides": 2, "marsh": 1}, "b": {"rice": 1}, "c": {"lathe": 1}}


@pytest.mark.parametrize(("trained", "row"), [("passage", "vectors"), ("document", "graph-roberta")])
def test_runs_are_those_of_searches_for_any_number_of_documents(
    encoder: DocumentEncoder, documents: Documents, trained: str, row: str, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(encoder.model.config, "search_by", trained)
    monkeypatch.setattr("graphdoc.retrieval.search._DEPTH", {"words": 4, "vectors": 2})
    index = DocumentIndex.create("memory://", encoder)
    index.update([*documents, *(replace(one, id=f"{one.id} again", title="") for one in documents)])
    queries = {**QUERIES, "d": " ".join(documents[0].text.split() * 2)}
    found = rank_queries(index, queries, QRELS, folds=3)
    assert list(found.runs) == list(found.milliseconds) == [*SEARCHES, *WEIGHTED]
    rows_asked: list[tuple[str, SearchOptions]] = [*SEARCHES.items(), (row, {"by": "vectors"})]
    for (query, text), (name, settings), top_k in product(queries.items(), rows_asked, (1, 3, 8)):
        hits = index.search(text, top_k, **settings).hits
        assert list(found.runs[name][query].items())[:top_k] == [(hit.id, hit.score) for hit in hits]
        assert all(sum(part.share for part in hit.parts.values()) == pytest.approx(hit.score) for hit in hits)
    assert min(found.milliseconds.values()) > 0


def test_the_weight_is_that_of_words(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, folds=3)
    (weight,) = found.weights.values()
    chosen = weight.fold_weights[weight.folds["b"]]
    units = {"words_level": "document", "vectors_level": "document"}
    hits = read_index.search(QUERIES["b"], 4, fusion="weighted", weight=chosen, **units)  # type: ignore[arg-type]
    assert found.runs["graph-roberta+bm25"]["b"] == pytest.approx({hit.id: hit.score for hit in hits}, abs=1e-5)


def test_source_documents_are_taken_out_before_rankings_are_joined(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, excluded={"a": {"tides"}}, folds=3)
    assert all("tides" not in run["a"] for run in found.runs.values())
    few = rank_queries(read_index, QUERIES, QRELS, top_k=1, folds=4)
    assert not few.weights and list(few.runs["words"]["b"]) == ["rice"]


ANSWERS = {"a": "Rice is steamed. Koji grows on rice.", "b": "Tides rise and fall.", "c": "A kiln is fired with wood.",
         "d": "Rice mould."}  # fmt: skip
QUESTIONS = {"q1": "steamed rice", "q2": "high tide", "q3": "wood fire"}
JUDGED = {"q1": {"a": 1, "d": 2}, "q2": {"b": 1}, "q3": {"c": 1, "a": 0}}


@pytest.fixture
def answers() -> list[Document]:
    return [Document.from_text(text, id=id) for id, text in ANSWERS.items()]


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_documents_are_ranked_by_the_vectors_that_the_encoder_gives(
    tiny_encoder: Encoders, answers: Documents, similarity: str
) -> None:
    encoder = tiny_encoder(similarity=similarity)
    rows = [{"id": id, "text": text} for id, text in ANSWERS.items()]
    evaluator = RankingEvaluator(rows, QUESTIONS, {**JUDGED, "q4": {"a": 1}}, depth=3)
    assert evaluator.left_out == {"judged queries that are unknown": 1}
    queries, vectors = encoder.encode_query(list(QUESTIONS.values())), encoder.encode(answers)
    scores = np.asarray(queries, np.float64) @ np.asarray(vectors, np.float64).T
    if similarity == "cosine":
        scores /= np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(vectors, axis=1))
    for one in (evaluator, evaluator.prepared(encoder), evaluator.prepared(encoder, encode_passages=True)):
        run = one.rank(encoder)
        for query, row in zip(QUESTIONS, scores, strict=True):
            best = np.argsort(-row)[:3]
            assert list(run[query]) == [list(ANSWERS)[place] for place in best]
            assert list(run[query].values()) == pytest.approx(row[best].tolist(), abs=1e-5)
        numbers = one(encoder)
        assert set(numbers) == {"ndcg_at_10", "map", "mrr_at_10", "recall_at_100"}
        assert one.primary_metric == "ndcg_at_10"
        assert numbers == score_run(run, JUDGED, evaluator.measures).metrics()


def test_documents_are_ranked_by_their_best_passages(tiny_encoder: Encoders) -> None:
    encoder = tiny_encoder(passage_words=4)
    draw = np.random.default_rng(0)
    words = " ".join(ANSWERS.values()).split()
    texts = [". ".join(" ".join(draw.choice(words, 4)) for _ in range(count)) for count in range(1, 9)]
    answers = [Document.from_text(f"{text}.", id=f"d{number}") for number, text in enumerate(texts)]
    run = RankingEvaluator(answers, QUESTIONS, {key: {"d0": 1} for key in QUESTIONS}, level="passage").rank(encoder)
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in encoder.encode(answers, level="passage")]
    for query, vector in zip(QUESTIONS, encoder.encode_query(list(QUESTIONS.values())), strict=True):
        scores = [np.sort(part @ vector)[-3:].sum() / 3 / np.linalg.norm(vector) for part in unit]
        assert run[query] == pytest.approx(dict(zip((one.id for one in answers), scores, strict=True)), abs=1e-5)
    assert max(map(len, unit)) > 4
