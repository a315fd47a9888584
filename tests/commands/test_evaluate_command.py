"""graphdoc evaluate: what each task writes and prints, against the evaluators, and what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from corpus_examples import write_rows
from typed import Backbones, Command, Patch

from graphdoc import Document, DocumentEncoder, DocumentIndex, read_documents
from graphdoc.evaluation import (
    ClassificationEvaluator,
    ClusteringEvaluator,
    PairEvaluator,
    RankedDocuments,
    read_pair_file,
    read_qrels,
    read_run,
    score_run,
    sets,
)

Scores = Callable[..., tuple[Any, str]]
LABELS = ["rice", "<b>sea</b>", "[clocks]"]
WORDS = dict(zip(LABELS, ("rice steam koji mould grain", "tide wave marsh wall flood", "hour gear tick"), strict=True))
SIZES = {"train": 12, "test": 9, "dev": 6}
QUERIES = [
    {"_id": "q1", "text": "tide and marsh", "title": "tide", "kind": "plain"},
    {"_id": "q2", "text": "steam koji", "title": "rice", "kind": "plain"},
    {"_id": "q3", "text": "gear tick", "title": "hour", "kind": "odd"},
]


def rows_of(part: str) -> list[dict[str, Any]]:
    draw = np.random.default_rng(len(part))
    return [
        {
            "id": f"{part}{number}",
            "title": f"[bold]{part} {number}",
            "sections": [
                {"heading": "Abstract", "text": f"{label} in short."},
                {"heading": "Body", "text": " ".join(draw.choice(WORDS[label].split(), 30 + number)) + "."},
            ],
            "label": label,
            "split": part.title(),
            "see": [f"{part}{(number + 3) % SIZES[part]}"],
        }
        for number in range(SIZES[part])
        for label in [LABELS[number % 3]]
    ]


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def loaded(model: str) -> DocumentEncoder:
    return DocumentEncoder.from_pretrained(model, device="cpu")


@pytest.fixture
def backbone(backbone_folder: Backbones) -> Path:
    return backbone_folder("bert")


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> Path:
    """A corpus of three parts, pairs of test and dev documents, links, queries with judgements, and sets."""
    write_rows(tmp_path / "corpus.jsonl", [row for part in SIZES for row in rows_of(part)])
    for part in ("test", "dev"):
        lines = [f"{part}{a}\t{part}{b}\t{int(a % 3 == b % 3)}\n" for a, b in combinations(range(SIZES[part]), 2)]
        (tmp_path / f"{part}.tsv").write_text("".join(lines))
    judged = tmp_path / "judged"
    judged.mkdir()
    write_rows(judged / "queries.jsonl", QUERIES)
    (judged / "qrels.tsv").write_text("q1 0 test1 2\nq1 0 test4 1\nq2 0 test0 1\nq3 0 test2 1\n")
    write_rows(judged / "corpus.jsonl", rows_of("test"))
    (tmp_path / "links.tsv").write_text("".join(f"{row['id']}\t{row['see'][0]}\n" for row in rows_of("test")))
    judged_by = {"judged": "judged", "measures": ["MAP", "MPR"]}
    write_rows(tmp_path / "kinds.jsonl", [{"kind": row.pop("label"), **row} for part in SIZES for row in rows_of(part)])
    settings = [
        {"name": "labelled", "documents": ["kinds.jsonl"], "columns": {"label": "kind"}, "pairs": "test.tsv"},
        {"name": "asked", "documents": ["corpus.jsonl"], "labels": False, **judged_by},
    ]
    (tmp_path / "sets.yaml").write_text(yaml.safe_dump({"sets": settings}))
    return tmp_path


@pytest.fixture
def scores(graphdoc: Command) -> Callable[..., tuple[Any, str]]:
    """Runs an evaluation, and gives what it wrote as JSON and printed: ``scores("cluster", "corpus.jsonl")``."""

    def run(*arguments: object) -> tuple[Any, str]:
        status, out, err = graphdoc("evaluate", *arguments, "--json", "out/scores.json")
        assert (status, err) == (0, "")
        return json.loads(Path("out/scores.json").read_text(encoding="utf-8")), out

    return run


def test_cluster(scores: Scores, backbone: Path, model: str, tmp_path: Path) -> None:
    rest = ("--model", model, "--baseline", backbone, "--probe", "--seeds", "3")
    files = ("--csv", "out/scores.csv", "--plot", "out/projection.png")
    content, out = scores("cluster", "corpus.jsonl", *rest, *files)
    assert (tmp_path / "out" / "projection.png").exists()
    assert content["data"] == {"train": 12, "test": 9, "without_label": {"train": 0, "test": 0}}
    names = [("tiny-bert, untrained mean", "untrained"), (model, "model")]
    assert [(row["name"], row["role"]) for row in content["rows"]] == names
    row = content["rows"][1]
    train, test = ([Document.from_mapping(one) for one in rows_of(part)] for part in ("train", "test"))
    expected = ClusteringEvaluator(train, test, seeds=range(3), probe=True)(loaded(model))
    assert row["nmi"]["mean"] == pytest.approx(expected["nmi"])
    assert row["probe"]["macro_f1"] == pytest.approx(expected["probe_macro_f1"])
    assert (row["clusters"], row["seeds"], row["coverage"]["documents"]) == (3, [0, 1, 2], 21)
    table = read_csv(tmp_path / "out" / "scores.csv")
    assert {name: float(table[1][name]) for name in expected} == pytest.approx(expected)
    assert f"{expected['nmi']:.3f} ±" in out
    # Two sources are the same as two splits.
    for part in ("train", "test"):
        write_rows(tmp_path / f"{part}.jsonl", rows_of(part))
    assert scores("cluster", "--train", "train.jsonl", "--test", "test.jsonl", *rest)[0] == content


def test_compare(scores: Scores, backbone: Path, model: str, tmp_path: Path) -> None:
    data = ("corpus.jsonl", "--pairs", "test.tsv", "--validation-pairs", "dev.tsv", "--baseline", backbone)
    options = ("--model", model, "--fuse-words", "--leave-out-section", "abstract")
    content, out = scores("compare", *data, *options, "--csv", "out/scores.csv", "--plot", "out/pairs.png")
    assert (tmp_path / "out" / "pairs.png").exists()
    assert content["data"]["sections_left_out"] == {"abstract": 27}
    rows = content["rows"]
    assert [row["role"] for row in rows] == ["words", "untrained", "untrained, fused", "model", "model, fused"]
    documents = [
        Document.from_mapping(row | {"sections": row["sections"][1:]}) for part in SIZES for row in rows_of(part)
    ]
    evaluator = PairEvaluator(documents, *(read_pair_file(tmp_path / f"{part}.tsv") for part in ("test", "dev")))
    expected = evaluator.score(evaluator.similarities(loaded(model)))
    assert {key: rows[3][key] for key in expected.to_dict()} == json.loads(json.dumps(expected.to_dict()))
    assert rows[3]["more_than_words"]["auc"]["value"] == pytest.approx(rows[3]["auc"] - rows[0]["auc"])
    table = [line for line in read_csv(tmp_path / "out" / "scores.csv") if line["model"] == model]
    assert float(table[0]["f1"]) == expected.test.values["f1"]
    assert f"{expected.test.values['auc']:.3f} ±" in out


def test_classify(scores: Scores, classifiers: Callable[..., str], tmp_path: Path) -> None:
    model = classifiers()
    rows = [row for part in SIZES for row in rows_of(part)]
    rows[12]["label"], rows[13]["label"], rows[14]["label"] = None, ["rice", "[clocks]"], "[red]new"
    corpus = write_rows(tmp_path / "corpus.jsonl", rows)
    names = {"csv": "classes.csv", "plot": "c.png"}
    files = [part for option, name in names.items() for part in (f"--{option}", f"out/{name}")]
    content, out = scores("classify", corpus, "--model", model, *files)
    assert {path.name for path in (tmp_path / "out").glob("[!.]*")} == {"scores.json", *names.values()}
    test = [one for one in read_documents(corpus) if one.metadata["split"] == "Test"]
    expected = ClassificationEvaluator(test)(loaded(model))
    assert content["data"] == {"documents": 7, "without_label": 1, "with_several_labels": 1, "train": 12}
    first, words = content["rows"]
    assert (first["accuracy"], first["unknown"]) == (expected["accuracy"], {"[red]new": 1})
    assert first["calibration_error"] == pytest.approx(expected["calibration_error"])
    assert words["calibration_error"] is None
    table = read_csv(tmp_path / "out" / "classes.csv")
    assert [float(line["f1"]) for line in table[:3]] == [entry["f1"] for entry in first["classes"][:3]]
    assert f"{expected['accuracy']:.3f}" in out and "[red]new" in out
    assert len(content["mistakes"]) == round(7 * (1 - first["accuracy"]))
    # Several labels in one cell.
    lines = [["id", "text", "label"]]
    for number, row in enumerate(rows_of("test")):
        lines.append([row["id"], row["sections"][1]["text"], [row["label"], "rice; [clocks]", ""][number % 3]])
    with (tmp_path / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(lines)
    model = classifiers(multi_label=True)
    options = ("--label-separator", ";", "--threshold", "0.4")
    content, _ = scores("classify", "--test", "rows.csv", "--model", model, *options)
    settings = {"multi_label": True, "separator": ";", "threshold": 0.4}
    expected = ClassificationEvaluator(list(read_documents(tmp_path / "rows.csv")), **settings)(loaded(model))
    row = content["rows"][0]
    assert (row["accuracy"], row["micro_f1"], row["confusion"]) == (expected["accuracy"], expected["micro_f1"], None)
    assert all(mistake["missed"] == (mistake["label"] in mistake["truth"]) for mistake in content["mistakes"])


def test_search(scores: Scores, model: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
    (tmp_path / "other.run").write_text("q1 Q0 test0 1 3.0 other\nq2 Q0 test0 1 3.0 other\n")
    command = ("search", "--queries", "judged", "--index", "kept.index")
    options = ("--measure", "ndcg@2", "--measure", "map", "--run", "other.run", "--model", model)
    content, _ = scores(*command, *options, "--csv", "out/scores.csv", "--run-folder", "out/runs")
    systems = content["systems"]
    rows = ["words", "bm25", "vectors", "graph-roberta", "hybrid", "graph-roberta+bm25", "other"]
    assert list(systems) == rows and systems["words"]["differences"] is None
    low, high = systems["hybrid"]["differences"]["nDCG@2"]["interval"]
    assert low <= systems["hybrid"]["differences"]["nDCG@2"]["value"] <= high
    assert set(content["weights"]["graph-roberta+bm25"]["folds"]) == {"q1", "q2", "q3"}
    assert [row["system"] for row in read_csv(tmp_path / "out" / "scores.csv")] == rows
    # Another tool finds the same numbers in the runs.
    qrels = read_qrels(tmp_path / "out" / "runs" / "qrels.tsv")
    for name, system in systems.items():
        found = score_run(read_run(tmp_path / "out" / "runs" / f"{name}.run"), qrels, ["ndcg@2", "map"])
        assert found.means == pytest.approx(system["means"], abs=1e-12)
    # An index that is there is used as it is, queries are chosen, and documents that they were written from left out.
    (tmp_path / "judged" / "corpus.jsonl").unlink()
    chosen = ("--only", "kind=plain", "--query-column", "title", "--source-grade", "2")
    assert scores(*command, *chosen, "--run-folder", "runs")[0]["queries"] == 2
    assert "test1" not in read_run(tmp_path / "runs" / "words.run")["q1"]
    assert read_qrels(tmp_path / "runs" / "qrels.tsv")["q1"] == {"test4": 1}
    half = DocumentEncoder.from_pretrained(model, device="cpu", dtype="bfloat16")
    DocumentIndex.create("half.index", half).update(read_documents("corpus.jsonl"))
    assert scores("search", "--queries", "judged", "--index", "half.index")[0]["index"]["model"]["dtype"] == "bfloat16"


def test_related(scores: Scores, model: str, tmp_path: Path) -> None:
    pytest.importorskip("ir_measures", reason="needs the extra graphdoc[retrieval]")
    (tmp_path / "links.tsv").write_text("test0\ttest3\ntest3\ttest0\ntest1\ttest4\ntest0\tsun\ntest2\ttest2\n")
    (tmp_path / "ours.run").write_text("test0 Q0 test3 1 2.0 x\ntest0 Q0 sun 2 1.0 x\n")
    rows = ("tf-idf", "sentences", "tf-idf+sentences")
    command = ("related", "corpus.jsonl", "--relevant", "links.tsv")
    by = [part for name in rows for part in ("--by", name)]
    options = ("--model", model, "--as-published", "--run", "ours.run", "--run-folder", "out/runs")
    content, _ = scores(*command, *by, *options)
    assert (content["queries"], content["data"]["absent"], list(content["systems"])) == (3, 1, [*rows, "ours"])
    qrels = read_qrels(tmp_path / "out" / "runs" / "qrels.tsv")
    for name in rows:
        run = read_run(tmp_path / "out" / "runs" / f"{name}.run")
        assert all(len(found) == 26 and source not in found for source, found in run.items())
        expected = score_run(run, qrels, content["measures"], candidates=RankedDocuments(26, {"test0": 1}))
        assert content["systems"][name]["means"] == pytest.approx(expected.means)
    content, _ = scores(*command, "--by", "bm25", "--mutual")
    assert (content["data"]["relevant"], content["model"]) == (2, None)


def test_all(scores: Scores, backbone: Path, model: str, tmp_path: Path, monkeypatch: Patch) -> None:
    # A row of one's own is a function and a line.
    monkeypatch.setitem(sets.ROWS, "words again", sets.SetRow(sets.words))
    options = ("--model", model, "--baseline", backbone, "--seeds", 2, "--resamples", 30)
    content, _ = scores("all", "sets.yaml", *options, "--markdown", "s.md")
    lines = {(line["set"], line["measure"]): line["cells"] for line in content["lines"]}
    assert list(lines) == [
        *(("labelled", name) for name in ("NMI", "purity", "10-NN", "pair AUC", "random pair AUC")),
        *(("asked", name) for name in ("MAP", "MPR")),
    ]
    untrained = "tiny-bert, untrained mean"
    for cells in lines.values():
        others = [f"tiny-bert, {name}" for name in ("centred mean", "evidence", "words again")]
        assert list(cells) == ["TF-IDF", untrained, *others, model]
        assert cells["tiny-bert, words again"] == cells["TF-IDF"]
        assert cells[untrained]["verdict"] is None
        for row in ("TF-IDF", "tiny-bert, evidence", model):
            difference = cells[row]["difference"]
            assert difference["value"] == pytest.approx(cells[row]["value"] - cells[untrained]["value"])
            low, high = difference["interval"]
            assert cells[row]["verdict"] == ("better" if low > 0 else "worse" if high < 0 else "no difference")
    # What is measured of a model is what its evaluators measure.
    encoder = loaded(model)
    parts = {part: [Document.from_mapping(row) for row in rows_of(part)] for part in SIZES}
    pairs = PairEvaluator(parts["test"], read_pair_file(tmp_path / "test.tsv"))
    assert lines["labelled", "pair AUC"][model]["value"] == pytest.approx(pairs(encoder)["pair_auc"], abs=1e-6)
    seeds = ClusteringEvaluator(parts["train"], parts["test"], seeds=range(2), starts=1)(encoder)
    assert lines["labelled", "NMI"][model]["value"] == pytest.approx(seeds["nmi"])
    assert lines["labelled", "10-NN"]["TF-IDF"]["value"] == lines["labelled", "pair AUC"]["TF-IDF"]["value"] == 1
    assert "| labelled | NMI |" in (tmp_path / "s.md").read_text()


DATA = ("corpus.jsonl",)
PAIRS = (*DATA, "--pairs", "test.tsv")
JUDGED = ("--queries", "judged")


@pytest.mark.parametrize(
    ("task", "options", "value"),
    [
        ("cluster", (), "--train"),
        ("cluster", (*DATA, "--column", "label=x"), "label"),
        ("cluster", (*DATA, "--json", "corpus.jsonl"), "corpus.jsonl"),
        ("compare", (*DATA, "--pairs", "far.tsv"), "'[b]x'"),
        ("compare", (*PAIRS, "--leave-out-section", "Abstrct"), "'Abstrct'"),
        ("classify", (*DATA, "--model", "MODEL"), "head"),
        ("search", (*JUDGED, "--against", "tf-idf"), "'tf-idf'"),
        ("search", (*JUDGED, "--source-grade", "7"), "7"),
        ("search", (*JUDGED, "--measure", "MPR"), "MPR"),
        ("search", (*JUDGED, "--run", "words.run"), "'words'"),
        ("search", (*JUDGED, "--run", "strange.run"), "strange.run"),
        ("search", (*JUDGED, "--run-folder", "judged"), "judged"),
        ("related", (*DATA, "--relevant", "r/qrels.tsv", "--by", "bm25", "--run-folder", "r"), "qrels.tsv"),
        ("all", ("sets.yaml", "--only", "other"), "'other'"),
    ],
)
def test_refusals(
    refused: Command, tmp_path: Path, model: str, classifiers: Command, task: str, options: tuple[str, ...], value: str
) -> None:
    if task in ("search", "related"):
        pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
    (tmp_path / "far.tsv").write_text("test0\ttest1\t0\ntest0\t[b]x\t1\n")
    (tmp_path / "words.run").write_text("q1 Q0 test0 1 3.0 other\n")
    (tmp_path / "strange.run").write_text("q9 Q0 test0 1 3.0 other\n")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "qrels.tsv").write_text("test0 0 test1 1\n")
    words = [model if option == "MODEL" else option for option in options]
    given = () if "--model" in words else ("--model", classifiers() if task == "classify" else model)
    assert value in refused("evaluate", task, *given, *words)
