from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.document import Document
from graphdoc.evaluation.labels import LabelledDocuments, class_names, held_out_rows, ordered_classes


def labelled(*labels: Any) -> list[Document]:
    """Documents d0, d1, ... with labels as rows have them."""
    return [
        Document.from_mapping({"id": f"d{n}", "text": "Some text.", "label": label}) for n, label in enumerate(labels)
    ]


@pytest.mark.parametrize(
    ("label", "names"),
    [
        (" rice\n and\tkoji ", ("rice and koji",)),
        (2.0, ("2",)),
        ("<b>x</b>", ("<b>x</b>",)),
        (["a", "b", "a\n", ""], ("a", "b")),
        ([], ()),
        ([" "], None),
        ("", None),
        (None, None),
        (float("nan"), None),
    ],
)
def test_classes_that_a_label_names(label: Any, names: tuple[str, ...] | None) -> None:
    (document,) = labelled(label)
    assert class_names(document.label) == names


def test_single_labels() -> None:
    documents = labelled("b", None, ["a"], ["a", "b"], "", [], "a;b")
    labels = LabelledDocuments.of(documents, separator=";")
    assert [document.id for document in labels.documents] == ["d0", "d2", "d6"]  # type: ignore[union-attr]
    assert labels.single_labels == ["b", "a", "a;b"]
    assert (labels.without_label, labels.with_several, labels.left_out) == (("d1", "d4"), ("d3", "d5"), 4)
    assert (len(labels), labels.classes) == (3, ["a", "a;b", "b"])
    targets = labels.targets(["c", "b", "a", "a;b"])
    assert (targets.dtype, targets.tolist()) == (np.int64, [1, 2, 3])


def test_several_labels() -> None:
    labels = LabelledDocuments.of(labelled(["a", "b"], None, [], "c; a"), multi_label=True, separator=";")
    assert labels.labels == (("a", "b"), (), ("c", "a"))
    assert (labels.without_label, labels.with_several, labels.classes) == (("d1",), (), ["a", "b", "c"])
    targets = labels.targets(["c", "b", "a"])
    assert (targets.dtype, targets.tolist()) == (np.float32, [[0, 1, 1], [0, 0, 0], [1, 0, 1]])


def test_classes_are_in_an_order_that_people_expect() -> None:
    names = ["b", "10", "a", "9", "-1", "a", "²", "1" * 30]
    assert ordered_classes(names) == ["-1", "9", "10", "1" * 30, "a", "b", "²"]


@given(st.lists(st.sampled_from("abc"), max_size=60), st.floats(0, 1), st.integers(0, 5))
def test_the_same_share_of_every_class_is_held_out(labels: list[str], share: float, seed: int) -> None:
    rows = held_out_rows(labels, share, seed)
    for name in set(labels):
        is_name = np.array(labels) == name
        assert (rows & is_name).sum() == int(is_name.sum() * share)
    assert (rows == held_out_rows(labels, share, seed)).all()
