"""How queries, judgements and labels are read, and what evaluations refuse, with the value that is named."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_examples import write_rows
from hypothesis import given
from hypothesis import strategies as st
from typed import Encoders, Folders

from graphdoc.documents.document import Document
from graphdoc.documents.readers.pair_files import Pairs
from graphdoc.documents.section import Section
from graphdoc.errors import EvaluationError, GraphdocError, OutputError, SettingsError
from graphdoc.evaluation import (
    ClassificationEvaluator,
    PairEvaluator,
    RankingEvaluator,
    RankingTable,
    best_weight,
    classification_scores,
    read_relevant,
    score_run,
)
from graphdoc.evaluation.baselines import lexical_predictions
from graphdoc.evaluation.clustering import ClusteringEvaluator, cluster, linear_probe
from graphdoc.evaluation.judgements import Judgements, read_judgements, read_queries
from graphdoc.evaluation.labels import LabelledDocuments, class_names, held_out_rows, ordered_classes
from graphdoc.evaluation.measures import Measure
from graphdoc.evaluation.pair_scores import best_threshold, score_pairs
from graphdoc.evaluation.pairs import documents_of_pairs
from graphdoc.evaluation.rankers import RANKERS, RankedCorpus, parts_of, rank_documents
from graphdoc.evaluation.trec import leave_out, ranked, read_qrels, read_run, source_documents, write_qrels, write_run

pytest.importorskip("ir_measures")
ROW = '{"_id": "q1", "text": "high tide", "kind": "specific"}\n'


@pytest.mark.parametrize(
    ("read", "name", "content", "value"),
    [
        (read_qrels, "qrels.tsv", "q1\t0\ttide\t1\nq1\ttide\t1\n", "qrels.tsv:2"),
        (read_qrels, "qrels.tsv", "q1\t0\ttide\t1.5\n", "qrels.tsv:1: .*'tide'.*1.5"),
        (read_qrels, "qrels.tsv", "q1\t0\ttide\t1\nq1\t0\ttide\t1\nq1\t0\ttide\t0\n", "qrels.tsv:3: .*'tide'"),
        (read_qrels, "qrels.tsv", "query-id\tcorpus-id\tscore\n", "qrels.tsv"),
        (read_run, "a.run", "q1\tQ0\ttide\t1\t2.5\n", "a.run:1"),
        (read_run, "a.run", "q1\tQ0\ttide\t1\t2\tx\n\nq1\tQ0\ttide\t2\t1\tx\n", "a.run:3"),
        (read_run, "a.run", "", "a.run"),
        (read_relevant, "links.tsv", "a\tb\na\t\n", "links.tsv:2"),
        (read_relevant, "lists.json", '{"a": {"b": 0}}', "lists.json"),
        (read_relevant, "lists.json", '{"a": {"b": NaN}}', "lists.json: 'a'.*'b'.*nan"),
        (read_relevant, "lists.json", "[" * 100_000, "lists.json"),
        (read_relevant, "lists.json", '{"a": 3}', "lists.json"),
        (read_judgements, "pairs.tsv", "high tide\ttide\nwaves\n", "pairs.tsv:2"),
        (read_judgements, "pairs.tsv", "", "pairs.tsv"),
        (read_queries, "q.jsonl", ROW + '{"text": "ebb"}', "q.jsonl:2: .*_id"),
        (read_queries, "q.jsonl", ROW + ROW, "q.jsonl:2: .*'q1'"),
        (read_queries, "q.jsonl", ROW + '{"_id": "q9", "question": "ebb"}', "q.jsonl:2: .*'text'"),
        (read_queries, "q.jsonl", ROW + '["q9", "ebb"]', "q.jsonl:2: .*list"),
        (partial(read_queries, only=["knd=specific"]), "q.jsonl", ROW, "knd=specific"),
        (partial(read_queries, only=["kind=other"]), "q.jsonl", ROW, "kind=other"),
    ],
)
def test_files(tmp_path: Path, read: Callable[[Path], object], name: str, content: str, value: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(EvaluationError, match=value):
        read(tmp_path / name)


def test_folders_of_queries(tmp_path: Path) -> None:
    queries = [{"_id": "q1", "text": "high tide"}, {"_id": "q3", "text": "waves"}]
    (tmp_path / "queries.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in queries))
    (tmp_path / "pairs.tsv").write_text("high tide\ttide\n")
    (tmp_path / "qrels").mkdir()
    for line, options, value in (
        (None, {}, "qrels"),
        ("q1\ttide\t0", {}, "0 of 2 queries"),
        ("q8\ttide\t1", {}, "'q8'"),
        ("q1\ttide\t1", {"split": "dev"}, r"qrels.*'dev'.*test, train"),
    ):
        if line is not None:
            for name, grades in (("test", line.replace("2", "1")), ("train", line)):
                (tmp_path / "qrels" / f"{name}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{grades}\n")
        with pytest.raises(EvaluationError, match=value):
            read_judgements(tmp_path, **options)
    settings: dict[str, Any]
    for settings in ({"split": "test"}, {"only": ["kind=specific"]}, {"text_column": "title"}):
        with pytest.raises(SettingsError, match=r"pairs\.tsv"):
            read_judgements(tmp_path / "pairs.tsv", **settings)
    for wrong in ("kind", "=test", "kind="):
        with pytest.raises(SettingsError, match=wrong):
            read_queries(tmp_path / "queries.jsonl", [wrong])
    (tmp_path / "queries.jsonl").unlink()
    for path, value in ((tmp_path, "queries"), (tmp_path / "none", "none")):
        with pytest.raises(EvaluationError, match=value):
            read_judgements(path)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "run.tsv"
    for run, name, value in (
        ({"q1": {"tide\tgate": 1.0}}, "mine", "tide"),
        ({"q\n1": {"tide": 1.0}}, "mine", "q"),
        ({"q1": {" ": 1.0}}, "mine", "' '"),
        ({"q1": {"tide": math.nan}}, "mine", "'tide'"),
        ({"q1": {"tide": 1.0}}, "my run", "'my run'"),
        ({"q1": {"tide": 1.0}}, "", "''"),
    ):
        with pytest.raises(EvaluationError, match=value):
            write_run(path, run, name)
    with pytest.raises(EvaluationError, match="tide"):
        write_qrels(path, {"q1": {"tide\r": 1}})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match=r"run\.tsv"):
        write_run(tmp_path / "file" / "run.tsv", {"q1": {"tide": 1.0}})


def labelled(*labels: Any, text: str = "x y") -> list[Document]:
    rows = [{"id": f"d{row}", "text": f"{text} {row}", "label": label} for row, label in enumerate(labels)]
    return [Document.from_mapping(row) for row in rows]


def each(labels: str) -> list[tuple[str, ...]]:
    return [(name,) for name in labels]


POINTS = np.random.default_rng(0).normal(size=(6, 3))
ONE, SEVERAL = LabelledDocuments.from_documents, partial(LabelledDocuments.from_documents, multi_label=True)
RICE, SEA = ("d0", "d1", 1), ("d0", "d2", 0)
FIRST = lambda first, *_: first  # noqa: E731
QRELS = {f"q{number}": {"a": 1} for number in range(10)}


@pytest.mark.parametrize(
    ("value", "call"),
    [
        (r"train .*'a'", lambda: lexical_predictions(ONE(labelled("a", "a")), [])),
        (r"train .*label", lambda: lexical_predictions(SEVERAL(labelled([])), [])),
        ("vocabulary", lambda: lexical_predictions(ONE(labelled("a", "b", text="?")), [])),
        (r"9 .* 1 ", lambda: ClassificationEvaluator(labelled(*[None] * 9, ["a", "b"]))),
        ("no documents", lambda: classification_scores([], [], ["a"])),
        ("2 of 2", lambda: classification_scores(each("ab"), each("ab"), ["a", "b"], np.full((2, 2), np.nan))),
        ("7", lambda: cluster(POINTS, POINTS[:4], list("abab"), 7, [0])),
        ("'a'", lambda: cluster(POINTS, POINTS[:4], list("aaaa"), 2, [0])),
        ("test", lambda: cluster(POINTS, POINTS[:0], [], 2, [0])),
        ("train .*c, d, e, ", lambda: linear_probe(POINTS, list("aabbab"), POINTS, list("abcdef"))),
        ("train .*'a'", lambda: linear_probe(POINTS, list("aaaaaa"), POINTS, list("aaaaaa"))),
        ("no pairs", lambda: best_threshold([], [])),
        ("2 similarities for 3 pairs", lambda: score_pairs([1, 0, 1], [0.2, 0.3], 0.5)),
        ("1 of 3 similarities", lambda: score_pairs([1, 0, 1], [np.nan, 0.2, 0.3], 0.5)),
        ("both labels", lambda: PairEvaluator("high tide", [])),
        *((r"pair 2: .* 0 or 1", partial(PairEvaluator, [], [RICE, wrong])) for wrong in (SEA[:2], ("d0", " ", 1), 7)),
        ("1 have none", lambda: ClassificationEvaluator([{"text": "high tide"}])),
        ("'q1', 'q2'", lambda: RankingEvaluator(["tide"], {"q": "tide"}, {"q1": {"a": 1}, "q2": {"a": 1}})),
        ("1 judged .*'a'", lambda: RankingEvaluator(["high tide"], {"q1": "tide"}, QRELS)),
        ("both labels", lambda: PairEvaluator(labelled(*"abc"), [RICE, SEA], [SEA])),
        ("pair 2: 'd1' and 'd0'", lambda: PairEvaluator(labelled(*"abc"), [RICE, ("d1", "d0", 0)])),
        ("1 of 2 pairs", lambda: PairEvaluator(labelled(*"abc"), [("x", "y", 1), SEA], unknown="leave_out")),
        ("'d0'", lambda: documents_of_pairs([*labelled(*"ab"), *labelled("a")], Pairs.from_sequence([RICE]))),
        *((str(wrong), partial(Measure.parse, wrong)) for wrong in ("ndcg@0", "ndcg@1.5", "f1", "recall", None)),
        ("ndgc", lambda: RankingEvaluator([], {}, {}, primary_metric="ndgc@10")),
        *((one, partial(ClassificationEvaluator, labelled(*"ab"), primary_metric=one)) for one in ("f1", "micro_f1")),
        ("'auc'", lambda: PairEvaluator(labelled(*"abc"), [RICE, SEA], primary_metric="auc")),
        ("probe_accuracy", lambda: ClusteringEvaluator(*[labelled(*"abab")] * 2, primary_metric="probe_accuracy")),
        ("measures", lambda: score_run({}, {"q1": {"a": 1}}, [])),
        ("candidates", lambda: score_run({}, {"q1": {"a": 1}}, ["mpr"])),
        ("0 of 1 ", lambda: score_run({"q1": {"a": 1.0}}, {"q1": {"a": 0, "b": -1}})),
        ("'b'.*inf", lambda: score_run({"q1": {"a": 1.0, "b": np.inf}}, {"q1": {"a": 1}})),
        ("'bm25'.*BM25", lambda: RankingTable.from_runs({"BM25": {}}, {"q1": {"a": 1}}, against="bm25")),
        ("10 queries.*11 folds", lambda: best_weight(QRELS, QRELS, QRELS, FIRST, folds=11)),
        ("folds=1", lambda: best_weight(QRELS, QRELS, QRELS, FIRST, folds=1)),
        *(("bm52", partial(parts_of, [name])) for name in ("bm52", "sentences+bm52")),
        ("1 judged .*'tide'", lambda: Judgements.from_qrels({"q": "tide"}, {"q": {"tide": 1}}).among(["other"])),
    ],
)  # fmt: skip
def test_values(value: str, call: Callable[[], object]) -> None:
    with pytest.raises(GraphdocError, match=value):
        call()


def test_models_and_corpora(tiny_encoder: Encoders) -> None:
    encoder, classes = tiny_encoder("bert"), {"readout": "mean", "labels": ["a", "b", "c"]}
    (one,), bare = labelled("a"), Document("bare", (Section("", "A heading"),))
    several, single = tiny_encoder("bert", multi_label=True, **classes), tiny_encoder("bert", **classes)
    mark, relevant = Document.from_text("?", id="a"), {"d0": {"d1": 1}}
    call: Callable[[], object]
    for value, call in (
        ("classification head", lambda: ClassificationEvaluator([one])(encoder)),
        (r"several labels.* one", lambda: ClassificationEvaluator([one])(several)),
        (r"a, b, c.* x", lambda: ClassificationEvaluator(labelled("x"))(single)),
        ("1 document", lambda: rank_documents(RankedCorpus([one], lambda: encoder), ["d0"], relevant, ["tf-idf"])),
        ("'d0'", lambda: RankedCorpus([one, one], lambda: encoder)),
        ("bare", lambda: RankedCorpus([one, bare], lambda: encoder, show_progress_bar=False).sentences),
        ("no words", lambda: RANKERS["bm25"](RankedCorpus([mark], lambda: encoder))),
    ):
        with pytest.raises(GraphdocError, match=value):
            call()


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


def test_unknsource_documents() -> None:
    texts = {"q1": "high tide", "q2": "waves", "q3": " "}
    found = Judgements.from_qrels(texts, {"q1": {"tide": 1, "ebb": 1}, "q2": {"wave": 1}, "q3": {"ebb": 1}})
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
    labels = LabelledDocuments.from_documents(labelled("b", None, ["a"], ["a", "b"], "", [], "a;b"), separator=";")
    assert [document.id for document in labels.documents] == ["d0", "d2", "d6"]  # type: ignore[union-attr]
    assert labels.single_labels == ["b", "a", "a;b"]
    assert (labels.without_label, labels.with_several, labels.left_out) == (("d1", "d4"), ("d3", "d5"), 4)
    assert (len(labels), labels.classes) == (3, ["a", "a;b", "b"])
    targets = labels.targets(["c", "b", "a", "a;b"])
    assert (targets.dtype, targets.tolist()) == (np.int64, [1, 2, 3])


def test_several_labels() -> None:
    labels = LabelledDocuments.from_documents(labelled(["a", "b"], None, [], "c; a"), multi_label=True, separator=";")
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
