"""A small corpus in BEIR's layout whose queries share words with the documents that answer them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

TOPICS = ("rice mould steam grain koji", "tide marsh flood silt wall", "clock log order entry vote",
          "letter code byte page table", "moss fern bark root spore", "kiln clay glaze ash fire")  # fmt: skip
DOCUMENTS, QUERIES = 30, 36


def documents(count: int = DOCUMENTS) -> list[dict[str, Any]]:
    """Documents in two sections; those with a number equal modulo six have the same words."""
    draw = np.random.default_rng(0)
    made = []
    for number in range(count):
        words = TOPICS[number % len(TOPICS)].split()
        sections = [
            {"heading": heading, "text": " ".join(f"{' '.join(draw.permutation(words))}." for _ in range(int(length)))}
            for heading, length in zip(("Notes", f"On {words[0]} {number}"), draw.integers(2, 5, size=2), strict=True)
        ]
        made.append({"id": f"d{number}", "title": f"{words[0]} {words[1]} {number}", "sections": sections})
    return made


def write_beir(folder: Path, *, negatives: int = 4) -> Path:
    """Write documents, queries of two splits, and judgements of grade 0 to 2."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(1)
    write_lines(folder / "corpus.jsonl", documents())
    queries, qrels = [], []
    for number in range(QUERIES):
        topic = number % len(TOPICS)
        text = " ".join(draw.choice(TOPICS[topic].split(), 3, replace=False))
        queries.append({"_id": f"q{number}", "text": text, "split": "dev" if number >= 30 else "train"})
        own, linked = topic + 6 * (number % 5), topic + 6 * ((number + 1) % 5)
        qrels += [(f"q{number}", 0, f"d{own}", 2), (f"q{number}", 0, f"d{linked}", 1)]
        others = [row for row in range(DOCUMENTS) if row % len(TOPICS) != topic]
        qrels += [(f"q{number}", 0, f"d{row}", 0) for row in sorted(draw.choice(others, negatives, replace=False))]
    write_lines(folder / "queries.jsonl", queries)
    (folder / "qrels.tsv").write_text("".join("\t".join(map(str, line)) + "\n" for line in qrels), encoding="utf-8")
    return folder


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
