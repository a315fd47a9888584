"""Documents ranked by each other in every way, against loops and against search."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from small_index import encoder as encoder

from graphdoc import Document, DocumentEncoder, Section
from graphdoc.errors import DocumentError, EvaluationError, RetrievalError, SettingsError
from graphdoc.evaluation.document_ranking.corpus import RankedCorpus
from graphdoc.evaluation.document_ranking.rows import ROWS, rank_documents, require_rows
from graphdoc.evaluation.document_ranking.words import npmi
from graphdoc.registry import POOLINGS, load
from graphdoc.retrieval.index import DocumentIndex
from graphdoc.similarity.cosine import similarity_matrix

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
def documents() -> list[Document]:
    """Five documents of two sections."""
    return [
        Document(id, (Section(first, "Opening words"), Section(second, "The rest")), title=id.title())
        for id, (first, second) in TEXTS.items()
    ]


@pytest.fixture
def corpus(documents: list[Document], encoder: DocumentEncoder) -> RankedCorpus:
    return RankedCorpus(documents, lambda: encoder, show_progress=False)


def test_every_row_ranks_all_others(corpus: RankedCorpus) -> None:
    found = rank_documents(corpus, list(RELEVANT), RELEVANT, list(ROWS))
    assert list(found.runs) == list(ROWS)
    for name, run in found.runs.items():
        assert list(run) == list(RELEVANT)
        for source, scores in run.items():
            assert scores.keys() == TEXTS.keys() - {source}, name
            assert all(math.isfinite(score) for score in scores.values())
    # The words of the texts leave no doubt.
    for name in ("tf-idf", "bm25", "words-documents"):
        assert max(found.runs[name]["lathe"], key=found.runs[name]["lathe"].__getitem__) == "oak"


def test_words_of_documents_are_those_of_a_search(
    corpus: RankedCorpus, documents: list[Document], encoder: DocumentEncoder
) -> None:
    index = DocumentIndex.create("memory://", encoder)
    index.update(documents)
    scorer = ROWS["words-documents"].prepare(corpus)
    for place, source in enumerate(documents):
        hits = index.search(source, len(documents), by="words", words_unit="document")
        found = {hit.id: hit.score for hit in hits}
        scores = dict(zip(corpus.places, scorer(place).tolist(), strict=True))
        del scores[source.id]
        assert found and {id: score for id, score in scores.items() if score} == pytest.approx(found)


def test_bm25_against_a_loop(corpus: RankedCorpus) -> None:
    scores = ROWS["bm25"].prepare(corpus)(0)
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


def test_coherence_against_a_loop() -> None:
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
    assert npmi(csr_matrix(counts.astype(float)), topics) == pytest.approx(np.mean(values))


def test_chunks_of_a_transformer_alone(corpus: RankedCorpus, encoder: DocumentEncoder) -> None:
    tokenizer, passage_encoder = encoder.tokenizer, encoder.model.passage_encoder

    def vectors(pooling: str) -> np.ndarray:
        rows = []
        for document in corpus.documents:
            found = tokenizer(document.text, return_tensors="pt", truncation=True)
            with torch.no_grad():
                hidden = passage_encoder.tokens(found["input_ids"], found["attention_mask"])[0]
            rows.append((hidden[0] if pooling == "cls" else hidden.mean(dim=0)).numpy())
        return np.stack(rows)

    for name, pooling in (("cls", "cls"), ("first", "mean"), ("all", "mean")):
        own = vectors(pooling)
        for place in (0, 3):
            expected = similarity_matrix(own[place : place + 1], own)[0]
            np.testing.assert_allclose(ROWS[name].prepare(corpus)(place), expected, atol=1e-5)
    assert isinstance(passage_encoder.pooling, load(POOLINGS[encoder.model.config.pooling]))


@pytest.mark.parametrize("normalisation", ["none", "zscore"])
def test_sentences_as_an_index_ranks(
    documents: list[Document], encoder: DocumentEncoder, tmp_path: Path, normalisation: str
) -> None:
    corpus = RankedCorpus(
        documents,
        lambda: encoder,
        normalisation=normalisation,  # type: ignore[arg-type]
        direction="both",
        show_progress=False,
    )
    rows = ("sentences", "flat", "paragraphs", "document")
    found = rank_documents(corpus, ["tides"], RELEVANT, rows)
    index = DocumentIndex.create(tmp_path / "index", encoder, sentences=True)
    index.update(documents)
    for name in rows:
        searched = index.search(documents[0], by=name, normalisation=normalisation, direction="both")  # type: ignore[arg-type]
        expected = {hit.id: hit.score for hit in searched}
        assert found.runs[name]["tides"] == pytest.approx(expected, abs=1e-3 if normalisation == "none" else 2e-2)


def test_vectors_that_are_kept_are_not_made_again(
    documents: list[Document], encoder: DocumentEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = RankedCorpus(documents, lambda: encoder, folder=tmp_path / "kept", show_progress=False)
    again = RankedCorpus(
        documents, lambda: encoder, folder=tmp_path / "kept", paragraph="blank_line", show_progress=False
    )
    fresh = RankedCorpus(documents, lambda: encoder, paragraph="blank_line", show_progress=False)
    assert len(first.sentences.paragraphs) < len(fresh.sentences.paragraphs)
    monkeypatch.setattr(encoder.model, "encode_passages", None)
    np.testing.assert_array_equal(again.sentences.paragraphs, fresh.sentences.paragraphs)
    np.testing.assert_allclose(again.sentences.vectors, fresh.sentences.vectors, atol=1e-3)


def test_words_joined_with_sentences(corpus: RankedCorpus) -> None:
    found = rank_documents(corpus, list(RELEVANT), RELEVANT, ["tf-idf+sentences", "tf-idf", "sentences"], folds=2)
    weight = found.weights["tf-idf+sentences"]
    source = "tides"
    own = weight.fold_weights[weight.folds[source]]

    def between(scores: dict[str, float]) -> dict[str, float]:
        low, high = min(scores.values()), max(scores.values())
        return {id: (score - low) / (high - low) for id, score in scores.items()}

    words, others = (between(dict(found.runs[name][source])) for name in ("tf-idf", "sentences"))
    expected = {id: own * words[id] + (1 - own) * others[id] for id in words}
    assert dict(found.runs["tf-idf+sentences"][source]) == pytest.approx(expected)


def test_mistakes(corpus: RankedCorpus, documents: list[Document], encoder: DocumentEncoder, tmp_path: Path) -> None:
    for names, says in (([], "row"), (["bm52"], "bm52"), (["sentences+tf-idf"], "sentences"), (["bm25+bm25"], "bm25")):
        with pytest.raises(SettingsError, match=says):
            require_rows(names)
    with pytest.raises(EvaluationError, match="'nobody'"):
        rank_documents(corpus, ["nobody"], RELEVANT, ["tf-idf"])
    with pytest.raises(EvaluationError, match="1 document"):
        rank_documents(RankedCorpus(documents[:1], lambda: encoder), ["tides"], RELEVANT, ["tf-idf"])
    with pytest.raises(RetrievalError, match="'tides'"):
        RankedCorpus([documents[0], documents[0]], lambda: encoder)
    encoder.encode_to_disk(documents, tmp_path / "passages", level="passage")
    for others, kept in ((documents, "passages"), (documents[1:], "sentences")):
        RankedCorpus(documents, lambda: encoder, folder=tmp_path / "sentences", show_progress=False).sentences  # noqa: B018
        with pytest.raises(RetrievalError, match=f"{kept}.*give another folder"):
            _ = RankedCorpus(others, lambda: encoder, folder=tmp_path / kept, show_progress=False).sentences
    headings = Document("bare", (Section("", "A heading"),))
    with pytest.raises(DocumentError, match="bare"):
        _ = RankedCorpus([documents[0], headings], lambda: encoder, show_progress=False).sentences
    for name in ("tf-idf", "bm25", "lda"):
        with pytest.raises(RetrievalError, match="no words"):
            ROWS[name].prepare(RankedCorpus([Document.from_text("?", id="a"), headings][:1], lambda: encoder))
