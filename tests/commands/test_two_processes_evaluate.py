"""Evaluations under a launcher: two processes print and write what one does, and none waits for one that stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from two_processes import run_commands
from typed import Backbones

WORDS = {"rice": "rice steam koji mould grain", "<b>sea</b>": "tide wave marsh wall flood"}
TASKS = {"cluster": ["--probe", "--seeds", "2"], "compare": ["--pairs", "pairs.tsv"], "classify": []}
# Coverage is that of all documents, not of a share.
COVERED = {"cluster": 13, "compare": 6, "classify": 5}


def corpus() -> list[dict[str, Any]]:
    return [
        {
            "id": f"d{number}",
            "text": f"{WORDS[label]} {number} " * (4 + number) + ".",
            "label": label,
            "split": "test" if number % 3 == 0 else "train",
        }
        for number in range(13)
        for label in [list(WORDS)[number % 2]]
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def without_noise(value: Any) -> Any:
    """Numbers with four decimals: batches are others in two processes."""
    if isinstance(value, dict):
        return {key: without_noise(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_noise(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


@pytest.mark.distributed
def test_two_processes_are_one(
    graphdoc: Callable[..., Any], classifiers: Callable[..., str], backbone_folder: Backbones, tmp_path: Path
) -> None:
    model, backbone = classifiers(max_passages=3), ["--baseline", str(backbone_folder("bert"))]
    write(tmp_path / "corpus.jsonl", corpus())
    (tmp_path / "pairs.tsv").write_text("d0\td2\t1\nd0\td1\t0\nd3\td5\t1\nd4\td5\t0\n", encoding="utf-8")
    commands = [
        ["evaluate", task, "corpus.jsonl", "--model", model, *options, *(backbone if options else ())]
        for task, options in TASKS.items()
    ]
    both = [[*command, "--json", f"two-{task}.json"] for task, command in zip(TASKS, commands, strict=True)]
    first, second = run_commands(both, tmp_path)
    for number, (task, command) in enumerate(zip(TASKS, commands, strict=True)):
        status, out, _ = graphdoc(*command, "--json", f"one-{task}.json")
        assert status == first[number]["status"] == second[number]["status"] == 0, (first[number], second[number])
        assert second[number]["out"] == ""
        assert first[number]["out"].replace("two-", "one-") == out
        one, two = (json.loads((tmp_path / f"{part}-{task}.json").read_text()) for part in ("one", "two"))
        assert without_noise(two) == without_noise(one)
        assert (one["rows"][-1] if task != "classify" else one)["coverage"]["documents"] == COVERED[task]


@pytest.mark.slow
@pytest.mark.distributed
def test_a_document_without_text_ends_both(classifiers: Callable[..., str], tmp_path: Path) -> None:
    write(tmp_path / "broken.jsonl", [{**row, "text": "\u200b"} if row["id"] == "d3" else row for row in corpus()])
    command = ["evaluate", "classify", "broken.jsonl", "--model", classifiers(max_passages=3)]
    (first,), (second,) = run_commands([command], tmp_path)
    assert first["status"] == second["status"] == 2
    told = first["err"] + second["err"]
    assert "'d3'" in told and "Traceback" not in told
