from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_examples import write_rows
from hypothesis import given
from hypothesis import strategies as st
from typed import Folders

from graphdoc.documents.document import Document
from graphdoc.evaluation import read_relevant
from graphdoc.evaluation.judgements import Judgements, read_judgements, read_queries
from graphdoc.evaluation.labels import LabelledDocuments, class_names, held_out_rows, ordered_classes
from graphdoc.evaluation.trec import leave_out, ranked, read_qrels, read_run, source_documents, write_run

ROWS: list[dict[str, Any]] = [
    {"_id": "q1", "text": "high tide", "kind": "specific", "split": "test", "tags": ["sea", "moon"], "open": True},
    {"_id": "q2", "text": "Everything", "kind": "general", "split": "test", "tags": ["sea"], "open": False},
    {"_id": 3, "text": " low tide\n", "kind": "specific", "split": "train", "tags": [], "title": "ebb"},
    {"_id": "q4", "text": "", "kind": "none", "split": "dev", "title": None},
]
WITHOUT = {"queries without a positive": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "queries.jsonl", ROWS)
    (tmp_path / "qrels").mkdir()
    return tmp_path


def test_judgements_of_one_file_and_of_a_file_per_split(folder: Path) -> None:
    (folder / "qrels.tsv").write_text("q1\t0\ttide\t2\nq1\t0\tebb\t1\nq1\t0\twave\t0\n3\t0\ttide\t1\nq9\t0\ttide\t1\n")
    found = read_judgements(folder)
    assert found.queries == {"q1": "high tide", "3": "low tide"}
    assert found.qrels == {"q1": {"tide": 2, "ebb": 1, "wave": 0}, "3": {"tide": 1}}
    assert found.positives("q1") == ["tide", "ebb"] and found.left_out["judged queries that are unknown"] == 1
    test = read_judgements(folder, split="test")
    # Judgements of queries that were not chosen are not used.
    assert dict(test.queries) == {"q1": "high tide"} and read_judgements(folder, only=["split=test"]) == test
    (folder / "qrels.tsv").unlink()
    for name, lines in {"test": "q1\ttide\t1\nq2\ttide\t0\n", "train": "3\ttide\t1\nq1\tebb\t1\n"}.items():
        (folder / "qrels" / f"{name}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    # Queries of other splits are no queries without a positive.
    test = read_judgements(folder, split="test")
    assert (test.qrels, test.left_out) == ({"q1": {"tide": 1}}, WITHOUT)
    assert read_judgements(folder).qrels == {"q1": {"tide": 1, "ebb": 1}, "3": {"tide": 1}}
    path = folder / "pairs.tsv"
    path.write_text("query\tdocument_id\nhigh tide\ttide\n\nwaves\twave\nhigh tide \tebb\nhigh tide\ttide\n")
    found = read_judgements(path)
    assert found.queries == {"q1": "high tide", "q2": "waves"}
    assert found.qrels == {"q1": {"tide": 1, "ebb": 1}, "q2": {"wave": 1}}


def test_unknown_documents() -> None:
    texts = {"q1": "high tide", "q2": "waves", "q3": " "}
    found = Judgements.of(texts, {"q1": {"tide": 1, "ebb": 1}, "q2": {"wave": 1}, "q3": {"ebb": 1}})
    no_text = {"queries without text": 1}
    assert found.left_out == no_text and found.among(["tide", "ebb", "wave"]) is found
    assert found.without({"q1": ["tide", "ebb"]}).queries == {"q2": "waves"}
    known = found.among({"tide", "other"})
    assert (known.queries, known.qrels) == ({"q1": "high tide"}, {"q1": {"tide": 1}})
    assert known.left_out == WITHOUT | no_text | {"judged documents that are unknown": 2}


def test_queries_by_their_fields(folder: Path) -> None:
    path = folder / "queries.jsonl"
    assert read_queries(path)[0] == {"q1": "high tide", "q2": "Everything", "3": "low tide", "q4": ""}
    for only, ids in (
        (["kind=specific"], {"q1", "3"}),
        (["kind=specific", "split = test"], {"q1"}),
        (["split=test", "split=dev"], {"q1", "q2", "q4"}),
        (["tags=sea"], {"q1", "q2"}),
        (["open=true"], {"q1"}),
    ):
        texts, known = read_queries(path, only)
        assert (texts.keys(), known) == (ids, {"q1", "q2", "3", "q4"})
    assert read_queries(path, ["split=train", "split=dev"], "title")[0] == {"3": "ebb", "q4": ""}


def labelled(*labels: Any) -> list[Document]:
    """Documents d0, d1, ... with labels as rows have them."""
    return [
        Document.from_mapping({"id": f"d{n}", "text": "Some text.", "label": label}) for n, label in enumerate(labels)
    ]


def test_classes_that_a_label_names() -> None:
    for label, names in (
        (" rice\n and\tkoji ", ("rice and koji",)),
        (2.0, ("2",)),
        ("<b>x</b>", ("<b>x</b>",)),
        (["a", "b", "a\n", ""], ("a", "b")),
        ([], ()),
        *((nothing, None) for nothing in ([" "], "", None, float("nan"))),
    ):
        assert class_names(labelled(label)[0].label) == names
    names = ["b", "10", "a", "9", "-1", "a", "²", "1" * 30]
    assert ordered_classes(names) == ["-1", "9", "10", "1" * 30, "a", "b", "²"]


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


@given(st.lists(st.sampled_from("abc"), max_size=60), st.floats(0, 1), st.integers(0, 5))
def test_the_same_share_of_every_class_is_held_out(labels: list[str], share: float, seed: int) -> None:
    rows = held_out_rows(labels, share, seed)
    for name in set(labels):
        is_name = np.array(labels) == name
        assert (rows & is_name).sum() == int(is_name.sum() * share)
    assert (rows == held_out_rows(labels, share, seed)).all()


IDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6)
SCORES = st.floats(allow_nan=False, allow_infinity=False)
TREC = "q1\t0\ttide gate\t2\nq1\t0\twave\t0\n\nq2\t0\twave\t1\n"
BEIR = "query-id\tcorpus-id\tscore\nq1\ttide gate\t2\nq1\twave\t0\nq2\twave\t1\n"
THREE = "q1\ttide gate\t2\r\nq1\twave\t0\r\nq2\twave\t1\r\n"


def test_forms_of_judgements(tmp_path: Path) -> None:
    for content in (TREC, BEIR, THREE):
        (tmp_path / "a.tsv").write_bytes(content.encode())
        (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(content.encode()))
        for name in ("a.tsv", "a.tsv.gz"):
            assert read_qrels(tmp_path / name) == {"q1": {"tide gate": 2, "wave": 0}, "q2": {"wave": 1}}
    (tmp_path / "spaces.qrels").write_text("q1 0 tide 2\nq1   0 wave -1\n", encoding="utf-8")
    assert read_qrels(tmp_path / "spaces.qrels") == {"q1": {"tide": 2, "wave": -1}}


@given(st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=5), min_size=1, max_size=4))
def test_runs_come_back_as_they_were(tmp_path_factory: Folders, run: dict[str, dict[str, float]]) -> None:
    path = tmp_path_factory.mktemp("run") / "run.tsv"
    assert read_run(write_run(path, run, "mine")) == run
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    for query, scores in run.items():
        own = [cells for cells in lines if cells[0] == query]
        assert [cells[2] for cells in own] == ranked(scores)
        assert [cells[3] for cells in own] == [str(rank) for rank in range(1, len(scores) + 1)]
        assert {(cells[1], cells[5]) for cells in own} == {("Q0", "mine")}


def test_source_documents() -> None:
    qrels = {"q:tide": {"tide": 2, "wave": 1, "ebb": 2}, "gate": {"gate": 1}}
    assert source_documents(qrels, grade=2) == {"q:tide": {"tide", "ebb"}}
    by_id = source_documents(qrels)
    assert by_id == {"q:tide": {"q:tide"}, "gate": {"gate"}}
    run = {"gate": {"gate": 3.0, "tide": 1.0}, "other": {"other": 1.0}}
    assert leave_out(run, by_id) == {"gate": {"tide": 1.0}, "other": {"other": 1.0}}
    assert leave_out(qrels, by_id)["gate"] == {}


def test_forms_of_links_and_lists(tmp_path: Path) -> None:
    expected = {"a": {"b": 1, "c": 1}, "b": {"a": 1}}
    for name, content in {
        "links.tsv": "a\tb\na\tc\nb\ta\na\tb\n",
        "links.txt": "a b\na c\nb a\n",
        "qrels.tsv": "a 0 b 1\na 0 c 1\nb 0 a 1\n",
        "lists.json": json.dumps({"a": ["b", "c"], "b": ["a"]}),
        "objects.json": json.dumps(expected),
    }.items():
        (tmp_path / name).write_text(content)
        assert read_relevant(tmp_path / name) == expected
        assert read_relevant(tmp_path / name, mutual=True) == {"a": {"b": 1}, "b": {"a": 1}}
    (tmp_path / "grades.json").write_text(json.dumps({"a": {"b": 0, "c": 2, "d": -1, "e": 1.0}}))
    assert read_relevant(tmp_path / "grades.json") == {"a": {"b": 0, "c": 2, "d": -1, "e": 1}}
