from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.document import Document
from graphdoc.errors import EvaluationError
from graphdoc.evaluation.labels import LabelledDocuments, class_names, held_out_rows, ordered_classes


def labelled(*labels: Any) -> list[Document]:
    """Documents d0, d1, ... with labels as rows have them."""
    return [
        Document.from_mapping({"id": f"d{n}", "text": "Some text.", "label": label}) for n, label in enumerate(labels)
    ]


@pytest.mark.parametrize(
    ("label", "names"),
    [
        ("rice", ("rice",)),
        (" rice\n and\tkoji ", ("rice and koji",)),
        (3, ("3",)),
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


class TestSingle:
    def test_documents_without_one_label_are_left_out_and_named(self) -> None:
        found = LabelledDocuments.of(labelled("b", None, ["a"], ["a", "b"], "", [], "b"))
        assert [document.id for document in found.documents] == ["d0", "d2", "d6"]  # type: ignore[union-attr]
        assert found.labels == (("b",), ("a",), ("b",))
        assert (found.without_label, found.with_several) == (("d1", "d4"), ("d3", "d5"))
        assert (len(found), found.classes) == (3, ["a", "b"])

    def test_a_separator_is_for_several_labels_alone(self) -> None:
        assert LabelledDocuments.of(labelled("a;b"), separator=";").labels == (("a;b",),)

    def test_targets(self) -> None:
        found = LabelledDocuments.of(labelled("b", "a", "c"))
        targets = found.targets(["c", "b", "a", "d"])
        assert (targets.dtype, targets.tolist()) == (np.int64, [1, 2, 0])

    def test_labels_that_were_unseen_in_training(self) -> None:
        found = LabelledDocuments.of(labelled("new", "a", "new", "other", "b", "y"))
        assert found.known(["a", "b"]).tolist() == [1, 4]
        assert found.targets(["a", "b"], found.known(["a", "b"])).tolist() == [0, 1]
        with pytest.raises(EvaluationError, match=r"2 classes.*new, other, y"):
            found.targets(["a", "b"])


class TestSeveral:
    def test_documents_without_labels_are_left_out_and_an_empty_list_is_kept(self) -> None:
        found = LabelledDocuments.of(labelled(["a", "b"], None, [], "c; a"), multi_label=True, separator=";")
        assert found.labels == (("a", "b"), (), ("c", "a"))
        assert (found.without_label, found.with_several) == (("d1",), ())
        assert found.classes == ["a", "b", "c"]

    def test_targets(self) -> None:
        found = LabelledDocuments.of(labelled(["a", "b"], [], "c"), multi_label=True)
        targets = found.targets(["c", "b", "a"])
        assert (targets.dtype, targets.tolist()) == (np.float32, [[0, 1, 1], [0, 0, 0], [1, 0, 0]])
        with pytest.raises(EvaluationError, match=r"1 classes.*b, c"):
            found.targets(["a"])


def test_classes_are_in_an_order_that_people_expect() -> None:
    assert ordered_classes(["b", "10", "a", "9", "-1", "a", "²", "1" * 30]) == [
        "-1",
        "9",
        "10",
        "1" * 30,
        "a",
        "b",
        "²",
    ]


@given(st.lists(st.sampled_from("abc"), max_size=60), st.floats(0, 1), st.integers(0, 5))
def test_the_same_share_of_every_class_is_held_out(labels: list[str], share: float, seed: int) -> None:
    rows = held_out_rows(labels, share, seed)
    for name in set(labels):
        is_name = np.array(labels) == name
        assert (rows & is_name).sum() == int(is_name.sum() * share)
    assert (rows == held_out_rows(labels, share, seed)).all()
