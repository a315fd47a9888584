"""Scripts of benchmarks/: studies, published data sets, baselines and scores; what scripts import is there."""

from __future__ import annotations

import ast
import csv
import importlib
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from graphdoc import read_documents
from graphdoc.documents.readers.pair_files import read_pair_file

ROOT = Path(__file__).parent.parent
SENTENCE_PAIRS = ROOT / "configs" / "studies" / "sdr.yaml"
STUDIES = sorted({*(ROOT / "configs" / "studies").glob("*.yaml")} - {SENTENCE_PAIRS})
Benchmark = Callable[[str], ModuleType]
WORDS = ("rice steam koji mould grain bran", "tide wave marsh wall flood sand")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a file of benchmarks/."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of data with papers of two subjects in several sections, and pairs of them."""
    folder = tmp_path / "data" / "scisumm_acl"
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    papers = []
    for number in range(24):
        words = WORDS[number % 2].split()
        sections = [
            {"heading": heading, "text": " ".join(f"{' '.join(draw.choice(words, 12))}." for _ in range(6))}
            for heading in ("Abstract", "Introduction", "Work", "Results")
        ]
        papers.append({"id": f"p{number}", "sections": sections})
    # One of nothing but what the studies leave out.
    papers.append({"id": "bare", "title": "Rice", "sections": [{"heading": "Abstract", "text": "Rice and koji."}]})
    (folder / "papers.jsonl").write_text("".join(json.dumps(paper) + "\n" for paper in papers))
    parts = {"train": range(12), "dev": range(12, 18), "test": range(18, 24)}
    for name, part in parts.items():
        rows = [f"p{a}\tp{b}\t{int(a % 2 == b % 2)}" for a in part for b in part if a < b]
        rows += [f"p{part[0]}\tbare\t0"] * (name == "test")
        (folder / f"pairs_{name}.tsv").write_text("\n".join(rows) + "\n")
    return folder.parent


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_row_is_a_recipe(path: Path, benchmark: Benchmark, data: Path, tmp_path: Path) -> None:
    studies = benchmark("studies")
    files = ["documents=papers.jsonl", "folder=scisumm_acl", "test=pairs_test.tsv", "validation=pairs_dev.tsv"]
    settings = studies.load_settings(studies.StudySettings, path, files)
    study = studies.Study(settings, tmp_path / "work", data)
    recipes = {row: study.recipe(row, 1) for row in settings.rows}
    assert len(recipes) >= 2
    assert len({str(recipe).replace(str(recipe.folder), "") for recipe in recipes.values()}) == len(recipes)
    assert len({recipe.folder for recipe in recipes.values()}) == len(recipes)
    for recipe in recipes.values():
        assert recipe.training.seed == 1
        assert recipe.validation.pairs is None
    script = {"section_shuffling": "section_shuffling"}.get(path.stem, "paper_studies")
    assert (ROOT / "benchmarks" / f"{script}.py").is_file()
    assert f"benchmarks/{script}.py" in path.read_text(encoding="utf-8")
    # Models that rows read are recipes too, and none is there for nothing.
    assert all(study.recipe_of_model(name).folder.parent == tmp_path / "work" / "models" for name in settings.models)
    changes = [change for row in settings.rows.values() for change in row]
    assert all(any(f"{{{name}}}" in change for change in changes) for name in settings.models)
    assert not any("{" in str(recipe) and "{data}" in str(recipe) for recipe in recipes.values())


def test_every_row_on_sentence_pairs_is_a_recipe(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    pairs = benchmark("sentence_pairs")
    monkeypatch.setattr(pairs, "language_model", lambda work, *sizes: work / "language_model")
    study = pairs.load_settings(pairs.SentencePairStudy, SENTENCE_PAIRS, [])
    recipes = {row: pairs.Runs(study, tmp_path).recipe(row, 1) for row in study.rows}
    assert len({str(recipe).replace(str(recipe.folder), "") for recipe in recipes.values()}) == len(recipes) >= 6
    assert len({recipe.folder for recipe in recipes.values()}) == len(recipes)
    drawn = {row.removeprefix("loss of SDR").strip(", "): one for row, one in recipes.items() if "loss of SDR" in row}
    assert all(one.loss.negatives == ("drawn" if "loss of SDR" in row else "batch") for row, one in recipes.items())
    assert drawn["m = 2"].loss.margin == 2 and drawn["without contrast"].loss.contrast_weight == 0
    assert drawn["without masked tokens"].loss.mlm_weight == 0 < drawn[""].loss.mlm_weight
    assert recipes["raw language model"].model.start == str(tmp_path / "language_model")
    assert all("{" not in str(recipe.corpus.source) for recipe in recipes.values())


def test_intervals_of_differences_are_over_pairs_and_seeds(
    benchmark: Benchmark, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    studies = benchmark("studies")
    monkeypatch.setattr(studies, "RESAMPLES", 100)
    path = ROOT / "configs" / "studies" / "scisumm_pairs.yaml"
    changes = ["documents=papers.jsonl", "test=pairs_train.tsv", "rows={a: [], b: [], c: []}", "against=a"]
    labels = np.array([int(a % 2 == b % 2) for a in range(12) for b in range(12) if a < b])

    def differences(**rows: list[np.ndarray]) -> dict[str, tuple[float, float, float]]:
        own = [*changes, f"seeds={len(rows['a'])}"]
        study = studies.Study(studies.load_settings(studies.StudySettings, path, own), tmp_path / "work", data)
        for row, similarities in rows.items():
            for seed, one in enumerate(similarities):
                study.similarities_of(row, seed).parent.mkdir(parents=True, exist_ok=True)
                np.save(study.similarities_of(row, seed), one)
        found: dict[str, tuple[float, float, float]] = study.differences()
        return found

    draw = np.random.default_rng(0)
    weak, good = (strength * labels + draw.normal(size=len(labels)) for strength in (0.5, 1.5))
    perfect = labels.astype(float)
    # How often a pair of label 1 is higher, where pairs count as often as they are drawn.
    drawn = np.array([np.ones(len(labels)), *studies.resampled(len(labels), 100, 0)])
    ones, zeros = drawn[:, labels == 1], drawn[:, labels == 0]
    aucs = [
        np.einsum("rp,pn,rn->r", ones, np.greater.outer(one[labels == 1], one[labels == 0]), zeros)
        / (ones.sum(axis=1) * zeros.sum(axis=1))
        for one in (weak, good, perfect)
    ]

    def over_pairs(gained: np.ndarray) -> tuple[float, ...]:
        return (gained[0], *np.quantile(gained[1:], [0.025, 0.975]))

    # Of one seed, and of several that are alike, the interval is that over pairs alone.
    expected = {"b": over_pairs(aucs[1] - aucs[0]), "c": over_pairs(aucs[2] - aucs[0])}
    assert expected["b"][2] - expected["b"][1] > 0.1
    found = differences(a=[weak], b=[good], c=[perfect])
    assert found == {row: pytest.approx(values) for row, values in expected.items()}
    # AUCs that are 1 or 0 whichever pairs are drawn: it is that over seeds, of which 0 to 4 of 4 are good. All rows
    # have the same seeds in a resample.
    mixed = [perfect, perfect, perfect, -perfect]
    found = differences(a=mixed, b=[perfect] * 4, c=mixed)
    assert found == {"b": pytest.approx((0.25, 0, 0.75)), "c": (0, 0, 0)}


HEADER = "label|doc_id1|doc_id2|title1|title2|content1|content2|keywords1|keywords2|time1|time2"
Convert = Callable[..., tuple[int, str]]


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Convert:
    """Runs a script; gives its exit status and what it said: ``convert("matching_data", "cnse", "pairs.txt")``."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(tmp_path)

    def run(script: str, *arguments: str) -> tuple[int, str]:
        status = 0
        try:
            importlib.import_module(script).main([*arguments, "--output", "out.jsonl" if "sdr" in script else "out"])
        except SystemExit as error:
            status = int(error.code or 0)
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def write_articles(*rows: list[str]) -> None:
    with Path("games.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["", "Title", "Sections"], *rows])
    Path("games.json").write_text(json.dumps({"Tides": {"Koji": 1, "Oak": 1}, "Reeds": {"Koji": 1}}))


def test_articles_become_documents(convert: Convert) -> None:
    sections = [("Abstract", "The moon pulls\nthe sea, 'twice' a day."), ("", "It is salt.")]
    write_articles(["0", "Tides", repr(sections)], ["1", "Koji", repr([["Rice", "x" * 200_000]])])
    status, said = convert("sdr_articles", "games.csv", "--relevant", "games.json")
    assert status == 0 and "1 of 2 sources and 1 of 3 pairs" in said and "missing: Oak, Reeds" in said
    first, second = read_documents("out.jsonl")
    assert first.id == first.title == "Tides"
    assert [(one.heading, one.text) for one in first.sections] == sections
    assert len(second.text) == 200_000


@pytest.mark.parametrize("bad", ["__import__('os').system('touch ran')", "[(1, 2)]", "{}"])
def test_nothing_is_executed_and_mistakes_name_the_line(convert: Convert, bad: str) -> None:
    write_articles(["0", "Tides", bad])
    status, said = convert("sdr_articles", "games.csv", "--relevant", "games.json")
    assert status == 2 and "games.csv:2" in said and len(said.splitlines()) == 1
    assert not Path("ran").exists() and not Path("out.jsonl").exists()


def row(label: int, a: str, b: str) -> str:
    return f"{label}|{a}|{b}|三星 发布 {a}|标题|三星 Galaxy S8 的 屏幕 {a}|内容 {b} 。|k|k|1|2"


def test_pairs_of_news(convert: Convert) -> None:
    bad = [row(1, "a", "b") + "|more", row(2, "a", "b"), "1|a|b|t|t| |text|k|k|1|2"]
    rows = [*(row(number % 2, f"n{number}", f"m{number % 3}") for number in range(11)), *bad]
    Path("pairs.txt").write_text("\ufeff" + "\r\n".join([HEADER, *rows]) + "\r\n", encoding="utf-8")
    status, said = convert("matching_data", "cnse", "pairs.txt")
    assert status == 0 and "14 documents and 11 pairs" in said and "skipped 3" in said and "pairs.txt:13" in said
    documents = {document.id: document for document in read_documents("out/documents.jsonl")}
    assert len(documents) == 14
    assert (documents["n4"].title, documents["n4"].text) == ("三星发布n4", "三星Galaxy S8的屏幕n4")
    parts = [list(read_pair_file(f"out/{name}.tsv")) for name in ("train", "dev", "test")]
    # 60, 20 and 20 % of the lines, rounded up.
    assert [len(part) for part in parts] == [7, 2, 2]
    assert [pair.a for part in parts for pair in part] == [f"n{number}" for number in range(11)]
    assert parts[0][1] == ("n1", "m1", 1)


def test_coherence_against_a_loop(benchmark: Benchmark) -> None:
    pytest.importorskip("ir_measures")
    baselines = benchmark("paper_baselines")
    draw = np.random.default_rng(0)
    counts, topics = draw.integers(0, 2, (12, 15)), draw.random((3, 15))
    counts[:, 0] = 1
    values = []
    for topic in topics:
        best = sorted(range(15), key=lambda word: -topic[word])[:10]
        for place, one in enumerate(best):
            for other in best[place + 1 :]:
                joint = np.mean((counts[:, one] > 0) & (counts[:, other] > 0))
                apart = np.mean(counts[:, one] > 0) * np.mean(counts[:, other] > 0)
                values.append(-1 if joint == 0 else 0 if joint == 1 else math.log(joint / apart) / -math.log(joint))
    assert baselines.npmi(csr_matrix(counts.astype(float)), topics) == pytest.approx(np.mean(values))


SCRIPTS = sorted(path for folder in ("benchmarks", "pretrain", "finetune") for path in (ROOT / folder).glob("*.py"))


def taken(path: Path) -> Iterator[tuple[str, str]]:
    """Every module of the package that a script imports from, with the name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "graphdoc":
            yield from ((node.module, one.name) for one in node.names)


def test_there_are_scripts_of_all_kinds() -> None:
    assert {path.parent.name for path in SCRIPTS} == {"benchmarks", "pretrain", "finetune"}
    assert sum(1 for path in SCRIPTS for _ in taken(path)) > 100


def test_what_scripts_import_is_there() -> None:
    for path in SCRIPTS:
        for module, name in taken(path):
            there = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
            assert there, f"{path.name}: {module} has no {name}"


BODY = "The tide came in over the marsh at noon and left it again before the night had begun"


def test_scores_of_a_reading(benchmark: Benchmark) -> None:
    reading, words = benchmark("reading"), BODY.split()
    right = reading.Reading("Tides", [(2, "Marsh"), (3, "Noon"), (2, "Night")], BODY, "Menu Search")
    same = reading.Reading("Tides", [(1, "marsh"), (2, "Noon."), (1, "Night")], BODY.upper())
    one = reading.score(same, right)
    assert (one.f1, one.nesting, one.coverage, one.order, one.furniture, one.surplus) == (1, 1, 1, 1, 0, 0)
    # The title is as good as a heading.
    assert reading.score(reading.Reading("", [(1, "Tides"), *same.headings], BODY), right).f1 == 1
    right = reading.Reading("Tides", [(2, "Marsh"), (3, "Noon")], BODY, "Menu Search")
    found = reading.Reading("Tides", [(2, "Menu")], " ".join([*words[6:], *words[:6], "Search", "Extra"]))
    one = reading.score(found, right)
    assert (one.precision, one.recall) == (1 / 2, 1 / 3)
    # "Noon" as a heading is missing; "Marsh" too: both words stand in the body once, not twice.
    assert one.coverage == pytest.approx(1 - 2 / 21)
    assert one.furniture == pytest.approx(2 / 22) and one.surplus == pytest.approx(3 / 22)
    # 14 groups of four words; three are broken by the move; of the rest those of the longer part are right.
    assert one.order == pytest.approx(9 / 12)
    assert reading.score(reading.Reading("Tides", [(2, "Marsh"), (2, "Noon")], BODY), right).nesting == 0


def test_the_projects_own_set_is_read_right(benchmark: Benchmark) -> None:
    reading = benchmark("reading")
    paths = reading.files(ROOT / "tests" / "documents" / "parsing" / "reading_set")
    scores = {path: reading.measure(reading.read_with_graphdoc, path, attempts=1) for path in paths}
    assert {path.parts[-3] for path in paths} >= {"html", "text"} and len(paths) >= 10
    wrong = {
        path.name: one
        for path, one in scores.items()
        if one.error or one.f1 < 1 or one.nesting < 1 or one.coverage < 0.995 or one.order < 1 or one.furniture > 0.01
    }
    assert not wrong
