"""All recipes train, and go on where they were; the scripts that show one do what its command does."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from corpus_examples import labelled_rows, write_rows
from safetensors.torch import load_file
from training_runs import corpus_of, write_config
from two_processes import COMMANDS_JOB
from typed import Backbones, Output, Patch

from graphdoc.cli import main
from graphdoc.registry import RECIPES
from graphdoc.training.objectives import TrainingBatch
from graphdoc.training.step import CachedStep

# The words of the commands that train.
COMMANDS = [words for words in RECIPES if words.partition(" ")[0] not in RECIPES or " " not in words]
PATIENCE = 600
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


def judged(folder: str, corpus: str, *qrels: str, field: str = "text") -> dict[str, str]:
    """A folder of documents, queries and judgements, as recipes say that ``ir_datasets`` exports them."""
    documents = [{"_id": f"D{number}", "title": "Tides", "text": text} for number, text in enumerate(TEXTS)]
    queries = [{"_id": str(number), field: text[:20]} for number, text in enumerate(TEXTS)]
    rows = {corpus: documents, f"{folder}/queries.jsonl": queries}
    files = {name: "".join(json.dumps(row) + "\n" for row in given) for name, given in rows.items()}
    of = {"qrels.tsv": range(8), "qrels/train.tsv": range(5), "qrels/dev.tsv": range(5, 8)}
    return files | {f"{folder}/{name}": "".join(f"{n} 0 D{n} 1\n" for n in of[name]) for name in qrels}


def folders(pattern: str) -> dict[str, str]:
    """Texts of two classes, each in the folder of its class."""
    return {pattern.format(("neg", "pos")[number % 2], number): text for number, text in enumerate(TEXTS)}


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
        "retrieve", judged("wikir", "articles.jsonl", "qrels/train.tsv", "qrels/dev.tsv", field=field),
        ["corpus.source=articles.jsonl"],
    ) for field in ("title", "first_sentence")},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_recipe_reads_its_data_as_they_are_published(
    name: str, backbone_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task, files, options = PUBLISHED[name]
    for file, text in files.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")
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


# Without --cpu, by which it would start a single process; it launches torchrun.
ACCELERATE = (
    *("accelerate.commands.launch", "--multi_gpu", "--num_machines", "1", "--num_processes", "2"),
    *("--mixed_precision", "no", "--dynamo_backend", "no"),
)


@pytest.mark.distributed
def test_a_script_runs_under_a_launcher_with_two_processes(config: Path, tmp_path: Path) -> None:
    # Without dropout, whose draws differ from process to process.
    common = ["--config", str(config), "--device", "cpu", "model.tune=frozen", "labels.dropout=0"]
    assert main(["finetune", "classify", *common, f"output={tmp_path / 'command'}"]) == 0
    run = [str(ROOT / "finetune" / "classify.py"), *common, f"output={tmp_path / 'script'}"]
    subprocess.run([sys.executable, "-m", *ACCELERATE, *run], check=True, timeout=PATIENCE)
    by_command, by_script = weights(tmp_path / "command"), weights(tmp_path / "script")
    assert by_command.keys() == by_script.keys()
    assert max(float((weight - by_script[name]).abs().max()) for name, weight in by_command.items()) < 1e-6
    record = json.loads((tmp_path / "script" / "record.json").read_text(encoding="utf-8"))
    assert record["processes"] == 2


@pytest.mark.slow
@pytest.mark.distributed
def test_all_recipes_run_under_accelerate(arguments: Callable[[str], list[str]], tmp_path: Path) -> None:
    runs = [[*command_of(words).split(), *arguments(words), f"output={tmp_path / words[-9:]}"] for words in RECIPES]
    (tmp_path / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    job = [str(COMMANDS_JOB), "commands", str(tmp_path / "runs.json"), str(tmp_path / "seen")]
    subprocess.run([sys.executable, "-m", *ACCELERATE, *job], check=True, timeout=PATIENCE)
    seen = [json.loads((tmp_path / f"seen-{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]
    assert all(run["status"] == 0 for of_rank in seen for run in of_rank), seen
