"""Mined negatives against loops: what is passed over and why, ties, blocks, queries with little to find, an index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typed import Documents, Folders, Patch

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.documents.section import clean_text
from graphdoc.errors import OutputError, RetrievalError, SettingsError
from graphdoc.retrieval import mining
from graphdoc.retrieval.index import index_words
from graphdoc.retrieval.mining import (
    CLOSE,
    JUDGED,
    REASONS,
    SIMILAR,
    MinedDocuments,
    MiningSettings,
    NegativeLists,
    PassageWords,
    documents_of_index,
    merged,
    mine,
    word_scores,
)
from graphdoc.settings.finetuning import MinedBy

Words = dict[str, dict[str, float]]


def unit(vector: Any) -> Any:
    return vector / (np.linalg.norm(vector) or 1.0)


def by_loops(
    documents: MinedDocuments, positives: dict[str, list[str]], options: MiningSettings, words: Words, vectors: Any
) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
    """The lists and counts, one document after another."""
    rows, given, groups = documents.rows, documents.vectors, documents.groups

    def is_similar(id: str, others: list[str]) -> bool:
        cosines = [-1.0 if given is None else float(unit(given[rows[id]]) @ unit(given[rows[one]])) for one in others]
        is_close = options.mask_similar is not None and max(cosines) > options.mask_similar
        return is_close or any(groups[rows[id]] == groups[rows[one]] for one in others)

    lists, counts = {}, dict.fromkeys(REASONS, 0)
    for place, (query, all_positives) in enumerate(positives.items()):
        answers = [id for id in all_positives if id in rows]
        if not answers:
            continue
        scores: dict[str, dict[str, float]] = {}
        if "words" in options.rankings:
            scores["words"] = {id: score for id, score in words[query].items() if score > 0}
        if "vectors" in options.rankings:
            compare = unit if documents.similarity == "cosine" else np.asarray
            scores["vectors"] = {id: float(compare(given[rows[id]]) @ compare(vectors[place])) for id in rows}
        passed: dict[str, set[str]] = {reason: set() for reason in REASONS}
        for own in scores.values():
            best = max(own.get(id, 0.0) for id in answers)
            limit = np.inf if options.margin is None else best - options.margin * abs(best)
            passed[CLOSE] |= {id for id, score in own.items() if score > limit and id not in answers}
        ranks: dict[str, float] = {}
        for own in scores.values():
            kept = 0
            for id in sorted(own, key=lambda id: (-own[id], id)):
                if kept == options.depth:
                    break
                if id in answers:
                    passed[JUDGED].add(id)
                elif id not in passed[CLOSE] and is_similar(id, answers):
                    passed[SIMILAR].add(id)
                elif id not in passed[CLOSE]:
                    kept += 1
                    ranks[id] = ranks.get(id, 0.0) + 1 / (60 + kept)
        lists[query] = tuple(sorted(ranks, key=lambda id: (-ranks[id], id))[: options.depth])
        for reason, ids in passed.items():
            counts[reason] += len(ids)
    return lists, counts


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    by=st.sampled_from(["words", "vectors", "both"]),
    depth=st.integers(1, 12),
    margin=st.sampled_from([None, 0.0, 0.05, 0.5]),
    mask_similar=st.sampled_from([None, 0.55, 0.98]),
    similarity=st.sampled_from(["cosine", "dot"]),
)
def test_mining_is_that_of_loops(
    seed: int, by: MinedBy, depth: int, margin: float | None, mask_similar: float | None, similarity: str
) -> None:
    draw = np.random.default_rng(seed)
    ids = [f"d{number}" for number in draw.permutation(30)]
    # Few values, so that many scores are equal; integers, so that sums are exact.
    vectors = draw.integers(-1, 3, (30, 4)).astype(np.float32)
    if similarity == "cosine":
        # Along an axis, so that equal cosines are equal in every order of computing.
        vectors = np.eye(4)[draw.integers(0, 4, 30)] * draw.integers(1, 3, (30, 1))
    documents = MinedDocuments(ids, draw.integers(0, 20, 30), vectors.astype(np.float32), similarity)
    positives = {f"q{number}": [*draw.choice(ids, 2, replace=False), "gone"][number % 2 :] for number in range(5)}
    positives["nobody"] = ["gone"]
    asked = draw.integers(-1, 3, (6, 4)).astype(np.float32)
    words = {
        query: {id: float(score) for id, score in zip(ids, draw.integers(0, 9, 30), strict=True)} for query in positives
    }
    options = MiningSettings(by, depth, margin, mask_similar)
    found = mine(documents, positives, options, words=lambda query, _: words[query], vectors=asked)
    lists, counts = by_loops(documents, positives, options, words, asked)
    assert found.lists == lists
    assert found.rejected == counts
    for query, chosen in found.lists.items():
        assert not set(chosen) & set(positives[query])
        assert len(chosen) <= depth


def along(angle: float) -> list[float]:
    """A vector of unit length at an angle in degrees."""
    return [float(np.cos(np.deg2rad(angle))), float(np.sin(np.deg2rad(angle)))]


# The query lies at 0 degrees, its positive at 40: too close is what scores above .728, below 43.3 degrees.
ANGLES = {"positive": 40, "above": 10, "close": 42, "near": 45, "copy": 60, "far": 50, "farther": 70, "second": 55}


@pytest.fixture
def named() -> MinedDocuments:
    """Documents of which one at least is passed over for every reason."""
    groups = {name: number for number, name in enumerate(ANGLES)} | {"copy": 0}
    vectors = np.array([along(angle) for angle in ANGLES.values()], np.float32)
    return MinedDocuments(list(ANGLES), np.array([groups[name] for name in ANGLES]), vectors)


def test_documents_that_are_never_negatives_and_queries_that_have_none(named: MinedDocuments) -> None:
    asked = np.array([along(0)], np.float32)
    words = {"positive": 2.0, "above": 1.0, "far": 3.0, "second": 1.5, "farther": 0.0}
    options = MiningSettings("both", mask_similar=None)
    found = mine(named, {"q": ["positive"]}, options, words=lambda query, ids: words, vectors=asked)
    assert found.lists == {"q": ("second", "near", "farther")}
    never = {"q": ["near", "gone"], "other": ["farther"]}
    without = mine(named, {"q": ["positive"]}, options, words=lambda query, ids: words, vectors=asked, excluded=never)
    assert without.lists == {"q": ("second", "farther")} and without.rejected == found.rejected
    # A positive without a word of the query has the score 0: all that were found are above it.
    found = mine(named, {"q": ["positive"]}, MiningSettings("words"), words=lambda query, ids: {"far": 3.0})
    assert found.lists == {"q": ()}


def test_blocks_change_nothing(monkeypatch: Patch) -> None:
    draw = np.random.default_rng(3)
    # Whole numbers, so that many scores are equal.
    vectors = draw.integers(-1, 2, (400, 6)).astype(np.float32)
    documents = MinedDocuments([f"{n:03d}" for n in draw.permutation(400)], np.arange(400), vectors, "dot")
    asked = draw.integers(-1, 2, (9, 6)).astype(np.float32)
    positives = {f"q{n}": [documents.ids[n], documents.ids[399 - n]] for n in range(9)}
    options = MiningSettings("vectors", 20, margin=0.5, mask_similar=None)
    whole = mine(documents, positives, options, vectors=asked)
    assert (whole.lists, whole.rejected) == by_loops(documents, positives, options, {}, asked)
    for block, held in ((1, 1), (7, 3 * 400), (64, 2**26)):
        monkeypatch.setattr(mining, "_BLOCK", block)
        monkeypatch.setattr(mining, "_MOST_SCORES", held)
        assert mine(documents, positives, options, vectors=asked) == whole


def test_shares_of_queries_are_merged(named: MinedDocuments) -> None:
    asked = np.array([along(angle) for angle in (0, 90, 30)], np.float32)
    positives = {"a": ["positive"], "b": ["far", "gone"], "c": ["gone"]}
    options = MiningSettings("vectors", 2)
    whole = mine(named, positives, options, vectors=asked, record={"model": "m"})
    names = list(positives)
    parts = [
        mine(named, {name: positives[name] for name in own}, options, vectors=asked[rows], record={"model": "m"})
        for own, rows in ((names[::2], [0, 2]), (names[1::2], [1]), ([], []))
    ]
    assert merged(parts, positives) == whole
    assert list(merged(parts, positives).lists) == ["a", "b"]


def test_bad_input(named: MinedDocuments) -> None:
    asked = np.array([along(0)], np.float32)
    with pytest.raises(RetrievalError, match="positive"):
        mine(named, {"q": ["gone"]}, MiningSettings("vectors"), vectors=asked)
    for wrong in ({"depth": 0}, {"margin": -0.1}, {"mask_similar": 1.5}, {"by": "luck"}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            MiningSettings(**wrong)


QUERIES = {"a": "spring tides of the sea", "b": "steamed rice", "c": "wood"}


def test_documents_are_those_of_the_index(index: DocumentIndex, documents: Documents) -> None:
    every = [*documents, Document("copy", documents[0].sections, title="Another title")]
    index.update(every)
    found = documents_of_index(index)
    assert sorted(found.ids) == sorted(document.id for document in every) and found.similarity == "cosine"
    expected = dict(zip([one.id for one in every], index.encoder.encode(every, normalize_embeddings=True), strict=True))
    np.testing.assert_allclose(found.vectors, [expected[id] for id in found.ids], atol=1e-5)
    groups = dict(zip(found.ids, found.groups, strict=True))
    assert groups["copy"] == groups[documents[0].id] and len(set(groups.values())) == len(documents)


def test_word_scores_are_those_of_a_search(index: DocumentIndex, monkeypatch: Patch) -> None:
    hits = {hit.id: hit.score for hit in index.search(QUERIES["a"], 4, by="words", words_level="passage")}
    assert word_scores(index, QUERIES, 1)("a", ["rice"]) == pytest.approx(hits) and set(hits) == {"tides", "marsh"}
    scores = DocumentIndex.scores

    def only_the_best(self: DocumentIndex, query: str, **settings: Any) -> dict[str, Any]:
        (found,) = scores(self, query, **settings).values()
        return {"words": found if "ids" in settings else dict([max(found.items(), key=lambda one: one[1])])}

    # A positive that was not found is searched for by itself.
    monkeypatch.setattr(DocumentIndex, "scores", only_the_best)
    assert len(word_scores(index, QUERIES, 10)("a", [])) == 1
    assert word_scores(index, QUERIES, 10)("a", ["tides", "marsh", "rice"]) == pytest.approx(hits)


def test_words_alone_and_words_in_this_process_find_what_an_index_finds(
    index: DocumentIndex, encoder: DocumentEncoder, documents: Documents
) -> None:
    index.maintain()
    segmented = [encoder.segment_with_text(document) for document in documents]
    alone, words = index_words(segmented, encoder.model.config.language), PassageWords(segmented, "en")
    expected = word_scores(index, QUERIES, 100)
    assert len(alone) == len(documents)
    for query, text in QUERIES.items():
        assert alone.scores(text, by="words") == index.scores(text, by="words")
        ours, theirs = words.scores(text, ["rice", "tides"], 100), expected(query, ["rice", "tides"])
        assert list(ours) == list(theirs)
        # LanceDB multiplies by k1 + 1, and has another list of stop words.
        shares = [score / theirs[id] for id, score in ours.items()]
        np.testing.assert_allclose(shares, shares[0], rtol=0.02)
    assert words.scores("the of nowhere", ["rice"], 5) == {}


def test_a_positive_below_the_best_passages_has_its_score(monkeypatch: Patch, encoder: DocumentEncoder) -> None:
    monkeypatch.setattr(mining, "_FEWEST_PASSAGES", 1)
    documents = [Document(f"d{n:03d}", [Section("Tides rise. " + "Salt marsh. " * n)]) for n in range(100)]
    words = PassageWords([encoder.segment_with_text(document) for document in documents], "en")
    few, whole = words.scores("tides", ["d099"], 1), words.scores("tides", [], 100)
    assert len(few) < len(whole) == 100 and "d099" not in words.scores("tides", [], 1)
    assert {id: whole[id] for id in few} == few


LISTS = NegativeLists(
    {"by": "both", "depth": 3, "rejected": {JUDGED: 2, CLOSE: 0, SIMILAR: 1}},
    {"q1": ("tide", "wave", "ökö"), "q2": (), "q3": ("tide",)},
)


@pytest.mark.parametrize("name", ["lists.jsonl", "deep/er/lists.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    path = LISTS.write(tmp_path / name)
    found = NegativeLists.read(path)
    assert found == LISTS and list(found.lists) == list(LISTS.lists) and found.content == LISTS.content
    assert LISTS.write(path).read_bytes() == path.read_bytes()
    # Lists are known by their content, whatever their record says.
    assert NegativeLists({"by": "words"}, LISTS.lists).content == LISTS.content
    assert NegativeLists({}, {**LISTS.lists, "q3": ("wave",)}).content != LISTS.content
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        LISTS.write(tmp_path / "file" / "lists.jsonl")


# A byte order mark alone is no id, as white space is none.
IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9).filter(
    lambda id: clean_text(id).strip()
)


@settings(deadline=None, max_examples=50)
@given(lists=st.dictionaries(IDS, st.lists(IDS, unique=True, max_size=4).map(tuple), max_size=4))
def test_any_ids_are_kept(tmp_path_factory: Folders, lists: dict[str, tuple[str, ...]]) -> None:
    path = tmp_path_factory.mktemp("lists") / "lists.jsonl"
    assert NegativeLists.read(NegativeLists({}, lists).write(path)).lists == lists


def test_damaged_files(tmp_path: Path) -> None:
    path = LISTS.write(tmp_path / "lists.jsonl")
    header, *lines = path.read_text().splitlines()
    values = json.loads(header)
    for content, named in (
        ([], "damaged"),
        (lines, ":1"),
        (["[1, 2]"], ":1"),
        ([header, *lines[:-1]], "2 queries"),
        ([header, *lines[:-1], lines[-1][:-4]], ":4"),
        ([header, '{"query": 1, "negatives": []}'], ":2"),
        ([header, '{"query": "q1", "negatives": ["a", 2]}'], ":2"),
        ([header, '{"query": "q1", "negatives": "abc"}'], ":2"),
        ([header, lines[0], lines[0]], ":3"),
        ([header, '{"query": "q1", "negatives": ["a", "a"]}'], ":2"),
        ([json.dumps({**values, "format_version": 7}), *lines], "7"),
    ):
        path.write_text("".join(f"{line}\n" for line in content))
        with pytest.raises(RetrievalError) as error:
            NegativeLists.read(path)
        assert path.name in str(error.value) and named in str(error.value) and "\n" not in str(error.value)
    packed = LISTS.write(tmp_path / "lists.jsonl.gz")
    packed.write_bytes(packed.read_bytes()[:-9])
    for missing in (packed, tmp_path / "nowhere"):
        with pytest.raises(RetrievalError, match=missing.name):
            NegativeLists.read(missing)
