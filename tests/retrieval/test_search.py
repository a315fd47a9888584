"""A search: its terms, what it finds, how rankings are fused, and that the parts of a score add up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typed import Documents, Patch

from graphdoc import Document, DocumentEncoder, DocumentIndex
from graphdoc.retrieval import updating
from graphdoc.retrieval.fusion import PASSAGE_WEIGHTS, Ranking, fuse, fused_scores
from graphdoc.retrieval.index import index_words
from graphdoc.retrieval.lance import RankedRows
from graphdoc.retrieval.terms import QueryTerms, best_words, counted_words, words_of
from graphdoc.segmentation.term_weights import TermCounts, TermWeights, terms_of
from graphdoc.similarity.kinds import maxsim_weights


def passage_rows(index: DocumentIndex) -> list[dict[str, object]]:
    """The passages of an index."""
    return [row for batch in index.rows(level="passage") for row in batch.to_pylist()]


def bm25(texts: list[list[str]], query: list[str]) -> np.ndarray:
    """BM25 as Robertson wrote it, with Lucene's idf, k1 = 1.2 and b = 0.75."""
    lengths = np.array([len(text) for text in texts])
    scores = np.zeros(len(texts))
    for term in query:
        counts = np.array([Counter(text)[term] for text in texts])
        found = int((counts > 0).sum())
        idf = math.log(1 + (len(texts) - found + 0.5) / (found + 0.5))
        scores += idf * counts * 2.2 / (counts + 1.2 * (0.25 + 0.75 * lengths / lengths.mean()))
    return scores


def weighed(scores: Iterable[float], passages: int) -> float:
    """The three best scores as 1 : 0.25 : 0.1; where there are fewer passages, the best again."""
    best = sorted(scores, reverse=True)[:3]
    best += [0.0] * (min(passages, 3) - len(best))
    first, second, third = [*best, best[0], best[0]][:3]
    return (first + 0.25 * second + 0.1 * third) / 1.35


@pytest.mark.parametrize("query", ["spring tides", "the sea sea sea"])
def test_words_are_bm25_of_the_best_passages(read_index: DocumentIndex, query: str) -> None:
    rows = passage_rows(read_index)
    tokens = read_index._store.tokens
    scores = bm25([tokens(row["text"]) for row in rows], tokens(query))
    expected: dict[str, list[float]] = {}
    for row, score in zip(rows, scores, strict=True):
        if score > 0:
            expected.setdefault(str(row["id"]), []).append(score)
    best = {id: weighed(own, sum(row["id"] == id for row in rows)) for id, own in expected.items()}
    found = read_index.search(query, by="words", words_level="passage")
    assert {hit.id: hit.score for hit in found} == pytest.approx(best, abs=1e-3)
    assert best
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    # Words that look the same find the same.
    same = read_index.search(query.replace("tides", "ti\u00addes\u200b"), by="words", words_level="passage")
    assert {hit.id: hit.score for hit in same} == pytest.approx({hit.id: hit.score for hit in found})


def test_vectors_are_cosines_of_the_best_passages(
    read_index: DocumentIndex, documents: Documents, encoder: DocumentEncoder
) -> None:
    query = encoder.encode_query("spring tides")
    expected = {}
    for document in documents:
        cosines = encoder.similarity(query, encoder.encode_levels(document).passages)[0].tolist()
        expected[document.id] = weighed(cosines, len(cosines))
    found = read_index.search("spring tides", by="vectors")
    assert {hit.id: hit.score for hit in found} == pytest.approx(expected, abs=1e-5)


def test_documents_are_compared_without_what_is_usual_and_none_is_its_own_hit(
    read_index: DocumentIndex, documents: Documents, encoder: DocumentEncoder, monkeypatch: Patch
) -> None:
    passages = [encoder.encode_levels(document).passages for document in documents]
    units = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in passages]
    usual = np.concatenate(units).mean(0)
    source, *others = (row / np.linalg.norm(row, axis=1, keepdims=True) for row in (unit - usual for unit in units))
    means = [(table.max(0).mean() + table.max(1).mean()) / 2 for table in [other @ source.T for other in others]]
    # Passages that the index has are not encoded.
    monkeypatch.setattr(updating, "survive_forks", pytest.fail)
    found = read_index.search(documents[0], by="vectors")
    expected = dict(zip([document.id for document in documents[1:]], means, strict=True))
    assert {hit.id: hit.score for hit in found} == pytest.approx(expected, abs=1e-5)
    assert sum(part.contribution for part in found[0].explain().vectors) == pytest.approx(found[0].score, abs=1e-6)
    found = read_index.search(documents[0], by="vectors", vectors_level="document")
    expected = encoder.similarity(encoder.encode(documents[0]), encoder.encode(documents[1:]))[0]
    assert {hit.id: hit.score for hit in found} == pytest.approx(
        dict(zip([document.id for document in documents[1:]], expected, strict=True)), abs=1e-5
    )
    assert found.query["document"] == "tides"
    hybrid = read_index.search(documents[0])
    assert {"words", "vectors"} == set(hybrid[0].parts) and "tides" not in [hit.id for hit in hybrid]


@pytest.mark.parametrize("by", ["hybrid", "words", "vectors"])
@pytest.mark.parametrize("level", ["passage", "document", "both"])
def test_the_parts_of_a_score_add_up(read_index: DocumentIndex, by: str, level: str) -> None:
    vectors_level = None if level == "both" else level
    found = read_index.search("spring tides of the sea", by=by, words_level=level, vectors_level=vectors_level)  # type: ignore[arg-type]
    assert len(found) > 1
    for hit in found:
        explanation = hit.explain()
        assert hit.score == pytest.approx(sum(part.share for part in hit.parts.values()), abs=1e-12)
        if "words" in hit.parts:
            assert sum(w.contribution for w in explanation.words) == pytest.approx(hit.parts["words"].score, abs=1e-3)
        if "vectors" in hit.parts:
            total = sum(one.contribution for one in explanation.vectors)
            assert total == pytest.approx(hit.parts["vectors"].score, abs=1e-5)


def test_terms_are_counted_as_they_stand(read_index: DocumentIndex) -> None:
    hit = read_index.search("steamed rice", by="words")[0]
    words = {passage.text[start:end].lower() for passage in hit.passages for start, end in passage.matches}
    assert words and words <= {"steamed", "rice", "steaming"}
    terms = {one.term: one for one in hit.explain().words}
    rows = passage_rows(read_index)
    tokens = {row["key"]: read_index._store.tokens(str(row["text"])) for row in rows}
    for word, term in (("steamed", "steam"), ("rice", "rice")):
        assert terms[word].document_frequency == sum(term in own for own in tokens.values())
        own = [tokens[row["key"]].count(term) for row in rows if row["id"] == hit.id]
        assert terms[word].frequency == sum(sorted(own)[-3:]) > 0


ROW = st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.sampled_from([0.5, 1.0, 2.0]))
ROWS = st.lists(ROW, max_size=30, unique_by=lambda row: row[:2])


@given(ROWS, st.booleans(), st.dictionaries(st.sampled_from("abc"), st.integers(1, 5)))
def test_a_document_is_its_best_passages_of_which_others_count_less(
    rows: list[tuple[str, int, float]], is_complete: bool, sizes: dict[str, int]
) -> None:
    ids, numbers, values = zip(*rows, strict=True) if rows else ((), (), ())
    counts = [sizes.get(id, 0) for id in ids]
    found = Ranking.from_rows(RankedRows(ids, np.array(values), is_complete, numbers, counts))
    own = {id: sorted((-score, number) for other, number, score in rows if other == id) for id in ids}
    last, scores = 0.0 if is_complete else min(values, default=0.0), {}
    for id, passages in own.items():
        best = [-score for score, _ in passages][:3]
        # What was not found of a long document is as good as the last that was; a short one repeats its best.
        best += [last] * max(0, min(sizes.get(id, 0), 3) - len(best))
        best += [best[0]] * (3 - len(best))
        scores[id] = (best[0] + 0.25 * best[1] + 0.1 * best[2]) / 1.35
    assert found.scores == pytest.approx(scores)
    assert list(found.scores) == sorted(found.scores, key=lambda id: (-found.scores[id], id))
    assert sum(PASSAGE_WEIGHTS) == pytest.approx(1)
    for id, passages in own.items():
        assert list(found.passages(id).items()) == [(number, -score) for score, number in passages]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_passages_add_up_to_maxsim_in_both_directions(first: int, second: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    a, b = (draw.normal(size=(count, 5)).astype(np.float32) for count in (first, second))
    a, b = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (a, b))
    cosines = np.array([[float(x @ y) for y in b] for x in a])
    expected = (cosines.max(1).mean() + cosines.max(0).mean()) / 2
    assert (maxsim_weights(cosines) * cosines).sum() == pytest.approx(expected, abs=1e-6)


SCORES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([-1.0, 0.0, 0.5, 2.0]))


@given(SCORES, SCORES, st.sampled_from(["score", "reciprocal_rank", "weighted"]), st.sampled_from([0.0, 0.3, 1.0]))
def test_fused_scores_are_those_of_the_formulas(
    words: dict[str, float], vectors: dict[str, float], fusion: str, weight: float
) -> None:
    rankings, weights = {"words": words, "vectors": vectors}, {"words": weight, "vectors": 1 - weight}
    expected: dict[str, float] = {}
    for name, scores in rankings.items():
        low, high = min(scores.values(), default=0), max(scores.values(), default=0)
        for id, score in scores.items():
            above = [scores.get(other, low) - low for other in {*words, *vectors}]
            spread = np.std(above) if fusion == "score" else high - low
            rank = 1 + sum(other > score for other in scores.values())
            share = 1 / (60 + rank) if fusion == "reciprocal_rank" else (score - low) / spread if spread else 1
            expected[id] = expected.get(id, 0) + weights[name] * share
    fused = fuse(rankings, fusion, weights)  # type: ignore[arg-type]
    assert {one.id: one.score for one in fused} == pytest.approx(expected)
    assert fused_scores(rankings, fusion, weights) == {one.id: one.score for one in fused}  # type: ignore[arg-type]
    assert fused == sorted(fused, key=lambda one: (-one.score, one.id))
    for one in fused:
        assert one.score == pytest.approx(sum(part.share for part in one.parts.values()))
        assert {name: (part.rank, part.score) for name, part in one.parts.items()} == {
            name: (1 + sum(other > scores[one.id] for other in scores.values()), scores[one.id])
            for name, scores in rankings.items()
            if one.id in scores
        }
    assert fuse(rankings, fusion, weights, 2) == fused[:2]  # type: ignore[arg-type]
    assert [one.score for one in fuse({"words": words})] == sorted(words.values(), reverse=True)


def test_words_have_their_places() -> None:
    def tokens(text: str) -> list[str]:
        return [one.lower().rstrip("s") for one in text.replace("'", " ").split() if one.lower() not in ("the", "of")]

    text = "The tides of 𝔘 rise; the TIDE falls, किताब"
    found = [(one.term, text[one.start : one.end]) for one in words_of([text], partial(terms_of, tokenize=tokens))[0]]
    words = [("tide", "tides"), ("𝔘".lower(), "𝔘"), ("rise", "rise"), ("tide", "TIDE"), ("fall", "falls")]
    assert found == [*words, ("किताब", "किताब")]
    assert words_of(["", "the of"], partial(terms_of, tokenize=tokens)) == [[], []]
    texts = ["tide 907331415926535 tables", "", "907331415926536", "tide"]
    assert terms_of(texts, str.split) == [text.split() for text in texts] and terms_of([], str.split) == []
    text = "天气 don't 3.14, 1,000 foo_bar a,b _x_ U.S. it’s 12:30 राम's"
    for store in (index_words([], language)._store for language in ("zh", "en")):
        assert {term: count for term, _, count in counted_words(text, store.terms)} == Counter(store.tokens(text))


@pytest.mark.parametrize(("count", "copies"), [(1, 1), (3, 2), (4, 4), (10, 4), (11, 8), (1000, 64)])
def test_the_best_words_are_those_of_the_highest_tf_idf_by_how_often_they_are_there(count: int, copies: int) -> None:
    def lower(words: Sequence[str]) -> list[list[str]]:
        return [[word.lower()] for word in words]

    found = best_words(counted_words("Tide " + "tide " * (count - 1) + "moon", lower), [0, 0], 100, 60)
    # Copies stand side by side, so that a text of them reads as words with weights.
    assert sorted(found) == ["Tide"] * copies + ["moon"] and "moon" in (found[0], found[-1])
    found = best_words(counted_words("the the the the quartz tide tide", lower), [99, 0, 50], 100, 2)
    assert list(dict.fromkeys(found)) == ["quartz", "tide"] and Counter(found)["tide"] == 2


def test_words_and_vectors_count_alike_and_the_best_passage_most(read_index: DocumentIndex) -> None:
    usual = [(hit.id, hit.score) for hit in read_index.search("the tide of the sea")]
    assert usual == [(hit.id, hit.score) for hit in read_index.search("the tide of the sea", weight=0.5)]
    assert usual != [(hit.id, hit.score) for hit in read_index.search("the tide of the sea", weight=0.9)]
    for weight, each in ((None, 1.0), (0.75, 0.75)):
        hit = read_index.search("the tide of the sea", weight=weight, fusion="reciprocal_rank").hits[0]
        assert hit.parts["words"].share == pytest.approx(each / (60 + hit.parts["words"].rank))
    rows = RankedRows(("a", "a", "a", "b"), np.array([3.0, 2.0, 1.0, 2.5]), True, (0, 1, 2, 0), (3, 3, 3, 1))
    assert Ranking.from_rows(rows).scores == pytest.approx({"a": (3 + 0.25 * 2 + 0.1) / 1.35, "b": 2.5})


TEXTS = st.lists(st.text("abcdef", max_size=30).map(list), min_size=1, max_size=6)


def cosine(first: Counter[str], second: Counter[str], collection: list[Counter[str]]) -> dict[str, float]:
    """The formula, word by word: what every word adds."""

    def weights(document: Counter[str]) -> dict[str, float]:
        rare = {word: math.log((1 + len(collection)) / (1 + sum(word in x for x in collection))) for word in document}
        weights = {word: count**0.75 * (1 + rare[word]) for word, count in document.items()}
        length = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        return {word: weight / length for word, weight in weights.items()}

    one, other = weights(first), weights(second)
    return {word: one[word] * other[word] for word in one if word in other}


@given(TEXTS, st.text("abcdefg", max_size=30).map(list))
def test_the_cosine_is_that_of_the_formula_and_its_terms_add_up(texts: list[list[str]], asked: list[str]) -> None:
    counted = [Counter(text) for text in texts]
    weights = TermWeights([TermCounts.unpacked(TermCounts.from_counts(one).packed()) for one in counted])
    query = QueryTerms([(term, term.upper(), count) for term, count in Counter(asked).items()], weights)
    for document in counted:
        expected = cosine(Counter(asked), document, counted)
        assert query.cosine(TermCounts.from_counts(document)) == pytest.approx(sum(expected.values()))
        terms = query.explain(TermCounts.from_counts(document), len(texts))
        assert {part.term.lower(): part.contribution for part in terms} == pytest.approx(expected)
        for part in terms:
            holding = sum(part.term.lower() in one for one in counted)
            assert (part.frequency, part.document_frequency) == (document[part.term.lower()], holding)


def test_a_document_is_searched_for_by_all_of_its_words(read_index: DocumentIndex, documents: Documents) -> None:
    counted = {one.id: Counter(read_index._store.tokens(f"{one.title} {text_of(one)}")) for one in documents}
    asked = documents[0]
    hits = read_index.search(asked, by="words")
    expected = {
        id: sum(cosine(counted[asked.id], other, list(counted.values())).values())
        for id, other in counted.items()
        if id != asked.id
    }
    assert {hit.id: hit.score for hit in hits} == pytest.approx({id: score for id, score in expected.items() if score})
    for hit in hits:
        assert sum(part.contribution for part in hit.explain().words) == pytest.approx(hit.score)


def text_of(document: Document) -> str:
    return " ".join(f"{section.heading} {section.text}" for section in document.sections)
