"""Does training the passage encoder by low-rank updates make a better general-purpose vector than the untrained mean?

The trial of `graph_over_mean.py` with the passage encoder trained too: all-MiniLM-L6-v2 with low-rank updates, without
labels, between halves of wikispeedia train articles, with the mean of the passages and with a graph that starts at it.
Measured zero-shot as there, on fewer documents. A run that is finished is not run again, one that was interrupted goes
on, so that ways and seeds may be shared out over processes with the same working folder.

    python benchmarks/low_rank_over_mean.py [--work FOLDER] [--ways NAME ...] [--seeds 0 1 2]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from reporting import describe_machine, write_result
from studies import spread
from zero_shot import WIKISPEEDIA, ZeroShot, drawn, messages_of

from graphdoc import Document, DocumentEncoder, read_documents
from graphdoc.evaluation.baselines import untrained_mean
from graphdoc.recipes.sub_documents import pretrain
from graphdoc.runtime.files import write_text
from graphdoc.settings.corpus import CorpusSettings
from graphdoc.settings.model import ModelSettings
from graphdoc.settings.sub_documents import ContrastSettings, PretrainingSettings
from graphdoc.settings.training import TrainingSettings

BACKBONE = "sentence-transformers/all-MiniLM-L6-v2"
PASSAGES, BATCH, MESSAGES, ARTICLES = 3, 128, 1_200, 400
Setting = str | int | float | bool | None
WAYS: dict[str, dict[str, Setting]] = {
    "low-rank updates, mean of passages": {"graph_layers": 0, "readout": "mean"},
    "low-rank updates, graph from a start at the mean": {"graph_kind": "full", "graph_layers": 1, "readout": "mean"},
}


def train(way: str, seed: int, work: Path) -> Path:
    """Pretrain, unless that was done; the folder of the run."""
    output = work / way.replace(", ", "_").replace(" ", "_") / str(seed)
    seconds = output / "seconds.txt"
    if not seconds.is_file():
        began = time.perf_counter()
        pretrain(settings_of(way, seed, work, output), resume=(output / "config.yaml").is_file(), show_progress=True)
        write_text(seconds, f"{time.perf_counter() - began:.0f}")
    return output


def settings_of(way: str, seed: int, work: Path, output: Path) -> PretrainingSettings:
    shared: dict[str, Setting] = {"pooling": "mean", "projection_size": None, "normalize_passages": True}
    return PretrainingSettings(
        corpus=CorpusSettings(
            source=str(WIKISPEEDIA / "articles.jsonl.gz"),
            leave_out_splits=["dev", "test"],
            max_passages=PASSAGES,
            cache=str(work / "cache"),
        ),
        model=ModelSettings(
            start=BACKBONE,
            settings={**shared, **WAYS[way]},
            tune="lora",
            begin="mean" if WAYS[way]["graph_layers"] else "random",
            store="updates",
        ),
        loss=ContrastSettings(similarity="cosine", temperature=0.2),
        training=TrainingSettings(
            batch_size=BATCH,
            epochs=1,
            learning_rate=5e-4,
            optimizer="adamw",
            precision="bfloat16",
            keep_activations=20_000,
            loading_processes=0,
            seed=seed,
            save_steps=5,
            log_steps=1,
        ),
        output=str(output),
    )


def measure_of_data() -> ZeroShot[Document]:
    messages = [messages_of(part, MESSAGES) for part in ("train", "test")]
    articles = list(read_documents(WIKISPEEDIA / "articles.jsonl.gz"))
    train_part, test_part = (
        [one for one in articles if one.metadata.get("split") == split] for split in ("train", "test")
    )
    labelled = [[one for one in part if one.label] for part in (train_part, test_part)]
    return ZeroShot((messages[0], messages[1]), (drawn(labelled[0], ARTICLES), labelled[1]), test_part)


def scores_of(encoder: DocumentEncoder, kept: Path, measure: ZeroShot[Document]) -> tuple[float, ...]:
    """NMI of messages, NMI of subjects and AUC of pairs, measured or read again."""
    if not kept.is_file():
        everything = {one.id: one for part in (*measure.newsgroups, *measure.subjects, measure.test) for one in part}
        vectors = encoder.encode(list(everything.values()), dtype="bfloat16", show_progress=True)
        row = {name: number for number, name in enumerate(everything)}
        write_text(kept, json.dumps(measure(lambda part: vectors[[row[one.id] for one in part]])))
    return tuple(json.loads(kept.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/low_rank_over_mean"))
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="ways of training")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    measure = measure_of_data()
    scores: dict[str, list[tuple[float, ...]]] = {}
    seconds: dict[str, list[float]] = {}
    for way in options.ways:
        for seed in options.seeds:
            run = train(way, seed, options.work)
            encoder = DocumentEncoder.from_pretrained(run / "model", max_passages=PASSAGES)
            if not scores:
                mean = untrained_mean(encoder)
                scores["untrained mean"] = [scores_of(mean, options.work / "untrained.json", measure)]
            scores.setdefault(way, []).append(scores_of(encoder, run / "scores.json", measure))
            seconds.setdefault(way, []).append(float((run / "seconds.txt").read_text()))
            print(way, seed, scores[way][-1], flush=True)
    lines = [
        "# Low-rank updates of the passage encoder against the untrained mean",
        "",
        "`python benchmarks/low_rank_over_mean.py`",
        "",
        describe_machine(),
        "",
        f"MiniLM with low-rank updates of rank 8, wikispeedia train articles without labels, first {PASSAGES} "
        f"passages, one epoch in batches of {BATCH}, AdamW 5e-4, cosine at 0.2. Zero-shot, of the same passages: "
        f"NMI of {MESSAGES:,} messages of 20 Newsgroups test (k-means fitted on as many of train), NMI of wikispeedia "
        f"test subjects (fitted on {ARTICLES:,} train articles), AUC of wikispeedia test pairs. Mean ± standard "
        f"deviation over {len(options.seeds)} seeds of training; figures compare with each other alone.",
        "",
        "| | newsgroups NMI | wikispeedia NMI | pair AUC | seconds |",
        "|---|---|---|---|---|",
    ]
    for name, found in scores.items():
        took = f"{np.mean(seconds[name]):,.0f}" if name in seconds else "0"
        cells = [spread(column) for column in zip(*found, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} | {took} |")
    print("\n".join(lines))
    write_result("low_rank_over_mean", "\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
