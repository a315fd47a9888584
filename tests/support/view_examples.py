"""Runs on views of the pairs of eight documents, quick ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from corpus_examples import context_of, write_rows

from graphdoc.cli import main
from graphdoc.corpus.view_pool import ViewPool
from graphdoc.recipes.views import ViewRecipe
from graphdoc.settings.finetuning import ViewRunSettings
from graphdoc.settings.loading import load_settings
from graphdoc.training.run import RunContext

CONFIG = Path(__file__).parents[2] / "configs" / "finetune" / "sst_small.yaml"
WORDS = {
    "rice": ["rice", "koji", "mould", "steam", "malt", "barley", "soya", "brine"],
    "tide": ["tide", "marsh", "flood", "dike", "sluice", "barrier", "storm", "sea"],
}


def documents(count: int = 8) -> list[dict[str, Any]]:
    """Documents of 14 sentences; those of even number are mostly about rice, others about tides."""
    draw = np.random.default_rng(0)
    found = []
    for number in range(count):
        own, other = (WORDS["rice"], WORDS["tide"])[:: 1 if number % 2 == 0 else -1]
        sentences = [
            f"The {' and '.join(draw.choice(own if draw.random() < 0.8 else other, 3))} are here." for _ in range(14)
        ]
        found.append({"id": f"d{number}", "sections": [" ".join(sentences[:6]), " ".join(sentences[6:])]})
    return found


def write_pairs(folder: Path) -> Path:
    """Write all pairs of eight documents; those of the same subject match."""
    pairs = [(a, b) for a in range(8) for b in range(a + 1, 8)]
    lines = [f"d{a}\td{b}\t{int((a - b) % 2 == 0)}\n" for a, b in pairs]
    (folder / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    return folder / "pairs.tsv"


def view_overrides(folder: Path, backbone: Path) -> list[str]:
    """Settings of a quick run on all pairs of eight documents; those of the same subject match."""
    return [
        f"corpus.source={write_rows(folder / 'corpus.jsonl', documents())}", f"corpus.cache={folder / 'cache'}",
        "corpus.preparing_processes=1", f"model.start={backbone}",
        f"pairs.file={write_pairs(folder)}",
        "views.view_tokens=24", "views.receptive_field=12", "views.cluster_size=4", "training.batch_size=7",
        "training.epochs=2", "training.learning_rate=1.0e-3", "training.dataloader_num_workers=0",
        "training.logging_steps=1", "training.keep_activations=0", "model.settings.passage_tokens=40",
        "model.settings.pooling=mean", "views.encoder=cross", "loss.kind=cross_entropy",
    ]  # fmt: skip


def finetune_views(folder: Path, overrides: list[str]) -> Callable[..., int]:
    """Runs the command: ``finetune("name", "views.sampling=hard")``."""

    def run(name: str, *options: str) -> int:
        arguments = ["finetune", "views", "--config", str(CONFIG), "--device", "cpu", *overrides]
        return main([*arguments, f"output={folder / name}", *options])

    return run


def start_of(overrides: list[str], *options: str) -> RunContext[ViewRunSettings]:
    return context_of(load_settings(ViewRunSettings, CONFIG, [*overrides, *options]))


def data_of(overrides: list[str], *options: str) -> ViewRecipe:
    data = ViewRecipe.from_run(start_of(overrides, *options))
    data.load()
    return data


def pool_of(data: ViewRecipe) -> ViewPool:
    pool: ViewPool = data.loader._options["collate_fn"].pool
    return pool
