"""Documents made up for the tests of training corpora."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphdoc.runtime.processes import Processes
from graphdoc.settings.run import CorpusSettings
from graphdoc.training.run import RunContext, load_start

SettingsFactory = Callable[..., CorpusSettings]

WORDS = "the and of to in is it a for by on as or at"


def text_of(passages: int, seed: int) -> str:
    """Sentences for so many passages of 20 words."""
    draw, words = random.Random(seed), WORDS.split()
    return " ".join(" ".join(draw.choices(words, k=10)).capitalize() + "." for _ in range(2 * passages))


def rows_of(count: int) -> list[dict[str, Any]]:
    """Documents of two to six passages in two sections; every tenth has a single passage."""
    rows: list[dict[str, Any]] = []
    for number in range(count):
        sections = [text_of(1 + number % 10 // 2, number)]
        if number % 10:
            sections.append(text_of(1, -number))
        rows.append({"id": f"d{number}", "sections": sections, "label": "x", "note": "ballast"})
    return rows


def labelled_rows(count: int) -> list[dict[str, str]]:
    """Documents of four passages of ten words about rice or tides, with titles and labels."""
    draw, words = np.random.default_rng(0), (["rice", "mould", "steam"], ["tide", "marsh", "flood"])
    return [
        {
            "id": f"d{number}",
            "title": f"Notes {number}",
            "text": " ".join(f"{' '.join(draw.choice(words[number % 2], 10))}." for _ in range(4)),
            "label": f"label {number % 2}",
        }
        for number in range(count)
    ]


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def context_of(settings: Any) -> RunContext[Any]:
    """What a recipe gets: the settings and the model that they start from, on a CPU."""
    device = torch.device("cpu")
    return RunContext(settings, load_start(settings.model, device), Processes(device))
