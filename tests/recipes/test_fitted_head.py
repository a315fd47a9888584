from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_loading import load, refusal
from scipy import sparse
from scipy.special import softmax

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import EvaluationError, ModelError, SettingsError
from graphdoc.evaluation import LabelledDocuments
from graphdoc.evaluation.faithfulness import FaithfulnessEvaluation, encode_shortened
from graphdoc.prediction import explain
from graphdoc.recipes.fitted_head import FittedHead, fit_head, fit_vectors_and_words

EncoderFactory = Callable[..., DocumentEncoder]
MEAN = {"readout": "mean", "graph_layers": 0, "projection_size": None, "pooling": "mean", "passage_words": 20}
SUBJECTS = {
    "baking": ("dough", "oven", "flour", "crust", "yeast"),
    "sea": ("tide", "harbour", "wave", "ship", "shore"),
    "stars": ("orbit", "comet", "planet", "moon", "dust"),
}
EACH = 8


def labelled(subjects: list[str], *, each: int = EACH) -> list[Document]:
    """Documents that share all but the words of their subject."""
    draw = np.random.default_rng(3)
    found = []
    for number in range(each):
        for subject in subjects:
            nouns = draw.permutation(SUBJECTS[subject])[:3]
            text = " ".join(f"The {noun} was seen by many people in the year {number}." for noun in nouns)
            found.append(Document.from_text(f"{text} {text}", id=f"{subject} {number}", label=subject))
    return found


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return labelled([*SUBJECTS])


@pytest.fixture
def encoder(tiny_encoder: EncoderFactory, documents: list[Document]) -> DocumentEncoder:
    encoder = tiny_encoder("bert", **MEAN)
    encoder.fit(documents, lexical={"least_documents": 1, "numbers": 12})
    return encoder


def words_of(encoder: DocumentEncoder, documents: list[Document]) -> np.ndarray:
    """Tf-idf weights of the length 1, from counts of the terms that the model knows."""
    reader = encoder.lexical
    assert reader is not None
    counts = reader.counts([one.text for one in documents]).toarray().astype(np.float64)
    weights = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * reader.part.idf.numpy()
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def logits_by_hand(encoder: DocumentEncoder, documents: list[Document]) -> np.ndarray:
    """W d + U w + b, of the vectors that the readout gives and of tf-idf weights of the length 1."""
    head, reader = encoder.model.head, encoder.lexical
    assert head is not None and head.words is not None and reader is not None
    dense = np.concatenate([window.output.documents.numpy() for window in encoder.windows(documents)])
    words = words_of(encoder, documents)
    linear = (head.linear.weight, head.linear.bias, head.words.weight)
    weight, bias, own = (part.detach().double().numpy() for part in linear)
    return np.asarray(dense.astype(np.float64) @ weight.T + words @ own + bias)


class TestFitHead:
    def test_the_head_is_the_classifier_of_vectors_and_words(
        self, encoder: DocumentEncoder, documents: list[Document]
    ) -> None:
        dense = np.concatenate([window.output.documents.numpy() for window in encoder.windows(documents)])
        found, labels = fit_head(encoder, LabelledDocuments.of(documents)), [str(one.label) for one in documents]
        machine = fit_vectors_and_words(dense, sparse.csr_matrix(words_of(encoder, documents)), labels)
        chosen = machine.strength, machine.length, machine.held_out
        assert found == FittedHead(24, ("baking", "sea", "stars"), True, *chosen, 3)
        predictions = encoder.predict(documents)
        powers = np.exp(machine.logits(dense, words_of(encoder, documents)))
        assert predictions.probabilities == pytest.approx(powers / powers.sum(axis=1, keepdims=True), abs=1e-4)
        # Words tell what vectors of an untrained encoder do not.
        assert np.mean([one.labels[0] == label for one, label in zip(predictions, labels, strict=True)]) > 0.9
        assert found.held_out_accuracy is not None and found.held_out_accuracy > 0.8
        assert [one.logits for one in predictions] == [
            pytest.approx(row, abs=1e-4) for row in logits_by_hand(encoder, documents)
        ]

    @pytest.mark.parametrize("numbers", [2, 3])
    def test_with_and_without_words(self, tiny_encoder: EncoderFactory, numbers: int) -> None:
        documents = labelled([*SUBJECTS][:numbers])
        encoder = tiny_encoder("bert", **MEAN)
        found = fit_head(encoder, [*documents, replace(documents[0], id="none", label=None)])
        assert found.documents == len(documents)
        assert not found.reads_words and encoder.model.head.words is None
        vectors = np.concatenate([window.output.documents.numpy() for window in encoder.windows(documents)])
        alone = fit_vectors_and_words(vectors, None, [str(one.label) for one in documents])
        logits = alone.logits(vectors, sparse.csr_matrix((len(vectors), 0)))
        expected = softmax(logits[:, [alone.classes.index(name) for name in found.classes]], axis=1)
        assert encoder.predict(documents).probabilities == pytest.approx(expected, abs=1e-4)
        assert encoder.predict(documents).probabilities.shape == (EACH * numbers, numbers)

    def test_where_everything_is_told_apart_a_rare_class_is_too(
        self, tiny_encoder: EncoderFactory, documents: list[Document]
    ) -> None:
        """All strengths are as accurate on what is held out, where the weakest would never give the rare class."""
        few = [one for one in documents if one.label != "stars"]
        rare = [one for one in documents if one.label == "stars"][:3]
        encoder = tiny_encoder("bert", **MEAN)
        encoder.fit([*few, *rare], lexical={"least_documents": 1, "numbers": 12})
        found = fit_head(encoder, LabelledDocuments.of([*few, *rare]))
        assert (found.held_out_accuracy, found.held_out_documents) == (1.0, 2)
        assert [one.labels[0] for one in encoder.predict(rare)] == ["stars"] * 3

    def test_whole_numbers_stand_in_their_order(self, tiny_encoder: EncoderFactory, documents: list[Document]) -> None:
        place = {"baking": "10", "sea": "2", "stars": "1"}
        numbered = [replace(one, label=place[str(one.label)]) for one in documents]
        encoder = tiny_encoder("bert", **MEAN)
        encoder.fit(numbered, lexical={"least_documents": 1, "numbers": 12})
        assert fit_head(encoder, LabelledDocuments.of(numbered)).classes == ("1", "2", "10")
        right = [one.labels[0] == own.label for one, own in zip(encoder.predict(numbered), numbered, strict=True)]
        assert np.mean(right) > 0.9

    def test_contributions_and_the_bias_add_up_to_the_logit(
        self, encoder: DocumentEncoder, documents: list[Document]
    ) -> None:
        fit_head(encoder, LabelledDocuments.of(documents))
        head = encoder.model.head
        assert head is not None and head.words is not None
        for document in documents[:4]:
            prediction = explain(encoder, document, ["sea", "stars"])
            assert len(prediction.segmented.passages) > 1
            for decision, place in zip(prediction.decisions, (1, 2), strict=True):
                whole = decision.contributions.sum() + head.linear.bias[place].item()
                assert whole == pytest.approx(decision.logit, abs=1e-4)
                # Word by word from the formula: the weight of a term times that of the head.
                weights = words_of(encoder, [document])[0]
                present, own = np.flatnonzero(weights), head.words.weight[:, place].detach().numpy()
                expected = sorted((weights[row] * own[row] for row in present), reverse=True)
                assert [one.contribution for one in decision.words] == pytest.approx(expected, abs=1e-6)
                assert {one.word.lower() for one in decision.words} <= set(re.findall(r"\w+", document.text.lower()))
                assert all(one.contribution > 0 for one in decision.keywords)
            listed = prediction.to_dict()["words"]
            assert all(one["contribution"] > 0 for one in listed) and len(listed) <= 20
            assert document.label == "baking" or document.label in {one["label"] for one in listed}
        before = explain(encoder, documents[0], ["sea"]).decisions[0].contributions
        with torch.no_grad():
            head.words.weight.zero_()
        assert explain(encoder, documents[0], ["sea"]).decisions[0].contributions != pytest.approx(before, abs=1e-3)

    def test_a_shortened_document_has_the_words_that_are_left(
        self, encoder: DocumentEncoder, documents: list[Document]
    ) -> None:
        fit_head(encoder, LabelledDocuments.of(documents))
        (segmented,) = encoder.with_passage_vectors([documents[0]])
        kept = np.zeros(len(segmented.passages), np.bool_)
        kept[0] = True
        found = encode_shortened(encoder.model, segmented, [~kept | kept, kept], encoder.lexical)
        first = Document.from_text(segmented.texts[0], id="first")
        expected = [encoder.predict(one)[0].logits for one in (documents[0], first)]
        assert found.logits == pytest.approx(np.array(expected), abs=1e-4)
        assert not np.allclose(*found.logits, atol=1e-3)

    def test_curves_are_those_of_vectors_and_words(self, encoder: DocumentEncoder, documents: list[Document]) -> None:
        fit_head(encoder, LabelledDocuments.of(documents))
        scores = FaithfulnessEvaluation(documents[:3], steps=2, resamples=5).measure(encoder)
        assert len(scores.cases) == 3
        for (_, label), curves, document in zip(scores.cases, scores.curves, documents, strict=False):
            prediction = encoder.predict(document)[0]
            assert label == prediction.labels[0]
            assert curves[0, 0, 0] == pytest.approx(prediction.probability_of(label), abs=1e-4)

    def test_what_cannot_be(self, encoder: DocumentEncoder, documents: list[Document]) -> None:
        with pytest.raises(EvaluationError):
            fit_head(encoder, LabelledDocuments.of(documents[::3]))
        with pytest.raises(ModelError) as caught:
            fit_head(encoder, LabelledDocuments.of(documents, multi_label=True))
        assert "one label" in str(caught.value)
        assert encoder.model.head is None


class TestCheckpoints:
    def test_predictions_are_those_of_before(
        self, encoder: DocumentEncoder, documents: list[Document], tmp_path: Path
    ) -> None:
        fit_head(encoder, LabelledDocuments.of(documents))
        loaded = load(encoder.save_pretrained(tmp_path / "model"))
        assert loaded.model.config.classifier_words
        assert np.array_equal(loaded.predict(documents).probabilities, encoder.predict(documents).probabilities)
        # How long words are beside vectors that are compared is nothing to the head.
        lighter = load(tmp_path / "model", lexical_weight=0.1)
        assert lighter.predict(documents).probabilities == pytest.approx(
            encoder.predict(documents).probabilities, abs=1e-5
        )
        # A comparison reads no head.
        assert loaded.compare(documents[0], documents[1]).document == pytest.approx(
            encoder.compare(documents[0], documents[1]).document, abs=1e-6
        )

    def test_the_head_needs_its_words(
        self, encoder: DocumentEncoder, documents: list[Document], tmp_path: Path
    ) -> None:
        fit_head(encoder, LabelledDocuments.of(documents))
        message = refusal(encoder.save_pretrained(tmp_path / "model"), lexical=None)
        assert "classifier_words" in message and "lexical" in message

    def test_another_fit_takes_the_head_away(
        self, encoder: DocumentEncoder, documents: list[Document], caplog: pytest.LogCaptureFixture
    ) -> None:
        fit_head(encoder, LabelledDocuments.of(documents))
        with caplog.at_level(logging.WARNING, "graphdoc"):
            encoder.fit(documents, centre=False, lexical={"least_documents": 1, "numbers": 5})
        assert "head" in caplog.text and encoder.name in caplog.text
        assert encoder.model.head is None and not encoder.model.config.classifier_words
        with pytest.raises(ModelError):
            encoder.predict(documents[0])

    @pytest.mark.parametrize("change", [{"centre": False}, {"centre": True}])
    def test_a_centre_that_comes_or_goes_takes_the_head_away(
        self, tiny_encoder: EncoderFactory, documents: list[Document], change: dict[str, bool]
    ) -> None:
        encoder = tiny_encoder("bert", **MEAN)
        if not change["centre"]:
            encoder.fit(documents)
        fit_head(encoder, LabelledDocuments.of(documents))
        encoder.fit(documents, lexical={"least_documents": 1, "numbers": 5}, **change)
        assert (encoder.model.centre is not None) == change["centre"]
        assert encoder.model.head is None

    def test_the_head_goes_with_the_words_that_it_reads(
        self, encoder: DocumentEncoder, documents: list[Document], tmp_path: Path
    ) -> None:
        fit_head(encoder, LabelledDocuments.of(documents))
        encoder.model.set_lexical(None)
        assert encoder.model.head is None
        assert load(encoder.save_pretrained(tmp_path / "model")).model.config.labels is None

    def test_a_head_without_words_stays_where_only_words_are_fitted(
        self, tiny_encoder: EncoderFactory, documents: list[Document]
    ) -> None:
        encoder = tiny_encoder("bert", **MEAN)
        fit_head(encoder, LabelledDocuments.of(documents))
        before = encoder.predict(documents).probabilities
        encoder.fit(documents, centre=False, lexical={"least_documents": 1, "numbers": 5})
        assert np.array_equal(encoder.predict(documents).probabilities, before)

    def test_words_without_a_lexical_part(self, tiny_encoder: EncoderFactory) -> None:
        encoder = tiny_encoder("bert", **MEAN)
        with pytest.raises(SettingsError) as caught:
            encoder.model.add_head(["a", "b"], words=True)
        assert "lexical" in str(caught.value)
        assert encoder.model.head is None
