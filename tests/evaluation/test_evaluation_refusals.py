"""What evaluations refuse: files, labels, pairs, rankings and settings, with the value that is named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typed import Encoders

from graphdoc.documents.document import Document
from graphdoc.documents.readers.pair_files import Pairs
from graphdoc.documents.section import Section
from graphdoc.errors import EvaluationError, GraphdocError, OutputError, SettingsError
from graphdoc.evaluation import (
    ClassificationEvaluator,
    LabelledPair,
    PairEvaluator,
    RankingEvaluator,
    RankingTable,
    best_threshold,
    best_weight,
    classification_scores,
    cluster,
    linear_probe,
    read_relevant,
    score_pairs,
    score_run,
)
from graphdoc.evaluation.baselines import lexical_predictions
from graphdoc.evaluation.judgements import Judgements, read_judgements, read_queries
from graphdoc.evaluation.labels import LabelledDocuments
from graphdoc.evaluation.measures import Measure
from graphdoc.evaluation.pairs import documents_of_pairs
from graphdoc.evaluation.rankers import RANKERS, RankedCorpus, parts_of, rank_documents
from graphdoc.evaluation.trec import read_qrels, read_run, write_qrels, write_run

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


def pairs_of(*pairs: tuple[str, str, int]) -> list[LabelledPair]:
    return [LabelledPair(*pair) for pair in pairs]


POINTS = np.random.default_rng(0).normal(size=(6, 3))
ONE, SEVERAL = LabelledDocuments.of, partial(LabelledDocuments.of, multi_label=True)
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
        ("both labels", lambda: PairEvaluator(labelled(*"abc"), [])),
        ("both labels", lambda: PairEvaluator(labelled(*"abc"), pairs_of(RICE, SEA), pairs_of(SEA))),
        ("pair 2: 'd1' and 'd0'", lambda: PairEvaluator(labelled(*"abc"), pairs_of(RICE, ("d1", "d0", 0)))),
        ("1 of 2 pairs", lambda: PairEvaluator(labelled(*"abc"), pairs_of(("x", "y", 1), SEA), unknown="leave_out")),
        ("'d0'", lambda: documents_of_pairs([*labelled("a", "b"), *labelled("a")], Pairs.of(pairs_of(RICE)))),
        *((str(wrong), partial(Measure.parse, wrong)) for wrong in ("ndcg@0", "ndcg@1.5", "f1", "recall", None)),
        ("ndgc", lambda: RankingEvaluator([], {}, {}, best="ndgc@10")),
        ("measures", lambda: score_run({}, {"q1": {"a": 1}}, [])),
        ("candidates", lambda: score_run({}, {"q1": {"a": 1}}, ["mpr"])),
        ("0 of 1 ", lambda: score_run({"q1": {"a": 1.0}}, {"q1": {"a": 0, "b": -1}})),
        ("'b'.*inf", lambda: score_run({"q1": {"a": 1.0, "b": np.inf}}, {"q1": {"a": 1}})),
        ("'bm25'.*BM25", lambda: RankingTable.of({"BM25": {}}, {"q1": {"a": 1}}, against="bm25")),
        ("10 queries.*11 folds", lambda: best_weight(QRELS, QRELS, QRELS, FIRST, folds=11)),
        ("folds=1", lambda: best_weight(QRELS, QRELS, QRELS, FIRST, folds=1)),
        *(("bm52", partial(parts_of, [name])) for name in ("bm52", "sentences+bm52")),
        ("1 judged document.*'tide'", lambda: Judgements.of({"q": "tide"}, {"q": {"tide": 1}}).among(["other"])),
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
        ("bare", lambda: RankedCorpus([one, bare], lambda: encoder, show_progress=False).sentences),
        ("no words", lambda: RANKERS["bm25"](RankedCorpus([mark], lambda: encoder))),
    ):
        with pytest.raises(GraphdocError, match=value):
            call()
