"""Documents ranked by their sentences: against plain loops, and what a hit says of its score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typed import Documents, Folders, Patch

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import DocumentError, RetrievalError, SettingsError
from graphdoc.retrieval import sentences as sentence_search
from graphdoc.retrieval.sentences import encode_sentences

# Scores of an untrained model differ by little, and z-scores divide by that.
ROUNDING = {"none": 1e-4, "zscore": 2e-3}


@pytest.fixture(scope="module")
def index(tmp_path_factory: Folders, encoder: DocumentEncoder, documents: Documents) -> DocumentIndex:
    """The four documents with their sentences, to be read alone."""
    made = DocumentIndex.create(tmp_path_factory.mktemp("indexes") / "index", encoder, sentences=True)
    made.update(documents, maintain=True)
    return made


@pytest.fixture(scope="module")
def source() -> Document:
    """A document that is not in the index."""
    return Document(
        "new", [Section("The sea floods a marsh. Mud settles.", heading="Sea"), Section("Wood turns.", heading="Wood")]
    )


def paragraphs(encoder: DocumentEncoder, document: Document) -> list[np.ndarray]:
    """Unit vectors of the sentences of every paragraph."""
    (own,) = encode_sentences(encoder, [document], "section")
    vectors = own.vectors.astype(np.float64)
    return [vectors[own.places[:, 3] == number] for number in range(own.places[-1, 3] + 1)]


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def matrix(source: list[np.ndarray], candidate: list[np.ndarray], by: str) -> np.ndarray:
    """Scores of paragraphs, by loops."""
    if by == "flat":
        candidate = [np.concatenate(candidate)]
        source = [np.concatenate(source)]
    if by == "paragraphs":
        source, candidate = ([unit(one.sum(0))[None] for one in some] for some in (source, candidate))
    if by == "document":
        source, candidate = ([unit(np.concatenate(some).sum(0))[None]] for some in (source, candidate))
    return np.array([[np.mean([max(float(s @ c) for c in two) for s in one]) for two in candidate] for one in source])


def expected(
    encoder: DocumentEncoder, source: Document, documents: Documents, by: str, normalization: str, direction: str
) -> dict[str, float]:
    """Scores of documents by loops over sentences (SDR, equations 4 to 6)."""
    own = paragraphs(encoder, source)
    others = {one.id: paragraphs(encoder, one) for one in documents}
    forward = {id: matrix(own, one, by) for id, one in others.items()}
    back = {id: matrix(one, own, by).T for id, one in others.items()}
    if normalization == "zscore":
        for scores in (forward, back):
            everything = np.concatenate(list(scores.values()), axis=1)
            mean, deviation = everything.mean(1, keepdims=True), everything.std(1, keepdims=True)
            for id in scores:
                scores[id] = (scores[id] - mean) / np.where(deviation > 1e-12, deviation, np.inf)
    found = {id: float(one.max(1).mean()) for id, one in forward.items()}
    if direction == "both":
        found = {id: (found[id] + float(one.max(0).mean())) / 2 for id, one in back.items()}
    return found


@pytest.mark.parametrize(
    ("by", "normalization", "direction"),
    [("sentences", "none", "both"), ("sentences", "zscore", "source"), ("flat", "none", "both"),
     ("paragraphs", "zscore", "both"), ("document", "zscore", "source")],
)  # fmt: skip
def test_scores_are_those_of_loops_and_of_their_pairs(
    index: DocumentIndex, encoder: DocumentEncoder, documents: Documents, source: Document, by: Any,
    normalization: Any, direction: Any,
) -> None:  # fmt: skip
    found = index.search(source, by=by, normalization=normalization, direction=direction)
    assert {hit.id: hit.score for hit in found} == pytest.approx(
        expected(encoder, source, documents, by, normalization, direction), abs=ROUNDING[normalization]
    )
    assert found.by == by and [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    for hit in found:
        assert hit.alignment is not None
        assert sum(pair.contribution for pair in hit.alignment.pairs) == pytest.approx(hit.score, abs=1e-9)
        assert hit.parts[by].score == hit.score


def test_a_document_of_the_index_is_not_its_own_hit(
    index: DocumentIndex, encoder: DocumentEncoder, documents: Documents, monkeypatch: Patch
) -> None:
    for normalization, rounding in ROUNDING.items():
        found = index.search(documents[0], by="sentences", normalization=normalization)
        scores = expected(encoder, documents[0], documents[1:], "sentences", normalization, "both")
        assert {hit.id: hit.score for hit in found} == pytest.approx(scores, abs=rounding)
    same = Document("copy", documents[0].sections, title=documents[0].title)
    best = index.search(same, by="sentences")[0]
    assert best.id == documents[0].id and best.score == pytest.approx(1.0, abs=1e-3)
    # Its vectors are those of the index.
    monkeypatch.setattr(sentence_search, "encode_sentences", None)
    assert len(index.search(documents[0], by="flat")) == 3
    with pytest.raises(TypeError):
        index.search(same, by="flat")


def test_words_are_mixed_in(index: DocumentIndex, source: Document) -> None:
    words = {hit.id: hit.score for hit in index.search(source, by="words", words_level="document")}
    own = {hit.id: hit.score for hit in index.search(source, by="sentences")}
    words = {id: words.get(id, 0.0) for id in own}

    def scaled(scores: dict[str, float]) -> dict[str, float]:
        low, high = min(scores.values()), max(scores.values())
        return {id: (score - low) / (high - low) for id, score in scores.items()}

    found = index.search(source, by="sentences", weight=0.7)
    by_hand = {id: 0.7 * scaled(words)[id] + 0.3 * scaled(own)[id] for id in own}
    assert {hit.id: hit.score for hit in found} == pytest.approx(by_hand, abs=1e-4)
    assert found.fusion == "weighted"
    for hit in found:
        assert hit.score == pytest.approx(sum(part.share for part in hit.parts.values()), abs=1e-12)
        assert hit.alignment is not None
        assert hit.alignment.score == pytest.approx(hit.parts["sentences"].score, abs=1e-9)
        explained = hit.explain()
        assert sum(part.contribution for part in explained.words) == pytest.approx(hit.parts["words"].score, abs=1e-3)
    assert "words: rank" in str(found[0].explain())
    few = index.search(source, by="sentences", weight=0.5, words_level="both", where="id IN ('tides', 'rice')")
    assert {hit.id for hit in few} == {"tides", "rice"}


def test_pool_and_filters_say_what_is_ranked(index: DocumentIndex, source: Document) -> None:
    options: dict[str, Any] = {"by": "sentences", "normalization": "zscore"}
    everything = {hit.id: hit.score for hit in index.search(source, **options)}
    first = {hit.id for hit in index.search(source, 2)}
    for settings, ids in (
        ({"pool": 2}, first),
        ({"where": "id IN ('rice', 'lathe')"}, {"rice", "lathe"}),
        ({"where": "year >= 2010"}, {"marsh", "lathe"}),
        ({"pool": 9, "where": "year >= 2010"}, {"marsh", "lathe"}),
    ):
        # What else is ranked changes no score, of z-scores neither.
        found = {hit.id: hit.score for hit in index.search(source, **options, **settings)}
        assert found == pytest.approx({id: everything[id] for id in ids}, abs=1e-9)
    none = index.search(source, by="flat", where="year > 3000")
    assert not none.hits and "3000" in none.warnings[-1]
    assert len(index.search(source, 1, by="sentences")) == 1


def test_a_corpus_of_one_and_documents_that_are_gone(tmp_path: Path, encoder: DocumentEncoder) -> None:
    made = DocumentIndex.create(tmp_path / "index", encoder, sentences=True)
    one, two = Document("one", [Section("Tides rise.", heading="A")]), Document("two", [Section("Rice.")])
    assert not made.search(one, by="sentences").hits
    made.update(one)
    assert not made.search(one, by="sentences", normalization="zscore").hits
    # A single paragraph has no deviation: its z-score is 0.
    (hit,) = made.search(two, by="sentences", normalization="zscore")
    assert hit.score == hit.alignment.score == 0
    (hit,) = made.search(two, by="sentences")
    made.update([Document("one", [Section("Rice is steamed.")])])
    with pytest.raises(RetrievalError, match="'one'"):
        hit.explain()
    with pytest.raises(DocumentError):
        made.search(Document("none", [Section("", heading="Only a heading")]), by="sentences")
    (hit,) = made.search(two, by="sentences")
    made.delete("one")
    with pytest.raises(RetrievalError, match="'one'"):
        _ = hit.alignment


def test_an_index_without_sentences_is_not_ranked_by_them(read_index: DocumentIndex, source: Document) -> None:
    for settings in ({}, {"pool": 2}):
        with pytest.raises(SettingsError, match="--sentences"):
            read_index.search(source, by="sentences", **settings)


def test_results_as_data(index: DocumentIndex, source: Document, documents: Documents, tmp_path: Path) -> None:
    found = index.search(source, 2, by="sentences", weight=0.2, direction="source")
    content = json.loads(json.dumps(found.to_dict(explain=True)))
    assert content["by"] == "sentences" and content["fusion"] == "weighted"
    texts = {document.id: [section.text for section in document.sections] for document in [source, *documents]}
    for hit in content["hits"]:
        pairs = hit["alignment"]["pairs"]
        assert [pair["source_heading"] for pair in pairs] == ["Sea", "Wood"]
        for pair in pairs:
            assert sum(one["contribution"] for one in pair["sentences"]) == pytest.approx(pair["contribution"])
            for one in pair["sentences"]:
                for side, id in (("source", "new"), ("candidate", hit["id"])):
                    section, start, end = one[f"{side}_place"]
                    assert one[f"{side}_text"] == texts[id][section][start:end]
    frame = found.to_frame()
    assert len(frame) == 6 and set(frame["source_sentence"]) == {0, 1, 2}
    assert index.search(source, 1, by="document").to_frame()["source_text"].isna().all()


def test_blocks_and_reads_do_not_change_scores(index: DocumentIndex, source: Document, monkeypatch: Patch) -> None:
    before = {hit.id: hit.score for hit in index.search(source, by="sentences", normalization="zscore")}
    for name in ("_READ_PASSAGES", "_READ_DOCUMENTS", "_READ_IDS", "BLOCK_SENTENCES"):
        monkeypatch.setattr(sentence_search, name, 1)
    after = {hit.id: hit.score for hit in index.search(source, by="sentences", normalization="zscore")}
    assert after == pytest.approx(before, abs=1e-6)


def test_the_best_pairs_are_those_of_the_best_paragraphs(tmp_path: Path, encoder: DocumentEncoder) -> None:
    long = " ".join(f"The tide number {number} floods the marsh and leaves." for number in range(12))
    source = Document("new", [Section(long, heading="Long"), Section("Zzz.", heading="Short")])
    index = DocumentIndex.create(tmp_path / "index", encoder, sentences=True)
    index.update([Document("other", [Section(long, heading="Same"), Section("Lathes turn oak wood.", heading="Wood")])])
    (hit,) = index.search(source, by="sentences", direction="source")
    whole, short = hit.alignment.pairs
    # The only sentence of the short paragraph adds most of all sentences, and its paragraph less than the long one.
    assert short.sentences[0].contribution > max(one.contribution for one in whole.sentences)
    assert whole.contribution > short.contribution
    assert [pair for pair, _ in hit.alignment.best_pairs(5)] == [whole, short]
    rows = list(hit.alignment.rows())
    assert [row["source_paragraph"] for row in rows] == [0] * 12 + [1] and rows[0]["similarity"] > 0.99


@pytest.mark.parametrize("text", ["Zyx. Qrs.", "The. And."])
def test_words_that_tell_nothing_do_not_count(index: DocumentIndex, text: str) -> None:
    source = Document("new", [Section(text)])
    found = index.search(source, by="sentences", weight=0.5)
    assert any("count nothing" in warning for warning in found.warnings)
    scores = {hit.id: hit.score for hit in index.search(source, by="sentences")}
    assert {hit.id: hit.score for hit in found} == pytest.approx(scores)
