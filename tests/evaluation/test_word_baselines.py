from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.errors import EvaluationError
from graphdoc.evaluation.baselines import lexical_predictions, text_of
from graphdoc.evaluation.labels import LabelledDocuments

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


def test_single_labels() -> None:
    test = documents(30, 1)
    found = lexical_predictions(LabelledDocuments.of(documents(30, 0)), test)
    assert found == [(document.label,) for document in test]


def test_several_labels() -> None:
    train = LabelledDocuments.of(documents(60, 0, several=True), multi_label=True)
    test = documents(30, 1, several=True)
    found = lexical_predictions(train, test)
    assert () in found and any(len(labels) == 2 for labels in found)
    right = [set(labels) == set(document.label or ()) for labels, document in zip(found, test, strict=True)]
    assert np.mean(right) > 0.9


def test_classes_that_all_documents_have_and_a_class_with_one() -> None:
    def labelled(*labels: Any) -> list[Document]:
        texts = ["rice steam", "rice tide", "rice wave"]
        return [Document(own[0] + text, (Section(text),), label=own) for text, own in zip(texts, labels, strict=True)]

    train = labelled(("a", "b"), ("a",), ("a",))
    found = lexical_predictions(LabelledDocuments.of(train, multi_label=True), train)
    assert all("a" in labels for labels in found)
    single = labelled("b", "c", "c")
    assert lexical_predictions(LabelledDocuments.of(single), single) == [("b",), ("c",), ("c",)]


def test_titles_and_headings_are_read() -> None:
    document = Document("d", (Section("one"), Section("", "Head"), Section("two", "Other")), "Title")
    assert text_of(document) == "Title\n\none\n\nHead\n\nOther\n\ntwo"


def test_what_cannot_be_learned() -> None:
    def document(text: str, label: object) -> Document:
        return Document.from_mapping({"text": text, "label": label})

    with pytest.raises(EvaluationError, match=r"train .*'a'"):
        lexical_predictions(LabelledDocuments.of([document("x y", "a"), document("y z", "a")]), [])
    with pytest.raises(EvaluationError, match=r"train .*label"):
        lexical_predictions(LabelledDocuments.of([document("x y", [])], multi_label=True), [])
    with pytest.raises(EvaluationError, match=r"TF-IDF \+ linear SVM.*empty vocabulary"):
        lexical_predictions(LabelledDocuments.of([document("x y", "a"), document("y z", "b")]), [])
