from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from graphdoc.errors import EvaluationError, SettingsError
from graphdoc.evaluation.judgements import Judgements, find_corpus, read_judgements, read_queries, read_query_pairs
from graphdoc.evaluation.trec import read_qrels

DATA = Path(__file__).parents[3] / "shared" / "data"
QUERIES = [
    {"_id": "q1", "text": "high tide", "split": "test"},
    {"_id": "q2", "text": "low tide", "split": "train"},
    {"_id": "q3", "text": "waves", "split": "test"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queries.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in QUERIES), encoding="utf-8")
    return tmp_path


def qrels_file(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in ("query-id\tcorpus-id\tscore", *lines)), encoding="utf-8")
    return path


def test_one_file_of_judgements(folder: Path) -> None:
    (folder / "qrels.tsv").write_text(
        "q1\t0\ttide\t2\nq1\t0\tebb\t1\nq1\t0\twave\t0\nq2\t0\ttide\t1\n", encoding="utf-8"
    )
    found = read_judgements(folder)
    assert found.queries == {"q1": "high tide", "q2": "low tide"}
    assert found.qrels == {"q1": {"tide": 2, "ebb": 1, "wave": 0}, "q2": {"tide": 1}}
    assert found.positives("q1") == ["tide", "ebb"]
    assert found.without_positive == ("q3",)
    test = read_judgements(folder, split="test")
    # Judgements of queries that were not chosen are neither used nor unknown.
    assert (dict(test.queries), test.left_out) == ({"q1": "high tide"}, {"queries without a positive": 1})
    assert read_judgements(folder, only=["split=test"]) == test
    assert len(test) == 1


def test_a_file_of_judgements_per_split(folder: Path) -> None:
    qrels_file(folder / "qrels" / "test.tsv", "q1\ttide\t1", "q3\ttide\t0")
    qrels_file(folder / "qrels" / "train.tsv", "q2\ttide\t1", "q1\tebb\t1")
    test = read_judgements(folder, split="test")
    # Queries of other splits are no queries without a positive.
    assert (dict(test.qrels), test.without_positive) == ({"q1": {"tide": 1}}, ("q3",))
    everything = read_judgements(folder)
    assert everything.qrels == {"q1": {"tide": 1, "ebb": 1}, "q2": {"tide": 1}}
    with pytest.raises(EvaluationError, match=r"qrels.*'dev'.*test, train"):
        read_judgements(folder, split="dev")
    with pytest.raises(EvaluationError, match=r"'\.\./qrels/test'"):
        read_judgements(folder, split="../qrels/test")
    qrels_file(folder / "qrels" / "train.tsv", "q1\ttide\t2")
    with pytest.raises(EvaluationError, match=r"train\.tsv.*'tide'.*2.*'q1'.*1"):
        read_judgements(folder)


def test_unknown_queries(folder: Path) -> None:
    qrels_file(folder / "qrels.tsv", "q1\ttide\t1", "q8\ttide\t1", "q9\ttide\t1")
    found = read_judgements(folder)
    assert found.unknown_queries == ("q8", "q9")
    assert found.left_out == {"queries without a positive": 2, "judged queries that are unknown": 2}
    qrels_file(folder / "qrels.tsv", "q8\ttide\t1", "q9\ttide\t1")
    with pytest.raises(EvaluationError) as raised:
        read_judgements(folder)
    assert str(raised.value).startswith(f"{folder}: ") and "'q8', 'q9'" in str(raised.value)


def test_unknown_documents() -> None:
    found = Judgements.of(
        {"q1": "high tide", "q2": "waves", "q3": " "},
        {"q1": {"tide": 1, "ebb": 1}, "q2": {"wave": 1}, "q3": {"ebb": 1}},
    )
    assert found.without_text == ("q3",)
    assert found.among(["tide", "ebb", "wave"]) is found
    known = found.among({"tide", "other"})
    assert (known.queries, known.qrels) == ({"q1": "high tide"}, {"q1": {"tide": 1}})
    assert (known.unknown_documents, known.without_positive) == (("ebb", "wave"), ("q2",))
    assert known.left_out == {
        "queries without a positive": 1,
        "queries without text": 1,
        "judged documents that are unknown": 2,
    }
    with pytest.raises(EvaluationError, match=r"3 judged documents.*'tide', 'ebb', 'wave'"):
        found.among(["other"])


def test_judgements_without_any_positive(folder: Path) -> None:
    qrels_file(folder / "qrels.tsv", "q1\ttide\t0")
    with pytest.raises(EvaluationError, match=f"^{folder}: 0 of 3 queries"):
        read_judgements(folder)
    with pytest.raises(EvaluationError, match="0 of 1 queries"):
        Judgements.of({"q1": "tide", "q2": "ebb"}, {"q1": {"tide": 1, "ebb": 0}, "q2": {"ebb": -1}}).among(["ebb"])


def test_what_is_missing_in_a_folder(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=rf"^{tmp_path}: .*qrels"):
        read_judgements(tmp_path)
    qrels_file(tmp_path / "qrels.tsv", "q1\ttide\t1")
    with pytest.raises(EvaluationError, match=rf"^{tmp_path}: .*queries"):
        read_judgements(tmp_path)
    with pytest.raises(EvaluationError, match=r"none: there is no such file"):
        read_judgements(tmp_path / "none")
    assert find_corpus(tmp_path) is None
    (tmp_path / "corpus.jsonl.gz").write_bytes(b"")
    assert find_corpus(tmp_path) == tmp_path / "corpus.jsonl.gz"


def test_pairs_of_query_and_document(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\tdocument_id\nhigh tide\ttide\n\nwaves\twave\nhigh tide \tebb\nhigh tide\ttide\n", "utf-8")
    found = read_judgements(path)
    assert found == read_query_pairs(path)
    assert found.queries == {"q1": "high tide", "q2": "waves"}
    assert found.qrels == {"q1": {"tide": 1, "ebb": 1}, "q2": {"wave": 1}}
    settings: dict[str, Any]
    for settings in ({"split": "test"}, {"only": ["kind=specific"]}, {"text_column": "title"}):
        with pytest.raises(SettingsError, match=str(path)):
            read_judgements(path, **settings)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("high tide\ttide\nwaves\n", 2),
        ("high tide\ttide\t1\n", 1),
        ("\ttide\n", 1),
        ("high tide\t \n", 1),
        ("a\tb\nquery\tid\tx\n", 2),
    ],
)
def test_malformed_pairs(tmp_path: Path, content: str, line: int) -> None:
    (tmp_path / "pairs.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(EvaluationError, match=rf"pairs\.tsv:{line}: "):
        read_judgements(tmp_path / "pairs.tsv")


@pytest.mark.parametrize("content", [b"", b"query\tid\n", b"\xff\tx\n"])
def test_files_without_pairs(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pairs.tsv").write_bytes(content)
    with pytest.raises(EvaluationError, match=r"pairs\.tsv: "):
        read_judgements(tmp_path / "pairs.tsv")


@pytest.mark.parametrize(
    ("name", "settings", "queries", "judgements"),
    [
        ("qmsum", {"split": "test"}, 281, 281),
        ("qmsum", {"split": "test", "only": ["kind=specific"]}, 244, 244),
        ("qmsum", {"text_column": "answer"}, 1810, 1810),
        ("aila2019_casedocs", {}, 50, 195),
        ("aila2019_statutes", {}, 50, 217),
        ("wikispeedia/wikir", {"text_column": "title"}, 4413, 30088),
        ("wikispeedia/wikir", {"text_column": "first_sentence", "split": "test"}, 934, 6398),
    ],
)
def test_sets_at_hand(name: str, settings: dict[str, Any], queries: int, judgements: int) -> None:
    """Numbers as the pages of the sets say."""
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not there")
    found = read_judgements(folder, **settings)
    assert (len(found), sum(map(len, found.qrels.values())), found.left_out) == (queries, judgements, {})
    assert found.qrels.items() <= read_qrels(folder / "qrels.tsv").items()
    assert all(text == text.strip() and text for text in found.queries.values())


ROWS: list[dict[str, Any]] = [
    {"_id": "q1", "text": "high tide", "kind": "specific", "split": "test", "tags": ["sea", "moon"], "open": True},
    {"_id": "q2", "text": "Everything", "kind": "general", "split": "test", "tags": ["sea"], "open": False},
    {"_id": 3, "text": " low tide\n", "kind": "specific", "split": "train", "tags": [], "title": "ebb"},
    {"_id": "q4", "text": "", "kind": "none", "split": "dev", "title": None},
]


def written(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_queries_by_their_fields(tmp_path: Path) -> None:
    path = written(tmp_path / "queries.jsonl", ROWS)
    everything, known = read_queries(path)
    assert everything == {"q1": "high tide", "q2": "Everything", "3": "low tide", "q4": ""}
    assert known == {"q1", "q2", "3", "q4"}
    for only, ids in (
        (["kind=specific"], {"q1", "3"}),
        (["kind=specific", "split = test"], {"q1"}),
        (["split=test", "split=dev"], {"q1", "q2", "q4"}),
        (["tags=sea"], {"q1", "q2"}),
        (["open=true"], {"q1"}),
    ):
        texts, known = read_queries(path, only)
        assert (texts.keys(), len(known)) == (ids, 4)
    assert read_queries(path, ["split=train", "split=dev"], "title")[0] == {"3": "ebb", "q4": ""}


def test_other_files_of_rows(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS[:2])[["_id", "text", "split"]]
    frame.to_parquet(tmp_path / "queries.parquet")
    frame.to_csv(tmp_path / "queries.csv", index=False)
    frame.rename(columns={"_id": "id"}).to_csv(tmp_path / "queries.tsv", index=False, sep="\t")
    for name in ("queries.parquet", "queries.csv", "queries.tsv"):
        assert read_queries(tmp_path / name, ["split=test"])[0] == {"q1": "high tide", "q2": "Everything"}


@pytest.mark.parametrize(
    ("row", "values"),
    [
        ({"text": "ebb"}, ["_id"]),
        ({"_id": "", "text": "ebb"}, ["_id"]),
        ({"_id": ["q9"], "text": "ebb"}, ["q9"]),
        ({"_id": "q2", "text": "ebb"}, ["'q2'", "queries.jsonl:2"]),
        ({"_id": "q9", "question": "ebb"}, ["'text'", "question"]),
        ({"_id": "q9", "text": 9}, ["'text'"]),
        (["q9", "ebb"], ["list"]),
    ],
)
def test_malformed_queries(tmp_path: Path, row: Any, values: list[str]) -> None:
    path = written(tmp_path / "queries.jsonl", [*ROWS, row])
    with pytest.raises(EvaluationError) as raised:
        read_queries(path)
    assert str(raised.value).startswith(f"{path}:5: ")
    assert all(value in str(raised.value) for value in values)


def test_ids_of_queries_that_were_not_chosen_are_taken_as_well(tmp_path: Path) -> None:
    path = written(tmp_path / "queries.jsonl", [*ROWS, {"_id": "q2", "text": "ebb", "kind": "specific"}])
    with pytest.raises(EvaluationError, match="'q2'"):
        read_queries(path, ["kind=specific"])


@pytest.mark.parametrize("content", [b'{"_id": "q1", "text": "ebb"\n', b"\xff\n", b""])
def test_broken_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "queries.jsonl").write_bytes(content)
    with pytest.raises(EvaluationError, match=r"queries\.jsonl"):
        read_queries(tmp_path / "queries.jsonl")


def test_conditions_that_nothing_meets(tmp_path: Path) -> None:
    path = written(tmp_path / "queries.jsonl", ROWS)
    for only, values in (
        (["knd=specific"], ["knd"]),
        (["kind=specfic"], ["kind=specfic", "specific", "general"]),
        (["kind=general", "split=train"], ["kind=general", "split=train"]),
    ):
        with pytest.raises(EvaluationError) as raised:
            read_queries(path, only)
        assert str(raised.value).startswith(f"{path}: ") and all(value in str(raised.value) for value in values)
    for wrong in (["kind"], ["=test"], ["kind="]):
        with pytest.raises(SettingsError, match=r"kind|=test"):
            read_queries(path, wrong)
