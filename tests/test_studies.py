"""The studies of benchmarks/: their configurations are read, and one of them runs in small."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
SENTENCE_PAIRS = ROOT / "configs" / "studies" / "sdr.yaml"
STUDIES = sorted({*(ROOT / "configs" / "studies").glob("*.yaml")} - {SENTENCE_PAIRS})
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
def test_every_row_is_a_recipe(path: Path, benchmark: Callable[[str], ModuleType], data: Path, tmp_path: Path) -> None:
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
    benchmark: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.slow
def test_a_study_is_run_once_and_written(
    benchmark: Callable[[str], ModuleType],
    data: Path,
    backbone_folder: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    studies = benchmark("studies")
    module = benchmark("section_shuffling")
    monkeypatch.setenv("GRAPHDOC_CACHE", str(tmp_path / "cache"))
    own = [
        "groups.by=pairs", "groups.file={data}/pairs_train.tsv", f"model.start={backbone_folder('bert')}",
        "model.settings.projection_size=16", "model.settings.passage_words=20", "model.settings.section_lstm_size=8",
        "model.settings.section_projection_size=8", "groups.unknown=leave_out", "training.batch_size=8",
        "training.epochs=2", "training.loading_processes=0",
    ]  # fmt: skip
    command = [
        "section_shuffling.py", "--work", str(tmp_path / "work"), "--data", str(data), "documents=papers.jsonl",
        "seeds=1", "precision=float32", f"settings={json.dumps(own)}",
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", command)
    untrained = studies.untrained_mean
    monkeypatch.setattr(studies, "untrained_mean", lambda encoder: untrained(encoder, backbone_folder("bert")))
    module.run_study("section_shuffling", module.__doc__, module.plot, module.shuffled_scores)
    # A study of one's own does not take the place of those that are shipped.
    written = tmp_path / "work" / "section_shuffling.md"
    assert f"wrote {written} and {written.with_suffix('.png')}" in capsys.readouterr().out
    first = written.read_text()
    assert first.count("\n| ") == 9
    assert f"`python benchmarks/section_shuffling.py --data {data} documents=papers.jsonl seeds=1" in first
    assert written.with_suffix(".png").stat().st_size > 1000
    changes = [float(line.split("|")[-2].split()[0]) for line in first.split("shuffled:")[1].splitlines()[4:7]]
    # The order of sections is nothing to a mean.
    assert changes[0] < 1e-3
    monkeypatch.setattr(studies, "train", None)
    # Other settings of the recipe are another study, and other pairs are measured anew.
    monkeypatch.setattr(sys, "argv", [*command[:-1], f"settings={json.dumps([*own, 'loss.temperature=0.3'])}"])
    with pytest.raises(SystemExit, match="2"):
        module.run_study("section_shuffling", module.__doc__, module.plot, module.shuffled_scores)
    line = capsys.readouterr().err
    assert "holds a run with loss.temperature=0.1, not 0.3; resume it with the settings it has, or choose" in line
    monkeypatch.setattr(sys, "argv", [*command, "test=pairs_dev.tsv"])
    module.run_study("section_shuffling", module.__doc__, module.plot, module.shuffled_scores)
    kept = tmp_path / "work" / "natural_positions" / "0" / "scores.json"
    dev = studies.content_hash(data / "scisumm_acl" / "pairs_dev.tsv")
    assert json.loads(kept.read_text())["measured"]["test"] == dev
    monkeypatch.setattr(sys, "argv", [*command[:1], "--results", str(tmp_path / "elsewhere"), *command[1:]])
    module.run_study("section_shuffling", module.__doc__, module.plot, module.shuffled_scores)
    assert (tmp_path / "elsewhere" / "section_shuffling.md").read_text() == first


def test_intervals_of_differences_are_over_pairs_and_seeds(
    benchmark: Callable[[str], ModuleType], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rows={a b: [], a_b: []}", "'a b' and 'a_b'"),
        ("rows={../a: []}", "has '../a'"),
        ("documents=none.jsonl", "none.jsonl"),
        ("against=c", "against='c' is no row"),
        ("readings={d: {of: c, settings: []}}", "has 'd' of 'c', which is no row"),
    ],
)
def test_mistakes_are_reported_in_a_line_before_the_long_work(
    benchmark: Callable[[str], ModuleType],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: str,
    message: str,
) -> None:
    module = benchmark("paper_studies")
    words = ["--work", str(tmp_path / "work"), "--data", str(data), "documents=papers.jsonl", change]
    monkeypatch.setattr(benchmark("studies"), "train", None)
    with pytest.raises(SystemExit, match="2"):
        module.main(["ablation", *words])
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert message in err
    assert not (tmp_path / "work").exists()


@pytest.mark.slow
def test_a_study_of_views_reads_models_and_rows_of_others(
    benchmark: Callable[[str], ModuleType],
    data: Path,
    backbone_folder: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    studies, module = benchmark("studies"), benchmark("paper_studies")
    monkeypatch.setenv("GRAPHDOC_CACHE", str(tmp_path / "cache"))
    start, quick = f"model.start={backbone_folder('bert')}", ["training.epochs=1", "training.batch_size=8"]
    pairs = ["pairs.file={data}/pairs_train.tsv", "training.loading_processes=0", start, *quick]
    abstract = ["corpus.leave_out_sections=[Abstract]"]
    model = {"command": "finetune subtopics", "base": "configs/finetune/subtopics.yaml", "settings": pairs}
    rows = {
        "soft": [],
        "truncated": ["views.sampling=truncated"],
        "adaptive": ["views.subtopics=adaptive", "views.subtopic_model={adaptive}"],
    }
    own = [
        *pairs, *abstract, "views.view_tokens=24", "views.aggregation=max", "model.settings.passage_tokens=40",
    ]  # fmt: skip
    command = [
        "sst_views", "--work", str(tmp_path / "work"), "--data", str(data), "documents=papers.jsonl",
        "folder=scisumm_acl", "test=pairs_test.tsv", "validation=pairs_dev.tsv",
        "base=configs/finetune/sst_small.yaml",
        "seeds=1", "precision=float32", f"rows={json.dumps(rows)}", f"models={json.dumps({'adaptive': model})}",
        "lengths=[200]",
        f"settings={json.dumps(own)}",
    ]  # fmt: skip
    module.main(command)
    written = (tmp_path / "work" / "sst_views.md").read_text()
    assert "paper_studies.py sst_views --data" in written
    assert written.count("\n| soft |") == 3 and written.count("\n| soft, one view when matched |") == 3
    assert "200 words and more" in written
    assert "\n| truncated | +" not in written
    # The row of another reading trained nothing of its own.
    assert not (tmp_path / "work" / "soft,_one_view_when_matched" / "0" / "model").exists()
    rows_read = ("soft", "soft,_one_view_when_matched")
    three, one = (np.load(tmp_path / "work" / row / "0" / "similarities.npy") for row in rows_read)
    assert (three >= one).all() and (three > one).any()
    monkeypatch.setattr(studies, "train", None)
    module.main(command)
    assert (tmp_path / "work" / "sst_views.md").read_text() == written
    module.main([*command, "with_words=true", "test=pairs_train.tsv", "rows={soft: []}",
                 "models={}", "against=soft"])  # fmt: skip
    fused = (tmp_path / "work" / "sst_views.md").read_text()
    assert fused.count("\n| soft, with words |") == 3 and "\n- with words: " in fused
    with pytest.raises(SystemExit):
        module.main(["sst_nothing"])
    assert "sst_lambda" in capsys.readouterr().out
