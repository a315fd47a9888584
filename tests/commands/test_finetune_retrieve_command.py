"""graphdoc finetune retrieve: queries, folds, and lists of negatives with the runs that go on with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from retrieval_examples import write_beir, write_lines
from training_runs import corpus_of, cut, losses_of, refusal, results_of, same_model, told, write_config
from typed import Backbones, Patch

from graphdoc import DocumentEncoder
from graphdoc.evaluation import read_run
from graphdoc.recipes import mined_negatives
from graphdoc.retrieval.mining import CLOSE, JUDGED, SIMILAR, NegativeLists

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
Retrieve = Callable[..., Any]
ALL = {f"q{number}" for number in range(36)}


@pytest.fixture
def retrieve(graphdoc: Callable[..., Any], backbone_folder: Backbones, tmp_path: Path) -> Retrieve:
    """Trains a tiny model on 30 documents of six topics: ``retrieve("training.epochs=2")``."""
    source = write_beir(tmp_path / "beir") / "corpus.jsonl"
    settings = {"projection_size": 16, "graph_layers": 1, "passage_words": 10}
    training = {"epochs": 1, "learning_rate": 1e-2, "save_total_limit": 99}
    loss = {"similarity": "cosine", "temperature": 0.1}
    backbone = backbone_folder("roberta")
    config = write_config(tmp_path, source, backbone, settings, tune="frozen", training=training, loss=loss)
    return lambda *arguments: graphdoc("finetune", "retrieve", "--config", config, "--device", "cpu", *arguments)


@pytest.fixture
def judged(tmp_path: Path) -> tuple[str, ...]:
    """Settings of queries in BEIR's layout, trained on one split and measured on another."""
    return (f"queries.source={tmp_path / 'beir'}", "queries.split=train", "validation.split=dev")


def write_folds(path: Path, fold_of: Callable[[int], int]) -> str:
    path.write_text("".join(f"q{number}\t{fold_of(number)}\n" for number in range(36)), encoding="utf-8")
    return f"folds.file={path}"


def test_a_trained_model_finds_answers(retrieve: Retrieve, judged: tuple[str, ...], tmp_path: Path) -> None:
    seen = told(retrieve(*judged, "negatives.per_query=2", "training.epochs=8"))
    assert "queries: 30 pairs: 60 train: 30" in seen and "measured queries: 6" in seen
    record, found = corpus_of(tmp_path / "run"), results_of(tmp_path / "run")
    assert (record["queries"], record["pairs"], record["train"]) == (30, 60, 30)
    assert set(found["after"]) == {"ndcg_at_10", "map", "mrr_at_10", "recall_at_100"}
    assert found["after"]["ndcg_at_10"] > found["before"]["ndcg_at_10"] + 0.1
    losses = losses_of(tmp_path / "run")
    # Other answers of a query are in its batch now and then.
    assert len(losses) == 56 and 0 < sum(entry["left_out_share"] for entry in losses) / len(losses) < 0.3
    # Vectors of the model are compared as the loss does.
    assert DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu").model.config.similarity == "cosine"


def test_queries_made_of_documents_and_pairs_with_documents(retrieve: Retrieve, tmp_path: Path) -> None:
    told(retrieve("queries.made_from=[titles,headings,first_sentences]", "validation.share=0.2"))
    record = corpus_of(tmp_path / "run")
    assert (record["queries"], record["pairs"]) == (72, 72)
    few = ("validation.share=0.5", "validation.most_queries=2", f"output={tmp_path / 'few'}", "training.max_steps=1")
    told(retrieve("queries.made_from=[titles,headings,first_sentences]", *few))
    assert (corpus_of(tmp_path / "few")["queries"], corpus_of(tmp_path / "few")["measured_queries"]) == (87, 2)
    pairs = tmp_path / "pairs.tsv"
    lines = ["steamed rice\td0", "high tide\td1", "steamed rice\td6", "code page\td3", "old moss\td99"]
    pairs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = (f"queries.source={pairs}", "validation.share=0", "training.batch_size=2", f"output={tmp_path / 'pairs'}")
    told(retrieve(*options))
    record = corpus_of(tmp_path / "pairs")
    assert (record["pairs"], record["queries"], record["train"]) == (4, 3, 4)
    assert 1 in record["left_out"].values()


def test_folds_are_tested_by_runs_that_join(retrieve: Retrieve, judged: tuple[str, ...], tmp_path: Path) -> None:
    joined: dict[str, Any] = {}
    for fold in (1, 2):
        folder = tmp_path / f"fold-{fold}"
        options = (f"folds.fold={fold}", f"output={folder}", "validation.share=0.5", "validation.most_queries=2")
        told(retrieve(judged[0], "folds.number=2", *options, "training.max_steps=1"))
        assert (corpus_of(folder)["queries"], corpus_of(folder)["measured_queries"]) == (16, 2)
        run = read_run(folder / "test.run")
        assert len(run) == 18 and not joined.keys() & run.keys() and {len(hits) for hits in run.values()} == {30}
        joined |= run
    assert joined.keys() == ALL
    folds = tmp_path / "folds.tsv"
    halves = (judged[0], "folds.number=2", "folds.fold=2", write_folds(folds, lambda number: 1 + number % 2))
    told(retrieve(*halves, "training.max_steps=1"))
    assert set(read_run(tmp_path / "run" / "test.run")) == {f"q{number}" for number in range(1, 36, 2)}
    # Of the dev split, q30 to q35, two are in every fold: those that are tested do not choose the checkpoint.
    thirds = (judged[0], "validation.split=dev", "folds.number=3", "folds.fold=1", f"output={tmp_path / 'dev'}")
    write_folds(folds, lambda number: 1 + number % 3)
    seen = told(retrieve(*thirds, f"folds.file={folds}", "training.max_steps=1"))
    assert all(part in seen for part in ("queries: 20 ", "measured queries: 4 ", "tested queries: 12"))
    # A fold that holds all of them leaves none to measure.
    write_folds(folds, lambda number: 1 if number > 29 else 2)
    other = f"output={tmp_path / 'other'}"
    assert "to measure" in refusal(retrieve(*thirds, f"folds.file={folds}", other))
    for line, named in (("q1\t²", "folds.tsv:2"), ("q1\t4", "folds.tsv:2"), ("q0\t2", "'q0'"), ("q1\t2", "'q2'")):
        folds.write_text(f"q0\t1\n{line}\n", encoding="utf-8")
        assert named in refusal(retrieve(*halves, other))
    assert not (tmp_path / "other").exists()


def test_measured_queries_are_data_of_the_run(retrieve: Retrieve, judged: tuple[str, ...], tmp_path: Path) -> None:
    qrels = tmp_path / "beir" / "qrels.tsv"
    text = qrels.read_text(encoding="utf-8")
    qrels.write_text(text + "q30\t0\tx1\t1\nq31\t0\tx2\t1\n", encoding="utf-8")
    settings = (*judged, "training.max_steps=2", "training.save_steps=1")
    assert "2 answers" in told(retrieve(*settings))
    cut(tmp_path / "run", tmp_path / "cut", 1)
    qrels.write_text(text, encoding="utf-8")
    assert "measured_grades_hash" in refusal(retrieve(*settings, f"output={tmp_path / 'cut'}", "--resume"))


def test_documents_that_queries_were_made_of_are_neither_answers_nor_ranked(
    retrieve: Retrieve, judged: tuple[str, ...], tmp_path: Path
) -> None:
    told(retrieve(judged[0], "queries.source_grade=2", "folds.number=2", "folds.fold=1"))
    for query, hits in read_run(tmp_path / "run" / "test.run").items():
        number = int(query[1:])
        assert f"d{number % 6 + 6 * (number % 5)}" not in hits and len(hits) == 29
    assert corpus_of(tmp_path / "run")["pairs"] == corpus_of(tmp_path / "run")["queries"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["queries.source=nowhere"], ["nowhere"]),
        (["queries.source={beir}", "queries.source_grade=7"], ["queries.source_grade=7"]),
        (["queries.source={beir}", "validation.source={other}"], ["other.tsv", "corpus.jsonl"]),
        (["queries.source={other}", "validation.share=0"], ["other.tsv", "'x1'"]),
        (["queries.source={pairs}", "negatives.kind=judged", "negatives.per_query=3", "validation.share=0"],
         ["negatives.kind=random"]),
        (["queries.source={beir}", "folds.number=40", "folds.fold=40"], ["folds.number=40", "36 queries"]),
        # Copies are one document; of two with one id nobody knows which is meant.
        (["corpus.source={copies}", "queries.source={pairs}", "validation.share=0"], ["'d1'"]),
        (["corpus.source={twice}", "queries.source={pairs}", "validation.share=0"], ["'d1'"]),
    ],
)  # fmt: skip
def test_bad_input(retrieve: Retrieve, tmp_path: Path, settings: list[str], said: list[str]) -> None:
    (tmp_path / "other.tsv").write_text("a tide\tx1\na wave\tx2\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("a tide\td1\na wave\td1\nwater\td2\n", encoding="utf-8")
    first = {"id": "d1", "text": "Tides rise."}
    write_lines(tmp_path / "copies.jsonl", [first, first | {"id": "d2"}])
    write_lines(tmp_path / "twice.jsonl", [first, first | {"text": "Tides fall."}])
    places = {path.stem: path for path in tmp_path.iterdir()}
    line = refusal(retrieve("training.batch_size=2", *(setting.format(**places) for setting in settings)))
    assert all(part in line for part in said), line
    assert not (tmp_path / "run").exists()


@pytest.fixture
def minings(monkeypatch: Patch) -> list[str]:
    """The rankings of every mining that takes place."""
    seen: list[str] = []
    found = mined_negatives.mine

    def counted(documents: Any, positives: Any, settings: Any, **more: Any) -> NegativeLists:
        seen.append(settings.by)
        return found(documents, positives, settings, **more)

    monkeypatch.setattr(mined_negatives, "mine", counted)
    return seen


@pytest.fixture
def mined(retrieve: Retrieve, judged: tuple[str, ...]) -> Retrieve:
    """Trains on mined lists: ``mined("negatives.kind=words")``."""
    options = ("negatives.per_query=2", "negatives.depth=6")
    return lambda *arguments: retrieve(*judged, *options, *arguments)


def test_a_refresh_and_runs_that_go_on(mined: Retrieve, minings: list[str], tmp_path: Path) -> None:
    settings = ("negatives.kind=vectors", "negatives.margin=0", "negatives.refresh=0.5", "training.save_steps=5",
                "training.epochs=2")  # fmt: skip
    told(mined(*settings))
    run, resumed = tmp_path / "run", (*settings, "--resume")
    # 14 steps; the first epoch after half of them begins with step 7.
    names = ("start", "step-7")
    assert sorted(path.stem for path in (run / "negatives").iterdir()) == [*names]
    assert minings == ["vectors", "vectors"]
    before, after = (NegativeLists.read(run / "negatives" / f"{name}.jsonl") for name in names)
    assert len(before) == len(after) == 30 and before.lists != after.lists
    assert before.record["model"] != after.record["model"]
    assert (before.record["step"], after.record["step"]) == (0, 7)
    assert before.rejected[JUDGED] > 0
    for query, ids in after.lists.items():
        answers = {f"d{int(query[1:]) % 6 + 6 * ((int(query[1:]) + place) % 5)}" for place in (0, 1)}
        assert not answers & set(ids) and len(ids) == 6
    # Before the refresh, without what it made, and after it.
    for step in (5, 10):
        folder = cut(run, tmp_path / f"cut-{step}", step)
        if step == 5:
            (folder / "negatives" / "step-7.jsonl").unlink()
        minings.clear()
        told(mined(*resumed, f"output={folder}"))
        assert minings == (["vectors"] if step == 5 else [])
        assert same_model(run, folder) and results_of(run) == results_of(folder)
        for name in names:
            path = Path("negatives") / f"{name}.jsonl"
            assert (folder / path).read_bytes() == (run / path).read_bytes()
    # Other lists would have led elsewhere: what was mined is read, and counts.
    folder = cut(run, tmp_path / "other", 5)
    others = {query: tuple(reversed(ids)) for query, ids in after.lists.items()}
    NegativeLists(after.record, others).write(folder / "negatives" / "step-7.jsonl")
    told(mined(*resumed, f"output={folder}"))
    assert not same_model(run, folder)
    # Lists that a checkpoint was written with cannot be replaced, or be gone.
    for name, step in (("step-7", 10), ("start", 5)):
        folder = cut(run, tmp_path / f"bad-{name}", step)
        path = folder / "negatives" / f"{name}.jsonl"
        if name == "start":
            NegativeLists(before.record, {**before.lists, "q0": before.lists["q0"][1:]}).write(path)
        else:
            path.unlink()
        assert path.name in refusal(mined(*resumed, f"output={folder}"))


def test_lists_by_words(mined: Retrieve, minings: list[str], tmp_path: Path) -> None:
    told(mined("negatives.kind=words", "negatives.margin=0.02", f"output={tmp_path / 'words'}"))
    assert minings == ["words"]
    lists = NegativeLists.read(tmp_path / "words" / "negatives" / "start.jsonl")
    assert (lists.record["by"], lists.record["margin"]) == ("words", 0.02)
    assert lists.rejected[CLOSE] > 0 and lists.rejected.keys() == {JUDGED, CLOSE, SIMILAR}
    # What has words of the query has its topic.
    assert all(int(id[1:]) % 6 == int(query[1:]) % 6 for query, ids in lists.lists.items() for id in ids)


def test_lists_of_a_file(retrieve: Retrieve, judged: tuple[str, ...], minings: list[str], tmp_path: Path) -> None:
    path = tmp_path / "lists.jsonl"

    def write(lists: dict[str, tuple[str, ...]]) -> None:
        NegativeLists({"by": "hand"}, lists).write(path)

    def train(name: str, *arguments: str) -> Any:
        options = ("negatives.per_query=2", f"negatives.kind={path}", "training.save_steps=5")
        return retrieve(*judged, *options, f"output={tmp_path / name}", *arguments)

    write(dict.fromkeys(ALL, ("d9", "nowhere")))
    assert "1 document of these lists" in told(train("run"))
    assert minings == [] and not (tmp_path / "run" / "negatives").exists()
    cut(tmp_path / "run", tmp_path / "cut", 5)
    write({"q1": ("d8",)})
    assert "negatives_hash" in refusal(train("cut", "--resume"))
    for lists, value in (({"other": ("d8",)}, ""), (dict.fromkeys(ALL, ("x1",)), "'x1'")):
        write(lists)
        line = refusal(train("none"))
        assert "lists.jsonl" in line and value in line
    path.unlink()
    assert "lists.jsonl" in refusal(train("gone"))
    assert not (tmp_path / "gone").exists()


def test_a_search_ranks_as_the_evaluation_of_the_trained_vector(
    retrieve: Retrieve, judged: tuple[str, ...], graphdoc: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
    told(retrieve(*judged, "training.max_steps=2"))
    model, corpus = str(tmp_path / "run" / "model"), str(tmp_path / "beir" / "corpus.jsonl")
    for unit in ("document", "passage"):
        config = tmp_path / "run" / "model" / "config.json"
        config.write_text(config.read_text().replace('"search_by": "document"', f'"search_by": "{unit}"'))
        rankings, made = str(tmp_path / unit), (*("--model", model), *("--device", "cpu"))
        told(graphdoc("evaluate", "search", "--queries", tmp_path / "beir", "--run-folder", rankings, *made))
        name = "graph-roberta" if unit == "document" else "vectors"
        measured = read_run(Path(rankings) / f"{name}.run")
        texts = {row["_id"]: row["text"] for row in map(json.loads, (tmp_path / "beir" / "queries.jsonl").open())}
        for query in ("q1", "q33"):
            told(graphdoc("search", corpus, texts[query], "--by", "vectors", "--json", tmp_path / "hits.json", *made))
            hits = json.loads((tmp_path / "hits.json").read_text())["hits"]
            assert [hit["id"] for hit in hits] == list(measured[query])[:10], (unit, query)
            expected = [measured[query][hit["id"]] for hit in hits]
            assert [hit["score"] for hit in hits] == pytest.approx(expected, abs=1e-6)
