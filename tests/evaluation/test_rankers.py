"""Documents ranked by queries and by each other in every way, against loops and against search."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from small_index import documents as documents
from small_index import encoder as encoder
from small_index import read_index as read_index

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import DocumentError, EvaluationError, RetrievalError, SettingsError
from graphdoc.evaluation.rankers import (
    RANKERS,
    SEARCHES,
    WEIGHTED,
    RankedCorpus,
    parts_of,
    rank_documents,
    rank_queries,
)
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
def corpus(texts: list[Document], encoder: DocumentEncoder) -> RankedCorpus:
    return RankedCorpus(texts, lambda: encoder, show_progress=False)


def test_every_row_ranks_all_others(corpus: RankedCorpus) -> None:
    found = rank_documents(corpus, list(RELEVANT), RELEVANT, list(RANKERS))
    assert list(found.runs) == list(RANKERS)
    for run in found.runs.values():
        assert {source: scores.keys() for source, scores in run.items()} == {
            source: TEXTS.keys() - {source} for source in RELEVANT
        }
    # The words of the texts leave no doubt.
    for name in ("tf-idf", "bm25", "words-documents"):
        assert max(found.runs[name]["lathe"], key=found.runs[name]["lathe"].__getitem__) == "oak"


def test_words_of_documents_are_those_of_a_search(
    corpus: RankedCorpus, texts: list[Document], encoder: DocumentEncoder
) -> None:
    index = DocumentIndex.create("memory://", encoder)
    index.update(texts)
    scorer = RANKERS["words-documents"](corpus)
    for place, source in enumerate(texts):
        hits = index.search(source, len(texts), by="words", words_unit="document")
        found = {hit.id: hit.score for hit in hits}
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


@pytest.mark.parametrize("normalisation", ["none", "zscore"])
def test_sentences_by_the_definition_of_the_paper(
    texts: list[Document], encoder: DocumentEncoder, normalisation: str
) -> None:
    corpus = RankedCorpus(texts, lambda: encoder, normalisation=normalisation, show_progress=False)  # type: ignore[arg-type]
    rankings = rank_documents(corpus, ["tides"], RELEVANT, ["sentences"])
    sets = list(encode_sentences(encoder, texts, encoder.model.config.paragraph, False))
    scorer = DocumentScorer(
        SentenceSet.of([sets[0].vectors], [sets[0].places[:, 3]]),
        by="sentences",
        normalisation=normalisation,  # type: ignore[arg-type]
        direction=corpus.direction,
    )
    scorer.add(SentenceSet.of([one.vectors for one in sets[1:]], [one.places[:, 3] for one in sets[1:]]))
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
    words, others = parts
    expected = {id: share * words[id] + (1 - share) * others[id] for id in words}
    assert dict(found.runs["tf-idf+sentences"]["tides"]) == pytest.approx(expected)


def test_mistakes(corpus: RankedCorpus, texts: list[Document], encoder: DocumentEncoder) -> None:
    for names in (["bm52"], ["sentences+bm52"]):
        with pytest.raises(SettingsError, match="bm52"):
            parts_of(names)
    with pytest.raises(EvaluationError, match="1 document"):
        rank_documents(RankedCorpus(texts[:1], lambda: encoder), ["tides"], RELEVANT, ["tf-idf"])
    with pytest.raises(RetrievalError, match="'tides'"):
        RankedCorpus([texts[0], texts[0]], lambda: encoder)
    headings = Document("bare", (Section("", "A heading"),))
    with pytest.raises(DocumentError, match="bare"):
        _ = RankedCorpus([texts[0], headings], lambda: encoder, show_progress=False).sentences
    with pytest.raises(RetrievalError, match="no words"):
        RANKERS["bm25"](RankedCorpus([Document.from_text("?", id="a")], lambda: encoder))


QUERIES = {"a": "spring tides of the sea", "b": "steamed rice", "c": "wood on a lathe"}
QRELS = {"a": {"tides": 2, "marsh": 1}, "b": {"rice": 1}, "c": {"lathe": 1}}


def test_runs_are_those_of_searches(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, k=4, depth=200, folds=3)
    assert list(found.runs) == list(found.milliseconds) == [*SEARCHES, *WEIGHTED]
    for query, text in QUERIES.items():
        for name, settings in SEARCHES.items():
            hits = read_index.search(text, 4, depth=200, **settings)
            assert found.runs[name][query] == pytest.approx({hit.id: hit.score for hit in hits}, abs=1e-5)
            assert list(found.runs[name][query]) == [hit.id for hit in hits]
    assert min(found.milliseconds.values()) > 0


def test_the_weight_is_that_of_words(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, folds=3)
    (weight,) = found.weights.values()
    chosen = weight.fold_weights[weight.folds["b"]]
    units = {"words_unit": "document", "vectors_unit": "document"}
    hits = read_index.search(QUERIES["b"], 4, fusion="weighted", weight=chosen, depth=5000, **units)  # type: ignore[arg-type]
    assert found.runs["documents-weighted"]["b"] == pytest.approx({hit.id: hit.score for hit in hits}, abs=1e-5)


def test_own_documents_are_taken_out_before_rankings_are_joined(read_index: DocumentIndex) -> None:
    found = rank_queries(read_index, QUERIES, QRELS, own={"a": {"tides"}}, folds=3)
    assert all("tides" not in run["a"] for run in found.runs.values())
    few = rank_queries(read_index, QUERIES, QRELS, k=1, folds=4)
    assert not few.weights and list(few.runs["words"]["b"]) == ["rice"]
