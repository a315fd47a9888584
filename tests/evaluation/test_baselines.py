from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from typed import Backbones, Documents, Encoders

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.evaluation.baselines import TfidfVectors, has_same_passage_vectors, lexical_predictions, untrained_mean
from graphdoc.evaluation.labels import LabelledDocuments


def test_the_untrained_mean_is_that_of_the_backbone(
    tiny_encoder: Encoders, backbone_folder: Backbones, structured: Documents
) -> None:
    encoder = tiny_encoder("bert", pooling="mean", passage_words=12, max_passages=3)
    with torch.no_grad():
        for parameter in encoder.model.parameters():
            parameter.add_(0.1)
    baseline = untrained_mean(encoder, backbone_folder("bert"), device="cpu")
    assert baseline.name == "tiny-bert, untrained mean"
    passages = baseline.encode(structured[0], level="passage")
    assert len(passages) == 3
    assert [span.start for span in baseline.segment(structured[0]).passages] == [
        span.start for span in encoder.segment(structured[0]).passages
    ]
    np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(baseline.encode(structured[0]), passages.mean(axis=0), atol=1e-6)
    untouched = tiny_encoder("bert", pooling="mean", projection_size=None, graph_layers=0, normalize_passages=True)
    np.testing.assert_allclose(baseline.encode("Rice."), untouched.encode("Rice."), atol=1e-6)


def test_encoders_that_read_passages_alike(tiny_encoder: Encoders) -> None:
    encoder = tiny_encoder("bert")
    # What lies above the passage encoder plays no part.
    other = tiny_encoder("bert", graph_layers=0, readout="mean")
    assert has_same_passage_vectors(encoder, other)
    for different in ({"max_passages": 1}, {"pooling": "mean"}):
        assert not has_same_passage_vectors(tiny_encoder("bert", **different), encoder)
    with torch.no_grad():
        next(other.model.passage_encoder.parameters()).view(-1)[0] += 1e-3
    assert not has_same_passage_vectors(encoder, other)


TEXTS = ["tide tide tide marsh", "tide marsh wall", "koji rice rice", "the koji and the rice steam", "of the and"]
PAIRS = np.array([(0, 1), (0, 2), (2, 3), (3, 3), (0, 4)])


def test_it_is_the_cosine_of_logarithmic_counts() -> None:
    counts = [Counter(text.split()) for text in TEXTS]
    documents = Counter(word for count in counts for word in count)
    words = sorted(word for word, number in documents.items() if number >= 2 and word not in ("the", "and", "of"))
    assert words == ["koji", "marsh", "rice", "tide"]
    idf = {word: np.log((1 + len(TEXTS)) / (1 + documents[word])) + 1 for word in words}
    vectors = np.array([[(1 + np.log(count[w])) * idf[w] if count[w] else 0.0 for w in words] for count in counts])
    lengths = np.linalg.norm(vectors, axis=1)
    expected = [vectors[a] @ vectors[b] / max(lengths[a] * lengths[b], 1e-12) for a, b in PAIRS]

    found = TfidfVectors(TEXTS).similarities(PAIRS)

    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[0] > 0.9 and found[1] == 0 == found[4]


def test_texts_that_share_no_word_are_compared_by_all_words() -> None:
    np.testing.assert_allclose(TfidfVectors(["tide wall", "the"]).similarities(np.array([(0, 1), (1, 1)])), [0, 1])
    assert TfidfVectors(["?", "!"]).similarities(np.array([(0, 0)])).tolist() == [0]


WORDS = {"rice": "rice steam koji mould grain", "sea": "tide wave marsh wall flood", "clock": "hour gear tick dial"}


def documents(count: int, seed: int, several: bool = False) -> list[Document]:
    draw = np.random.default_rng(seed)
    result = []
    for number in range(count):
        labels = tuple(draw.permutation(list(WORDS))[: draw.integers(0, 3)]) if several else list(WORDS)[number % 3]
        topics = list(labels) if several else [labels]
        words = [word for topic in topics for word in draw.choice(WORDS[topic].split(), 12)] + ["the"] * 5
        result.append(Document(f"{seed}-{number}", (Section(" ".join(draw.permutation(words))),), label=labels))
    return result


def test_labels_are_learned_from_words() -> None:
    test = documents(30, 1)
    found = lexical_predictions(LabelledDocuments.from_documents(documents(30, 0)), test)
    assert found == [(document.label,) for document in test]
    train = LabelledDocuments.from_documents(documents(60, 0, several=True), multi_label=True)
    test = documents(30, 1, several=True)
    found = lexical_predictions(train, test)
    assert () in found and any(len(labels) == 2 for labels in found)
    right = [set(labels) == set(document.label or ()) for labels, document in zip(found, test, strict=True)]
    assert np.mean(right) > 0.9
