"""All recipes train, and go on where they were; the scripts that show one do what its command does."""

from __future__ import annotations

import json
import re
import runpy
import sys
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from corpus_examples import labelled_rows, write_rows
from safetensors.torch import load_file
from training_runs import corpus_of, losses_of, results_of
from two_processes import LAUNCHERS, launched, run_commands
from typed import Encoders, Output, Patch

from graphdoc.cli import main
from graphdoc.registry import RECIPES, load
from graphdoc.settings.loading import shipped_configs
from graphdoc.training.objectives import TrainingBatch
from graphdoc.training.step import CachedStep

ROOT = Path(__file__).parents[2]

TEXTS = [f"The tide {number} of all waters came. Marsh grass slows it more than bare mud does." for number in range(8)]


def judged(folder: str, corpus: str, *qrels: str) -> dict[str, str]:
    """A folder of documents, queries and judgements, as configs say that ``ir_datasets`` exports them."""
    documents = [{"_id": f"D{number}", "title": "Tides", "text": text} for number, text in enumerate(TEXTS)]
    forms = ("text", "title", "first_sentence")
    queries = [{"_id": str(number), **dict.fromkeys(forms, text[:20])} for number, text in enumerate(TEXTS)]
    rows = {corpus: documents, f"{folder}/queries.jsonl": queries}
    files = {name: "".join(json.dumps(row) + "\n" for row in given) for name, given in rows.items()}
    of = {"qrels.tsv": range(8), "qrels/train.tsv": range(5), "qrels/dev.tsv": range(5, 8)}
    lines = [f"{n} 0 D{n} 1\n{n} 0 D{(n + 1) % 8} 0\n" for n in range(8)]
    return files | {f"{folder}/{name}": "".join(lines[n] for n in of[name]) for name in qrels}


def folders(pattern: str) -> dict[str, str]:
    return {pattern.format(("neg", "pos")[number % 2], number): text for number, text in enumerate(TEXTS)}


WIKIR = judged("wikir", "articles.jsonl", "qrels/train.tsv", "qrels/dev.tsv"), "corpus.source=articles.jsonl"
# Files as they are published, and what a config has to be told of them.
PUBLISHED: dict[str, tuple[dict[str, str], str]] = {
    "imdb": ({**folders("train/{}/{}_7.txt"), "train/unsup/0_0.txt": "It is slow."},
             "corpus.source=train/[np]* corpus.label_from=folder"),
    "newsgroups20": (folders("20news-bydate-train/{}/{}.txt"),
                     "corpus.source=20news-bydate-train corpus.label_from=folder corpus.encoding=latin-1"),
    "arxiv": (folders("arxiv/{}/{}.txt"), "corpus.source=arxiv corpus.label_from=folder"),
    "msmarco_doc": (judged("msmarco-doc", "msmarco-doc/corpus.jsonl", "qrels/train.tsv"),
                    "corpus.source=msmarco-doc/corpus.jsonl"),
    "robust04": (judged("robust04", "robust04/corpus.jsonl", "qrels.tsv")
                 | {"robust04/folds.tsv": "".join(f"{n}\t{n % 5 + 1}\n" for n in range(8))},
                 "corpus.source=robust04/corpus.jsonl"),
    "wikir_title": WIKIR, "wikir_first_sentence": WIKIR,
}  # fmt: skip
# What a tiny run of a task needs, and what one config needs beside.
PAIRS = "pairs.file=pairs.tsv validation.pairs=pairs.tsv"
OF_TASK = {
    "pretrain": "training.batch_size=7",
    "classify": "training.batch_size=5 labels.dropout=0",
    "compare": "training.batch_size=15 groups.file=pairs.tsv validation.pairs=pairs.tsv",
    "retrieve": "training.batch_size=3",
    "views": f"training.batch_size=7 views.view_tokens=24 {PAIRS}",
    "subtopics": f"training.batch_size=10 {PAIRS}",
}
OPENWEBTEXT = "corpus.dataset=null corpus.revision=null validation.share=0.2"
FIRST_STAGE = "pairs.file=null pairs.qrels=qrels.tsv pairs.run=first_stage.run loss.negatives_per_pair=2"
OF_CONFIG = {
    "graph_roberta": OPENWEBTEXT,
    "graph_roberta_retrieval": OPENWEBTEXT,
    "own_corpus": "validation.share=0.2",
    "colde": "groups.file=links.tsv corpus.leave_out_sections=[] model.settings.passage_tokens=40",
    "graph_compare": "groups.file=links.tsv",
    "own_pairs": "model.settings.readout_settings.section_projection_size=24",
    "own_queries": "model.settings.projection_size=24",
    **dict.fromkeys(("sst_cnse", "sst_cnss"), "model.start=matcher"),
    **dict.fromkeys(("sst_coliee", "sst_lecardv2"), FIRST_STAGE),
    **{name: options for name, (_, options) in PUBLISHED.items()},
}
# All configs of the package, some of them with other settings too, the first as its comment says.
RUNS = {name: (name, "") for name in shipped_configs()} | {
    "cosine": ("colde", "loss.kind=cosine groups.by=pairs groups.file=pairs.tsv groups.joining=components "
                        "groups.smallest=null sections.number=1 model.settings.structural_embeddings=false"),
    "judged": ("robust04", "negatives.kind=judged model.tune=frozen"),
    "both": ("msmarco_doc", "negatives.kind=both negatives.depth=5"),
}  # fmt: skip
MISTAKES = {
    "nowhere": ("own_labels", "corpus.source=nowhere"),
    "no-queries": ("msmarco_doc", "queries.source=no-queries"),
}


@pytest.fixture
def _files(language_model_folder: Path, tiny_encoder: Encoders, tmp_path: Path, monkeypatch: Patch) -> None:
    """A working folder with a model, 24 labelled documents and pairs of them, and files as they are published."""
    monkeypatch.chdir(tmp_path)
    Path("backbone").symlink_to(language_model_folder)
    # Dropout, of which there is none here, draws otherwise in two processes.
    matcher = tiny_encoder("roberta", projection_size=None, graph_layers=0, readout="mean")
    matcher.model.add_head(["different", "similar"], dropout=0.0)
    matcher.save_pretrained("matcher")
    write_rows(Path("corpus.jsonl"), labelled_rows(24))
    similar, others = ([(f"d{n}", f"d{(n + step) % 24}") for n in range(24)] for step in (2, 3))
    files = {
        "pairs.tsv": "".join([f"{a}\t{b}\t1\n" for a, b in similar] + [f"{a}\t{b}\t0\n" for a, b in others]),
        "links.tsv": "".join(f"{a}\t{b}\n" for a, b in similar),
        "qrels.tsv": "".join(f"{a} 0 {b} 2\n" for a, b in similar),
        "first_stage.run": "".join(f"{a} Q0 {b} 1 1.0 words\n" for a, b in others),
    }
    for file, text in [*files.items(), *chain(*(published.items() for published, _ in PUBLISHED.values()))]:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")


def run_of(name: str, folder: str) -> list[str]:
    """A run of two steps by a config, in a folder of runs."""
    config, options = {**RUNS, **MISTAKES}[name]
    task = re.search(r"finetune[ /](\w+)", shipped_configs()[config].read_text(encoding="utf-8"))
    words = ["finetune", task[1]] if task is not None else ["pretrain"]
    return [
        *words, "--config", config, "--device", "cpu", f"output={folder}/{name}", f"corpus.cache=cache-{folder}",
        "corpus.source=corpus.jsonl", "corpus.preparing_processes=1", "model.start=backbone",
        "model.settings.passage_words=10", "training.max_steps=2", "training.logging_steps=1",
        "training.dataloader_num_workers=0", *f"{OF_TASK[words[-1]]} {OF_CONFIG.get(config, '')} {options}".split(),
    ]  # fmt: skip


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def script_of(words: str) -> str:
    return "pretrain/sub_documents.py" if words == "pretrain" else f"{words.replace(' ', '/')}.py"


# A shipped config of every recipe, by the words of its command.
SHIPPED = {
    "pretrain": "own_corpus",
    "pretrain sentence_pairs": "sdr_quick",
    "finetune classify": "own_labels",
    "finetune compare": "graph_compare",
    "finetune retrieve": "own_queries",
    "finetune views": "sst_small",
    "finetune subtopics": "subtopics",
}


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("words", RECIPES)
def test_a_run_of_any_recipe_goes_on_where_it_was_and_its_script_trains_the_same_model(
    words: str, monkeypatch: Patch
) -> None:
    name = SHIPPED[words]
    command, run = [*run_of(name, "run"), "training.save_steps=1"], Path("run", name)
    assert main(command) == 0
    expected = weights(run)
    for made in ("checkpoint-2", "model"):
        (run / made).rename(made)
    steps, take = [], CachedStep.__call__

    def counted(step: CachedStep, batch: TrainingBatch) -> Any:
        steps.append(batch)
        return take(step, batch)

    monkeypatch.setattr(CachedStep, "__call__", counted)
    assert main([*command, "--resume"]) == 0
    # Anew from its start it would come to the same.
    assert len(steps) == 1
    found = [weights(run)]
    if (ROOT / script_of(words)).is_file():
        given = run_of(name, "script")
        monkeypatch.setattr(sys, "argv", [script_of(words), *given[given.index("--config") :]])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / script_of(words)), run_name="__main__")
        assert ended.value.code == 0
        found.append(weights(Path("script", name)))
    for other in found:
        assert other.keys() == expected.keys()
        assert all(torch.equal(weight, expected[name]) for name, weight in other.items())


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_config_reads_its_data_as_they_are_published(name: str) -> None:
    assert main(run_of(name, "run")) == 0
    assert corpus_of(Path("run", name))["documents"] == 8


def test_help_of_a_script_is_that_of_its_command(capsys: Output) -> None:
    assert main(["pretrain", "--help"], train=print) == 0
    assert "--config" in capsys.readouterr().out


def test_every_script_is_that_of_a_recipe() -> None:
    there = {str(path.relative_to(ROOT)) for of in ("pretrain", "finetune") for path in (ROOT / of).glob("*.py")}
    assert there <= {script_of(words) for words in RECIPES}
    for words in ("finetune compare", "finetune views"):
        loss: Any = load(RECIPES[words].settings).model_fields["loss"].annotation
        text = (ROOT / script_of(words)).read_text(encoding="utf-8")
        assert all(f'"{kind}": ' in text for kind in get_args(loss.model_fields["kind"].annotation)), words


@pytest.mark.distributed
@pytest.mark.usefixtures("_files")
def test_a_script_runs_under_a_launcher_with_two_processes() -> None:
    # Without the attention, whose bias has no gradient but rounding errors.
    command, script = ([*run_of("own_labels", of), "model.settings.readout=mean"] for of in ("command", "script"))
    assert main(command) == 0
    assert launched("accelerate", ROOT / "finetune" / "classify.py", *script[2:]).returncode == 0
    by_command, by_script = (weights(Path(of, "own_labels")) for of in ("command", "script"))
    assert by_command.keys() == by_script.keys()
    assert max(float((weight - by_script[name]).abs().max()) for name, weight in by_command.items()) < 1e-6
    assert json.loads(Path("script/own_labels/record.json").read_text(encoding="utf-8"))["processes"] == 2


def log_of(run: Path) -> np.ndarray:
    """Loss and length of the gradient of both steps, ``(2, 2)``."""
    return np.array([[line["loss"], line["grad_norm"]] for line in losses_of(run)])


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_processes_train_by_every_recipe_as_one_does(launcher: str, tmp_path: Path) -> None:
    pytest.importorskip("ir_measures", reason="needs the extra graphdoc[retrieval]")
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
