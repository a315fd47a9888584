from __future__ import annotations

import logging
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_loading import load, refusal
from scipy import sparse
from scipy.special import softmax
from typed import Documents, Encoders, Log, Patch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import EvaluationError, ModelError, SettingsError
from graphdoc.evaluation import LabelledDocuments
from graphdoc.prediction import explain
from graphdoc.recipes import fitted_head
from graphdoc.recipes.fitted_head import LENGTHS, STRENGTHS, fit_head, fit_vectors_and_words

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
def encoder(tiny_encoder: Encoders, documents: Documents) -> DocumentEncoder:
    encoder = tiny_encoder("bert", **MEAN)
    encoder.fit(documents, lexical={"least_documents": 1, "size": 12})
    return encoder


def words_of(encoder: DocumentEncoder, documents: Documents) -> np.ndarray:
    """Tf-idf weights of the length 1, from counts of the terms that the model knows."""
    reader = encoder.lexical
    assert reader is not None
    counts = reader.counts([one.text for one in documents]).toarray().astype(np.float64)
    weights = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * reader.part.idf.numpy()
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


class TestFitHead:
    def test_the_head_classifies_vectors_and_words(self, encoder: DocumentEncoder, documents: Documents) -> None:
        dense = np.concatenate([window.output.documents.numpy() for window in encoder.windows(documents)])
        found = fit_head(encoder, LabelledDocuments.from_documents(documents))
        labels = [str(one.label) for one in documents]
        machine = fit_vectors_and_words(dense, sparse.csr_matrix(words_of(encoder, documents)), labels)
        assert (found.strength, found.length) == (machine.strength, machine.length)
        assert (found.documents, found.classes, found.held_out_documents) == (24, ("baking", "sea", "stars"), 3)
        assert found.reads_words and found.held_out_accuracy == machine.held_out_accuracy
        predictions = encoder.predict(documents)
        powers = np.exp(machine.logits(dense, words_of(encoder, documents)))
        assert predictions.probabilities == pytest.approx(powers / powers.sum(axis=1, keepdims=True), abs=1e-4)
        # Words tell what vectors of an untrained encoder do not.
        assert np.mean([one.labels[0] == label for one, label in zip(predictions, labels, strict=True)]) > 0.9
        assert found.held_out_accuracy is not None and found.held_out_accuracy > 0.8
        assert np.stack([one.logits for one in predictions]) == pytest.approx(
            machine.logits(dense, words_of(encoder, documents)), abs=1e-3
        )

    def test_without_words(self, tiny_encoder: Encoders, documents: Documents) -> None:
        encoder = tiny_encoder("bert", **MEAN)
        found = fit_head(encoder, [*documents, replace(documents[0], id="none", label=None)])
        assert found.documents == len(documents)
        assert not found.reads_words and encoder.model.head.words is None
        vectors = np.concatenate([window.output.documents.numpy() for window in encoder.windows(documents)])
        alone = fit_vectors_and_words(vectors, None, [str(one.label) for one in documents])
        expected = softmax(alone.logits(vectors, sparse.csr_matrix((len(vectors), 0))), axis=1)
        before = encoder.predict(documents).probabilities
        assert before == pytest.approx(expected, abs=1e-4)
        # It stays where only words are fitted.
        encoder.fit(documents, centre=False, lexical={"least_documents": 1, "size": 5})
        assert np.array_equal(encoder.predict(documents).probabilities, before)

    def test_where_all_is_told_apart_a_rare_class_is_too(self, tiny_encoder: Encoders, documents: Documents) -> None:
        """All strengths are as accurate on what is held out, where the weakest would never give the rare class."""
        few = [one for one in documents if one.label != "stars"]
        rare = [one for one in documents if one.label == "stars"][:3]
        encoder = tiny_encoder("bert", **MEAN)
        encoder.fit([*few, *rare], lexical={"least_documents": 1, "size": 12})
        found = fit_head(encoder, LabelledDocuments.from_documents([*few, *rare]))
        assert (found.held_out_accuracy, found.held_out_documents) == (1.0, 2)
        assert [one.labels[0] for one in encoder.predict(rare)] == ["stars"] * 3

    def test_contributions_and_bias_add_up_to_the_logit(self, encoder: DocumentEncoder, documents: Documents) -> None:
        fit_head(encoder, LabelledDocuments.from_documents(documents))
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

    def test_what_cannot_be(self, encoder: DocumentEncoder, documents: Documents) -> None:
        with pytest.raises(EvaluationError):
            fit_head(encoder, LabelledDocuments.from_documents(documents[::3]))
        with pytest.raises(ModelError) as caught:
            fit_head(encoder, LabelledDocuments.from_documents(documents, multi_label=True))
        assert "one label" in str(caught.value)
        assert encoder.model.head is None


class TestCheckpoints:
    def test_predictions_are_as_before(self, encoder: DocumentEncoder, documents: Documents, tmp_path: Path) -> None:
        fit_head(encoder, LabelledDocuments.from_documents(documents))
        expected = encoder.predict(documents).probabilities
        loaded = load(encoder.save_pretrained(tmp_path / "model"))
        assert loaded.model.config.classifier_words
        assert np.array_equal(loaded.predict(documents).probabilities, expected)
        # How long words are beside vectors that are compared is nothing to the head.
        lighter = load(tmp_path / "model", lexical_weight=0.1)
        assert lighter.predict(documents).probabilities == pytest.approx(expected, abs=1e-5)
        message = refusal(tmp_path / "model", lexical=None)
        assert "classifier_words" in message and "lexical" in message

    def test_another_fit_takes_the_head_away(self, encoder: DocumentEncoder, documents: Documents, caplog: Log) -> None:
        for options in ({"centre": False, "lexical": {"least_documents": 1, "size": 5}}, {"lexical": False}):
            fit_head(encoder, LabelledDocuments.from_documents(documents))
            with caplog.at_level(logging.WARNING, "graphdoc"):
                encoder.fit(documents, **options)  # type: ignore[arg-type]
            assert "head" in caplog.text and encoder.name in caplog.text
            assert encoder.model.head is None and not encoder.model.config.classifier_words
            with pytest.raises(ModelError):
                encoder.predict(documents[0])
            caplog.clear()

    def test_the_head_goes_with_the_words_that_it_reads(
        self, encoder: DocumentEncoder, documents: Documents, tmp_path: Path
    ) -> None:
        fit_head(encoder, LabelledDocuments.from_documents(documents))
        encoder.model.set_lexical(None)
        assert encoder.model.head is None
        assert load(encoder.save_pretrained(tmp_path / "model")).model.config.labels is None
        with pytest.raises(SettingsError, match="lexical"):
            encoder.model.add_head(["a", "b"], words=True)


Floats = np.ndarray
HIDDEN, TERMS = 5, 40


def drawn(classes: int, each: int, seed: int = 0, mixed: float = 0.6) -> tuple[Floats, Floats, list[str]]:
    """Vectors and words that each tell classes apart a little."""
    draw = np.random.default_rng(seed)
    labels = [f"class {number}" for number in range(classes) for _ in range(each)]
    place = np.repeat(np.arange(classes), each)
    vectors = draw.normal(size=(len(place), HIDDEN)) * [1, 2, 3, 4, 5] + 7
    vectors[np.arange(len(place)), place % HIDDEN] += 2.0 * (place + 1)
    counts = draw.poisson(mixed, (len(place), TERMS)).astype(np.float64)
    counts[np.arange(len(place)), place] += draw.poisson(1.0, len(place))
    counts[:, -1] += 1
    return vectors, counts / np.linalg.norm(counts, axis=1, keepdims=True), labels


def test_what_is_chosen_is_best_on_what_is_held_out(monkeypatch: Patch) -> None:
    vectors, words, labels = drawn(3, 40)
    found = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed=2)
    assert found.strength in STRENGTHS and found.length in LENGTHS
    assert found.held_out_documents == 24
    assert found.held_out_accuracy is not None and 0.5 < found.held_out_accuracy < 1
    assert found.held_out_accuracy * 24 == pytest.approx(round(found.held_out_accuracy * 24))
    again = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed=2)
    assert (again.logits(vectors, words) == found.logits(vectors, words)).all()
    other = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed=3)
    assert (other.logits(vectors, words) != found.logits(vectors, words)).any()
    alone = {}
    for strength, length in product(STRENGTHS, LENGTHS):
        monkeypatch.setattr(fitted_head, "STRENGTHS", (strength,))
        monkeypatch.setattr(fitted_head, "LENGTHS", (length,))
        given = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed=2).held_out_accuracy
        assert given is not None
        alone[strength, length] = given
    assert len({*alone.values()}) > 1
    assert found.held_out_accuracy == alone[found.strength, found.length] == max(alone.values())


def test_logits_fit_what_is_held_out() -> None:
    """Of new documents the mean probability of the class that is given is about how often it is right."""
    vectors, words, labels = drawn(3, 300)
    found = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels)
    vectors, words, labels = drawn(3, 300, seed=1)
    powers = np.exp(found.logits(vectors, words))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    right = np.array(found.classes)[probabilities.argmax(axis=1)] == np.array(labels)
    assert 0.6 < right.mean() < 0.98
    assert probabilities.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.05)


def test_with_few_documents_settings_stay_in_the_middle() -> None:
    vectors, words, labels = drawn(3, 4)
    found = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels)
    assert (found.strength, found.length, found.held_out_accuracy, found.held_out_documents) == (1.0, 0.3, None, 0)
    assert np.isfinite(found.logits(vectors, words)).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_numbers_that_never_change_and_unknown_words_do_no_harm(seed: int) -> None:
    vectors, words, labels = drawn(2, 6, seed)
    vectors[:, 1], words[0] = 3.0, 0.0
    found = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed)
    assert np.isfinite(found.logits(vectors, words)).all()
    moved = vectors.copy()
    moved[:, 1] = 4.0
    assert found.logits(moved, words) == pytest.approx(found.logits(vectors, words), abs=1e-9)
