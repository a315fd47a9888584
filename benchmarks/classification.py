"""Classification of whole documents: a frozen MiniLM with and without graph, with and without contrastive pretraining.

20 Newsgroups (headers kept, a tenth of train for validation), subjects of Wikipedia articles, hyperpartisan news
(clean split), 2,000 reviews each of IMDB. Every row is a config of this package, trained with several seeds and
measured on test, with TF-IDF and a linear SVM beside it. Passages are encoded once. Where a row starts from
contrastive pretraining, that was done on train texts without labels. The course of validation accuracy tells how many
steps either needs to reach the other's best (Graph-RoBERTa, figure 5).

Runs lie in the working folder; those that are finished are not run again. `--trained DATA NAME FOLDER` adds a row of a
model that was trained elsewhere, such as one whose passage encoder was trained too.

    python benchmarks/classification.py [--work FOLDER] [--data-sets newsgroups20 imdb ...]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from frozen_passages import passages_of
from own_corpus import drawn
from reporting import DATA, RESULTS, ROOT, describe_machine, write_result
from studies import spread

from graphdoc import Document, DocumentEncoder, read_documents
from graphdoc.analysis.figures.canvas import finish, new_figure
from graphdoc.evaluation import ClassificationEvaluator, LabelledDocuments
from graphdoc.evaluation.baselines import TFIDF_SVM as LEXICAL
from graphdoc.evaluation.baselines import lexical_predictions, untrained_mean
from graphdoc.evaluation.classification import classification_scores
from graphdoc.losses import ClassificationLoss
from graphdoc.runtime.files import write_text
from graphdoc.settings.finetuning import ClassificationSettings
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import SubDocumentSettings
from graphdoc.trainer import train

PASSAGES = 24
GRAPH, PRETRAINED = "graph", "graph, pretrained by contrast"
ARCHITECTURE = [
    "model.settings.projection_size=512", "model.settings.normalize_passages=false",
    "model.settings.graph_kind=section", "model.settings.graph_layers=1", "model.settings.graph_heads=2",
    "model.settings.readout=document_node",
]  # fmt: skip
HEAD = ["training.learning_rate=1e-3", "labels.dropout=0.3"]
ROWS: dict[str, list[str]] = {
    "mean of passages": [
        "model.settings.graph_layers=0", "model.settings.readout=mean", "model.settings.projection_size=null",
        "model.settings.normalize_passages=true", "model.settings.graph_kind=section", "model.settings.graph_heads=2",
        "training.learning_rate=2e-2",
    ],
    "attention readout": [
        "model.settings.graph_layers=0", "model.settings.readout=attention", "model.settings.projection_size=512",
        "model.settings.normalize_passages=false", "model.settings.graph_kind=section", "model.settings.graph_heads=2",
        "training.learning_rate=2e-3",
    ],
    GRAPH: [*ARCHITECTURE, *HEAD],
    PRETRAINED: ["model.settings={}", *HEAD],
}  # fmt: skip
METRICS = ("accuracy", "macro_f1", "calibration_error")


@dataclass(frozen=True)
class DataSet:
    """A data set: its files, the epochs of a run, and the goal for accuracy on test."""

    train: str
    test: str
    epochs: int
    seeds: int
    goal: float
    pretraining_epochs: int = 10
    documents: int | None = None
    """most of either part, drawn from all"""


DATA_SETS = {
    "newsgroups20": DataSet("train.jsonl.gz", "test.jsonl.gz", 4, 2, 0.867),
    "wikispeedia": DataSet("articles.jsonl.gz", "articles.jsonl.gz", 8, 3, 0.91),
    "hyperpartisan": DataSet("articles.jsonl.gz", "articles.jsonl.gz", 20, 5, 0.692, 30),
    "imdb": DataSet("train.jsonl.gz", "test.jsonl.gz", 4, 2, 0.86, documents=2_000),
}


class Bench:
    """One data set on this machine."""

    def __init__(self, name: str, work: Path, data: Path) -> None:
        self.name, self.work, self.folder, self.kind = name, work / name, data / name, DATA_SETS[name]
        if self.kind.documents is not None:
            for file in (self.kind.train, self.kind.test):
                drawn(self.folder / file, self.kind.documents, self.work)
            self.folder = self.work
        one_file = self.kind.train == self.kind.test
        self.train, self.test = (
            [one for one in self._read(file) if not one_file or one.metadata.get("split") == split]
            for file, split in ((self.kind.train, "train"), (self.kind.test, "test"))
        )
        self._ready: ClassificationEvaluator | None = None

    def _read(self, file: str) -> list[Document]:
        return [one for one in read_documents(self.folder / file, on_error="skip") if one.label is not None]

    def pretrained(self) -> Path:
        """The model that was pretrained on the train texts."""
        settings = load_settings(
            SubDocumentSettings,
            ROOT / "configs" / "pretrain" / "own_corpus.yaml",
            [
                f"corpus.source={self.folder / self.kind.train}",
                f"corpus.max_passages={PASSAGES}",
                "corpus.leave_out_splits=[dev, test]",
                *ARCHITECTURE,
                f"training.epochs={self.kind.pretraining_epochs}",
                "training.dataloader_num_workers=0",
                f"output={self.work / 'pretrained'}",
            ],
        )
        if not (settings.folder / "results.json").is_file() or not (settings.folder / "model").is_dir():
            train(settings, resume=(settings.folder / "config.yaml").is_file(), show_progress_bar=False)
        return settings.folder / "model"

    def settings(self, row: str, seed: int) -> ClassificationSettings:
        """The settings of one run."""
        start = [f"model.start={self.pretrained()}"] if row == PRETRAINED else []
        changes = [
            f"corpus.source={self.folder / self.kind.train}",
            f"corpus.max_passages={PASSAGES}",
            *start,
            *ROWS[row],
            f"training.epochs={self.kind.epochs}",
            "training.save_steps=50",
            "training.dataloader_num_workers=0",
            f"training.seed={seed}",
            f"output={self.work / row.replace(' ', '_') / str(seed)}",
        ]
        return load_settings(ClassificationSettings, ROOT / "configs" / "finetune" / "own_labels.yaml", changes)

    def run(self, row: str, seed: int) -> dict[str, float]:
        """Train and measure, unless that was done."""
        settings = self.settings(row, seed)
        path = settings.folder / "scores.json"
        if not path.is_file():
            if not (settings.folder / "results.json").is_file() or not (settings.folder / "model").is_dir():
                resume = (settings.folder / "config.yaml").is_file()
                loss = ClassificationLoss(label_smoothing=0.1 if row in (GRAPH, PRETRAINED) else 0.0)
                train(settings, resume=resume, show_progress_bar=False, loss=loss)
            write_text(path, json.dumps(self.measured(settings.folder / "model")))
        return dict(json.loads(path.read_text()))

    def measured(self, folder: Path) -> dict[str, float]:
        """The scores of a model above the frozen backbone on test; passages are encoded once."""
        encoder = DocumentEncoder.from_pretrained(folder, max_passages=PASSAGES)
        if self._ready is None:
            documents = passages_of(self.work / "passages.npz", untrained_mean(encoder), self.test)
            self._ready = ClassificationEvaluator(documents)
        return metrics_of(self._ready(encoder))

    def measured_elsewhere(self, folder: Path) -> dict[str, float]:
        """The scores of any model on test; kept beside it."""
        path = folder / f"{self.name}_scores.json"
        if not path.is_file():
            evaluation = ClassificationEvaluator(self.test, dtype="bfloat16")
            write_text(path, json.dumps(metrics_of(evaluation(DocumentEncoder.from_pretrained(folder)))))
        return dict(json.loads(path.read_text()))

    def lexical(self) -> dict[str, float]:
        """The row of word counts."""
        train, test = LabelledDocuments.from_documents(self.train), LabelledDocuments.from_documents(self.test)
        given = lexical_predictions(train, test.documents)
        return metrics_of(classification_scores(test.labels, given, train.classes).metrics())

    def course(self, row: str) -> list[list[tuple[int, float]]]:
        """Validation accuracy over the steps of every seed."""
        found = []
        for seed in range(self.kind.seeds):
            log = (self.settings(row, seed).folder / "log.jsonl").read_text().splitlines()
            entries = [json.loads(line) for line in log]
            found.append([(one["step"], one["eval_accuracy"]) for one in entries if "eval_accuracy" in one])
        return found


def metrics_of(values: Mapping[str, float]) -> dict[str, float]:
    """Those of the metrics that are in the table."""
    return {name: float(value) for name, value in values.items() if name in METRICS}


def steps_to(course: list[tuple[int, float]], accuracy: float) -> int | None:
    """The first step with an accuracy; None if it is not reached."""
    return next((step for step, value in course if value >= accuracy), None)


def reached(bench: Bench) -> str:
    """How many steps pretrained and other graphs need to reach the other's best, in a sentence."""
    courses = {row: bench.course(row) for row in (GRAPH, PRETRAINED)}
    best = {row: [max(value for _, value in one) for one in found] for row, found in courses.items()}
    findings = []
    for row, other in ((PRETRAINED, GRAPH), (GRAPH, PRETRAINED)):
        steps = [steps_to(one, goal) for one, goal in zip(courses[row], best[other], strict=True)]
        own = [steps_to(one, goal) for one, goal in zip(courses[other], best[other], strict=True)]
        shown = ", ".join("never" if step is None else f"{step:,}" for step in steps)
        findings.append(f"{row} reaches the best validation accuracy of {other} after {shown} steps (that itself: "
                    f"{', '.join(f'{step:,}' for step in own if step is not None)})")  # fmt: skip
    return f"{bench.name}, seed by seed: {'; '.join(findings)}."


def plot(benches: list[Bench], path: Path) -> None:
    """Draw validation accuracy over the steps, with and without pretraining."""
    figure = new_figure(4.6 * len(benches), 3.8)
    for bench, axes in zip(benches, figure.subplots(1, len(benches), squeeze=False)[0], strict=True):
        for row, color in ((GRAPH, "#c4622d"), (PRETRAINED, "#1f4e8c")):
            for seed, course in enumerate(bench.course(row)):
                axes.plot(*zip(*course, strict=True), color=color, alpha=0.8, label=None if seed else row)
        axes.set_title(bench.name)
        axes.set_xlabel("step")
        axes.set_ylabel("validation accuracy")
        axes.grid(alpha=0.3)
        axes.legend()
    finish(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/classification"))
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--data-sets", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS))
    parser.add_argument(
        "--trained", nargs=3, action="append", default=[], metavar=("DATA", "NAME", "FOLDER"),
        help="also measure a model that was trained elsewhere; several of one name are seeds",
    )  # fmt: skip
    options = parser.parse_args()
    benches = [Bench(name, options.work, options.data) for name in options.data_sets]
    all_sets = options.data_sets == list(DATA_SETS)
    chosen = "" if all_sets else f" --data-sets {' '.join(options.data_sets)}"
    lines = [
        f"# Classification of whole documents\n\n`python benchmarks/classification.py{chosen}`\n",
        f"{describe_machine()}\n",
        f"Frozen all-MiniLM-L6-v2, first {PASSAGES} passages of 100 words; headers of messages are kept. Batches of "
        "32, best checkpoint by validation accuracy (a tenth of train, or the dev part). Mean ± standard deviation "
        "over seeds.",
    ]
    for bench in benches:
        table: dict[str, list[dict[str, float]]] = {LEXICAL: [bench.lexical()]}
        for row in ROWS:
            for seed in range(bench.kind.seeds):
                table.setdefault(row, []).append(bench.run(row, seed))
                print(bench.name, row, seed, table[row][-1], flush=True)
        for data, name, folder in options.trained:
            if data == bench.name:
                table.setdefault(name, []).append(bench.measured_elsewhere(Path(folder)))
        lines += [
            f"\n## {bench.name}\n\n{len(bench.train):,} documents to train on, {len(bench.test):,} test documents, "
            f"{bench.kind.seeds} seeds, {bench.kind.epochs} epochs; goal: accuracy {bench.kind.goal:.3f}.\n",
            "| | accuracy | macro F1 | calibration error |\n|---|---|---|---|",
        ]
        for row, scores in table.items():
            cells = [spread([one[name] for one in scores]) if name in scores[0] else "" for name in METRICS]
            lines.append(f"| {row} | {' | '.join(cells)} |")
        lines += ["", reached(bench)]
    name = "classification" if all_sets else f"classification_{'_'.join(options.data_sets)}"
    plot(benches, RESULTS / f"{name}.png")
    lines += ["", f"![Validation accuracy over the steps]({name}.png)", ""]
    print("\n".join(lines))
    write_result(name, "\n".join(lines))


if __name__ == "__main__":
    main()
