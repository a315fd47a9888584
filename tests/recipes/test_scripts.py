"""All recipes train, and go on where they were; the scripts that show one do what its command does."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_examples import labelled_rows, write_rows
from safetensors.torch import load_file
from training_runs import corpus_of, losses_of, results_of, write_config
from two_processes import LAUNCHERS, launched, run_commands
from typed import Backbones, Encoders, Output, Patch

from graphdoc.cli import main
from graphdoc.registry import RECIPES
from graphdoc.settings.loading import shipped_recipes
from graphdoc.training.objectives import TrainingBatch
from graphdoc.training.step import CachedStep

# The words of the commands that train.
COMMANDS = [words for words in RECIPES if words.partition(" ")[0] not in RECIPES or " " not in words]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def config(backbone_folder: Backbones, tmp_path: Path) -> Path:
    """Settings that all recipes share, on 24 labelled documents."""
    return write_config(
        tmp_path, write_rows(tmp_path / "corpus.jsonl", labelled_rows(24)), backbone_folder("roberta"),
        {"projection_size": 16, "passage_words": 10}, training={"max_steps": 2, "learning_rate": 1e-3},
    )  # fmt: skip


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


# What a recipe needs for a tiny run on the documents of ``config``, beside what all share.
NEEDED: dict[str, list[str]] = {
    "pretrain": ["validation.share=0.2"],
    "pretrain sentence_pairs": [
        "model.settings.graph_layers=0",
        "model.settings.readout=mean",
        "loss.mlm_weight=0",
        "loss.contrast_on=clean",
    ],
    "finetune classify": [],
    "finetune compare": ["sections.number=1"],
    "finetune retrieve": ["queries.made_from=[first_sentences]", "negatives.per_query=1"],
    "finetune views": [
        "pairs.file={folder}/pairs.tsv",
        "model.settings.graph_layers=0",
        "model.settings.readout=mean",
        "views.view_tokens=12",
        "training.epochs=2",
    ],
    "finetune subtopics": [
        "pairs.file={folder}/pairs.tsv",
        "model.tune=frozen",
        "model.settings.readout=initial_mean",
    ],
}


@pytest.fixture
def arguments(config: Path, tmp_path: Path) -> Callable[[str], list[str]]:
    """Gives the arguments of a tiny run of a recipe, behind the words of its command."""
    (tmp_path / "pairs.tsv").write_text("d0\td2\t1\nd0\td1\t0\nd3\td5\t1\nd3\td8\t0\n", encoding="utf-8")

    def of(words: str) -> list[str]:
        options = [option.replace("{folder}", str(tmp_path)) for option in NEEDED[words]]
        if words != command_of(words):
            options.append(f"recipe={words.rpartition(' ')[2]}")
        return ["--config", str(config), "--device", "cpu", *options]

    return of


def command_of(words: str) -> str:
    (command,) = (one for one in COMMANDS if f"{words} ".startswith(f"{one} "))
    return command


def script_of(words: str) -> str:
    return "pretrain/sub_documents.py" if words == "pretrain" else f"{words.replace(' ', '/')}.py"


@pytest.mark.parametrize("words", RECIPES)
def test_a_run_of_any_recipe_goes_on_where_it_was_and_its_script_trains_the_same_model(
    arguments: Callable[[str], list[str]], tmp_path: Path, words: str, monkeypatch: Patch
) -> None:
    given = arguments(words)
    command = [*command_of(words).split(), *given, "training.save_steps=1", f"output={tmp_path / 'run'}"]
    assert main(command) == 0
    expected = weights(tmp_path / "run")
    for name in ("checkpoint-2", "model"):
        (tmp_path / "run" / name).rename(tmp_path / name)
    steps, take = [], CachedStep.__call__

    def counted(step: CachedStep, batch: TrainingBatch) -> Any:
        steps.append(batch)
        return take(step, batch)

    monkeypatch.setattr(CachedStep, "__call__", counted)
    assert main([*command, "--resume"]) == 0
    # Anew from its start it would come to the same.
    assert len(steps) == 1
    found = [weights(tmp_path / "run")]
    if (ROOT / script_of(words)).is_file():
        monkeypatch.setattr(sys, "argv", [script_of(words), *given, f"output={tmp_path / 'script'}"])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / script_of(words)), run_name="__main__")
        assert ended.value.code == 0
        found.append(weights(tmp_path / "script"))
    for other in found:
        assert other.keys() == expected.keys()
        assert all(torch.equal(weight, expected[name]) for name, weight in other.items())


TEXTS = [f"The tide {number} of all waters came. Marsh grass slows it more than bare mud does." for number in range(8)]


def judged(folder: str, corpus: str, *qrels: str) -> dict[str, str]:
    """A folder of documents, queries and judgements, as recipes say that ``ir_datasets`` exports them."""
    documents = [{"_id": f"D{number}", "title": "Tides", "text": text} for number, text in enumerate(TEXTS)]
    forms = ("text", "title", "first_sentence")
    queries = [{"_id": str(number), **dict.fromkeys(forms, text[:20])} for number, text in enumerate(TEXTS)]
    rows = {corpus: documents, f"{folder}/queries.jsonl": queries}
    files = {name: "".join(json.dumps(row) + "\n" for row in given) for name, given in rows.items()}
    of = {"qrels.tsv": range(8), "qrels/train.tsv": range(5), "qrels/dev.tsv": range(5, 8)}
    lines = [f"{n} 0 D{n} 1\n{n} 0 D{(n + 1) % 8} 0\n" for n in range(8)]
    return files | {f"{folder}/{name}": "".join(lines[n] for n in of[name]) for name in qrels}


def folders(pattern: str) -> dict[str, str]:
    """Texts of two classes, each in the folder of its class."""
    return {pattern.format(("neg", "pos")[number % 2], number): text for number, text in enumerate(TEXTS)}


def write_files(files: Mapping[str, str]) -> None:
    for file, text in files.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")


# Files as they are published, and what a recipe has to be told of them.
PUBLISHED: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "imdb": ("classify", {**folders("train/{}/{}_7.txt"), "train/unsup/0_0.txt": "It is slow."},
             ["corpus.source=train/[np]*", "corpus.label_from=folder"]),
    "newsgroups20": ("classify", folders("20news-bydate-train/{}/{}.txt"),
                     ["corpus.source=20news-bydate-train", "corpus.label_from=folder", "corpus.encoding=latin-1"]),
    "arxiv": ("classify", folders("arxiv/{}/{}.txt"), ["corpus.source=arxiv", "corpus.label_from=folder"]),
    "msmarco_doc": ("retrieve", judged("msmarco-doc", "msmarco-doc/corpus.jsonl", "qrels/train.tsv"),
                    ["corpus.source=msmarco-doc/corpus.jsonl"]),
    "robust04": ("retrieve", judged("robust04", "robust04/corpus.jsonl", "qrels.tsv")
                 | {"robust04/folds.tsv": "".join(f"{n}\t{n % 5 + 1}\n" for n in range(8))},
                 ["corpus.source=robust04/corpus.jsonl"]),
    **{f"wikir_{field}": (
        "retrieve", judged("wikir", "articles.jsonl", "qrels/train.tsv", "qrels/dev.tsv"),
        ["corpus.source=articles.jsonl"],
    ) for field in ("title", "first_sentence")},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_recipe_reads_its_data_as_they_are_published(
    name: str, backbone_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task, files, options = PUBLISHED[name]
    write_files(files)
    tiny = [f"model.start={backbone_folder('roberta')}", "training.max_steps=2", "training.batch_size=4",
            "training.dataloader_num_workers=0", "corpus.preparing_processes=1", "corpus.cache=cache"]  # fmt: skip
    assert main(["finetune", task, "--config", name, "--device", "cpu", "output=run", *tiny, *options]) == 0
    assert corpus_of(Path("run"))["documents"] == 8


def test_help_of_a_script_is_that_of_its_command(capsys: Output) -> None:
    assert main(["pretrain", "--help"], train=print) == 0
    assert "--config" in capsys.readouterr().out


def test_every_script_is_that_of_a_recipe() -> None:
    there = {str(path.relative_to(ROOT)) for of in ("pretrain", "finetune") for path in (ROOT / of).glob("*.py")}
    assert there <= {script_of(words) for words in RECIPES}


@pytest.mark.distributed
def test_a_script_runs_under_a_launcher_with_two_processes(config: Path, tmp_path: Path) -> None:
    # Without dropout, whose draws differ from process to process.
    common = ["--config", str(config), "--device", "cpu", "model.tune=frozen", "labels.dropout=0"]
    assert main(["finetune", "classify", *common, f"output={tmp_path / 'command'}"]) == 0
    run = [str(ROOT / "finetune" / "classify.py"), *common, f"output={tmp_path / 'script'}"]
    assert launched("accelerate", *run).returncode == 0
    by_command, by_script = weights(tmp_path / "command"), weights(tmp_path / "script")
    assert by_command.keys() == by_script.keys()
    assert max(float((weight - by_script[name]).abs().max()) for name, weight in by_command.items()) < 1e-6
    record = json.loads((tmp_path / "script" / "record.json").read_text(encoding="utf-8"))
    assert record["processes"] == 2


# What a tiny run of a recipe of a task needs, and what one recipe needs beside.
PAIRS = ["pairs.file=pairs.tsv", "validation.pairs=pairs.tsv"]
OF_TASK = {
    "pretrain": ["training.batch_size=7", "model.start=language-model"],
    "classify": ["training.batch_size=5", "labels.dropout=0"],
    "compare": ["training.batch_size=15", "groups.file=pairs.tsv", "validation.pairs=pairs.tsv"],
    "retrieve": ["training.batch_size=3"],
    "views": ["training.batch_size=7", "views.view_tokens=24", *PAIRS],
    "subtopics": ["training.batch_size=10", *PAIRS],
}
OPENWEBTEXT = ["corpus.dataset=null", "corpus.revision=null", "validation.share=0.2"]
FIRST_STAGE = ["pairs.file=null", "pairs.qrels=qrels.tsv", "pairs.run=first_stage.run", "loss.negatives_per_pair=2"]
OF_RECIPE: dict[str, list[str]] = {
    "graph_roberta": OPENWEBTEXT,
    "graph_roberta_retrieval": OPENWEBTEXT,
    "own_corpus": ["validation.share=0.2"],
    "colde": ["groups.file=links.tsv", "corpus.leave_out_sections=[]", "model.settings.passage_tokens=40"],
    "graph_compare": ["groups.file=links.tsv"],
    "own_pairs": ["model.settings.section_projection_size=24"],
    "own_queries": ["model.settings.projection_size=24"],
    **{name: ["model.start=matcher"] for name in ("sst_cnse", "sst_cnss")},
    **{name: FIRST_STAGE for name in ("sst_coliee", "sst_lecardv2")},
    **{name: options for name, (_, _, options) in PUBLISHED.items()},
}
# All recipes of the package, some of them with other settings too.
RUNS = {
    **{name: (name, list[str]()) for name in shipped_recipes()},
    # As its comment says.
    "cosine": (
        "colde",
        [
            "loss.kind=cosine",
            "groups.by=pairs",
            "groups.file=pairs.tsv",
            "groups.joining=components",
            "groups.smallest=null",
            "sections.number=1",
            "model.settings.structural_embeddings=false",
        ],
    ),
    "judged": ("robust04", ["negatives.kind=judged", "model.tune=frozen"]),
    "both": ("msmarco_doc", ["negatives.kind=both", "negatives.depth=5"]),
}
MISTAKES = {
    "nowhere": ("own_labels", ["corpus.source=nowhere"]),
    "no-queries": ("msmarco_doc", ["queries.source=no-queries"]),
}


def run_of(name: str, processes: str) -> list[str]:
    """Two steps of a recipe, on the documents of ``config`` or on files as they are published."""
    recipe, options = {**RUNS, **MISTAKES}[name]
    path = shipped_recipes()[recipe]
    task = re.search(r"finetune[ /](\w+)", path.read_text(encoding="utf-8"))
    words = ["finetune", task[1]] if task is not None else ["pretrain"]
    return [
        *words, "--config", recipe, "--device", "cpu", f"output={processes}/{name}", f"corpus.cache=cache-{processes}",
        "corpus.source=corpus.jsonl", "corpus.preparing_processes=1", "model.start=backbone",
        "model.settings.passage_words=10", "training.max_steps=2", "training.logging_steps=1",
        "training.dataloader_num_workers=0", *OF_TASK[words[-1]], *OF_RECIPE.get(recipe, []), *options,
    ]  # fmt: skip


def log_of(run: Path) -> np.ndarray:
    """Loss and length of the gradient of both steps, ``(2, 2)``."""
    return np.array([[line["loss"], line["grad_norm"]] for line in losses_of(run)])


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.usefixtures("config")
def test_two_processes_train_by_every_recipe_as_one_does(
    launcher: str, tiny_encoder: Encoders, language_model_folder: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    pytest.importorskip("ir_measures", reason="needs the extra graphdoc[retrieval]")
    monkeypatch.chdir(tmp_path)
    # Dropout, of which there is none here, draws otherwise in two processes.
    matcher = tiny_encoder("roberta", projection_size=None, graph_layers=0, readout="mean")
    matcher.model.add_head(["different", "similar"], dropout=0.0)
    matcher.save_pretrained("matcher")
    Path("backbone").symlink_to(language_model_folder)
    Path("language-model").symlink_to(language_model_folder)
    similar, others = ([(f"d{n}", f"d{(n + step) % 24}") for n in range(24)] for step in (2, 3))
    write_files({
        "pairs.tsv": "".join([f"{a}\t{b}\t1\n" for a, b in similar] + [f"{a}\t{b}\t0\n" for a, b in others]),
        "links.tsv": "".join(f"{a}\t{b}\n" for a, b in similar),
        "qrels.tsv": "".join(f"{a} 0 {b} 2\n" for a, b in similar),
        "first_stage.run": "".join(f"{a} Q0 {b} 1 1.0 words\n" for a, b in others),
        **{name: text for _, files, _ in PUBLISHED.values() for name, text in files.items()},
    })  # fmt: skip
    seen = run_commands([run_of(name, "two") for name in (*RUNS, *MISTAKES)], tmp_path, launcher)
    for name, first, second in zip((*RUNS, *MISTAKES), *seen, strict=True):
        assert "Traceback" not in first["err"] + second["err"] and second["out"] == "", name
        if name in MISTAKES:
            assert all(of_rank["status"] == 2 and name in of_rank["err"] for of_rank in (first, second)), name
            continue
        assert first["status"] == second["status"] == main(run_of(name, "one")) == 0, first["err"] + second["err"]
        assert "2 processes" in first["out"]
        one, two = (Path(count, name) for count in ("one", "two"))
        # Of gradients that are rounding errors Adam makes whole steps; their length shows whether they are the same.
        assert len(log_of(one)) == 2 and log_of(two) == pytest.approx(log_of(one), rel=1e-4), name
        assert log_of(two)[:, 0] == pytest.approx(log_of(one)[:, 0], rel=4e-6), name
        measured = [results_of(run).get("after", {}) for run in (one, two)]
        assert measured[1] == pytest.approx(measured[0], rel=1e-4, abs=1e-6), name
    assert Path("two/robust04/test.run").is_file() and not any(Path("two", name).exists() for name in MISTAKES)
    made = ("cache-{}/**/part-*.npy", "{}/*/negatives/*.jsonl")
    found = [[sorted(path.read_bytes() for path in Path().glob(of.format(count))) for of in made]
             for count in ("one", "two")]  # fmt: skip
    assert found[0] == found[1] and all(found[0])
