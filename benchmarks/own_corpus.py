"""What does pretraining on one's own documents give, on a laptop? 20 Newsgroups train without labels, k-means on test.

`configs/pretrain/own_corpus.yaml` as it is, and the same with the mean of passages in place of the graph; beside them
the untrained backbone: the mean of its passages, the first token or the mean of the first chunk that it can read, and
the mean of all chunks. K-means is fitted on train and applied to test, as in table 1 of the Graph-RoBERTa paper.
Headers of messages are kept. Passages of both parts are encoded once and kept in the working folder; the seconds are
those of training once passages are encoded.

    python benchmarks/own_corpus.py [--work FOLDER] [--seeds 3] [--documents 2000] [--start BACKBONE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path

import numpy as np
from frozen_passages import passages_of
from paper_baselines import chunk_vectors
from reporting import DATA, ROOT, describe_machine, write_result
from sklearn.preprocessing import normalize
from studies import spread

from graphdoc import DocumentEncoder, read_documents, trainer
from graphdoc.evaluation import ClusteringEvaluator
from graphdoc.evaluation.baselines import untrained_mean
from graphdoc.evaluation.labels import plain_document
from graphdoc.runtime.files import write_text
from graphdoc.settings.document import Pooling
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import SubDocumentSettings

GRAPH = "trained, graph"
ROWS = {GRAPH: [], "trained, mean of passages": ["model.settings.graph_layers=0", "model.settings.readout=mean"]}
METRICS = ("nmi", "purity", "probe_accuracy")
# Pooling of the tokens of a chunk, and chunks of a document; None for all.
CHUNKS: dict[str, tuple[Pooling, int | None]] = {
    "untrained, [CLS] of the first chunk": ("cls", 1),
    "untrained, first chunk": ("mean", 1),
    "untrained, all chunks": ("mean", None),
}


def drawn(source: Path, most: int, folder: Path) -> Path:
    """A file of documents drawn from all of another, under its name."""
    with gzip.open(source, "rt", encoding="utf-8") as stream:
        lines = list(stream)
    rows = np.random.default_rng(0).permutation(len(lines))[:most]
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / source.name, "wt", encoding="utf-8") as stream:
        stream.writelines(lines[row] for row in sorted(rows.tolist()))
    return folder / source.name


def train(row: str, seed: int, work: Path, source: Path, options: argparse.Namespace) -> Path:
    """Pretrain, unless that was done; the folder of the run."""
    settings = load_settings(
        SubDocumentSettings,
        ROOT / "configs" / "pretrain" / "own_corpus.yaml",
        [
            f"corpus.source={source}",
            f"corpus.max_passages={options.passages}",
            f"model.start={options.start}",
            *ROWS[row],
            f"training.seed={seed}",
            f"output={work / row.replace(', ', '_').replace(' ', '_') / str(seed)}",
        ],
    )
    seconds = settings.folder / "seconds.txt"
    if not seconds.is_file():
        began = time.perf_counter()
        trainer.train(settings, resume=(settings.folder / "config.yaml").is_file(), show_progress_bar=True)
        write_text(seconds, f"{time.perf_counter() - began:.0f}")
    return settings.folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/own_corpus_benchmark"))
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--passages", type=int, default=24, help="most passages of a message")
    parser.add_argument("--documents", type=int, help="most messages of train and of test, drawn from all")
    parser.add_argument("--start", default="sentence-transformers/all-MiniLM-L6-v2", help="the passage encoder")
    options = parser.parse_args()
    parts = {part: options.data / "newsgroups20" / f"{part}.jsonl.gz" for part in ("train", "test")}
    size = ""
    if options.documents:
        size = f"_{options.documents}"
        options.work = options.work / str(options.documents)
        parts = {part: drawn(path, options.documents, options.work) for part, path in parts.items()}
    scores: dict[str, list[dict[str, float]]] = {}
    seconds: dict[str, list[float]] = {}
    evaluation: ClusteringEvaluator | None = None

    def measure(name: str, found: dict[str, float]) -> None:
        scores.setdefault(name, []).append({metric: found[metric] for metric in METRICS})
        print(name, json.dumps(scores[name][-1]), flush=True)

    for row in ROWS:
        for seed in range(options.seeds):
            run = train(row, seed, options.work, parts["train"], options)
            seconds.setdefault(row, []).append(float((run / "seconds.txt").read_text()))
            encoder = DocumentEncoder.from_pretrained(run / "model", max_passages=options.passages)
            if evaluation is None:
                mean = untrained_mean(encoder)
                train_part, test_part = (
                    passages_of(options.work / f"newsgroups_{part}.npz", mean, read_documents(path))
                    for part, path in parts.items()
                )
                evaluation = ClusteringEvaluator(train_part, test_part, seeds=range(3), probe=True)
                texts = [plain_document(one) for one in evaluation.documents]
                for name, (pooling, most) in CHUNKS.items():
                    vectors = normalize(chunk_vectors(mean, texts, pooling, most, dtype="bfloat16"))
                    ends = len(evaluation.train_labels)
                    measure(name, evaluation.score(vectors[:ends], vectors[ends:]).metrics())
                measure("untrained, mean of passages", evaluation(mean))
            measure(row, evaluation(encoder))
    lines = [
        "# Pretraining on one's own documents\n",
        f"`python benchmarks/own_corpus.py --seeds {options.seeds} --passages {options.passages}"
        f"{f' --documents {options.documents}' if options.documents else ''} --start {options.start}`\n",
        f"{describe_machine()}\n",
        f"20 Newsgroups train ({len(train_part):,} messages with headers) without labels, frozen "
        f"{Path(options.start).name}, {len(test_part):,} messages of test, "
        f"`configs/pretrain/own_corpus.yaml`, up to {options.passages} passages. K-means fitted on train and applied "
        "to test (three seeds of ten starts), linear probe; mean ± standard deviation over seeds of training.\n\n"
        "| | NMI | purity | linear probe | seconds |\n|---|---|---|---|---|",
    ]
    for name, found in scores.items():
        cells = [spread([one[metric] for one in found]) for metric in METRICS]
        # The shortest time is that of the runs that found everything prepared.
        took = f"{min(seconds[name]):,.0f}" if name in seconds else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {took} |")
    lines.append(
        "\nThe paper, whole RoBERTa on OpenWebText: 0.516 and 0.475; RoBERTa, [CLS]: 0.116 and 0.160. Seconds of "
        "training once passages are encoded.\n"
    )
    print("\n".join(lines))
    write_result(f"own_corpus{size}", "\n".join(lines))


if __name__ == "__main__":
    main()
