"""Does contrastive pretraining help to find documents? Tables 3 to 5 of the Graph-RoBERTa paper, small.

The graph stands on a frozen MiniLM. It is trained on judgements by the recipes of the paper from an untrained start,
and from one that was pretrained between a passage and the rest of its article without labels. Indexes and runs are
kept in ``--work``: an interrupted benchmark goes on, and what is trained is not trained again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reporting import DATA, ROOT, describe_machine, write_result
from trained_retrieval import FOLDS, SETS, WORDS, Data, measured, queries_of, word_runs

from graphdoc.evaluation import best_weight, read_run
from graphdoc.evaluation.rankers import fused
from graphdoc.evaluation.trec import Run, leave_out
from graphdoc.recipes.retrieve import train_retrieval
from graphdoc.recipes.sub_documents import pretrain
from graphdoc.settings.finetuning import RetrievalSettings
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import PretrainingSettings


@dataclass(frozen=True)
class Table:
    """A table of the paper on a set at hand.

    Args:
        data: the set.
        config: the recipe in ``configs/finetune``.
        number: of the table in the paper.
        graphs: kinds of graphs that are compared.
        changes: what is set otherwise than in the recipe.
    """

    data: Data
    config: str
    number: int
    graphs: tuple[str, ...] = ("full",)
    changes: tuple[str, ...] = ()


# Judgements of sets without grades of 0 leave no documents to draw from but those that were not judged.
TABLES = {
    "aila2019_statutes": Table(SETS["aila2019_statutes"], "robust04", 3, changes=("negatives.kind=random",)),
    "qmsum": Table(SETS["qmsum"], "msmarco_doc", 4, changes=("validation.documents=null",)),
    "wikir_title": Table(SETS["wikir_title"], "wikir_title", 5, ("full", "section")),
    "wikir_first_sentence": Table(SETS["wikir_first_sentence"], "wikir_first_sentence", 5, ("full", "section")),
}
STARTS = {"untrained": "without contrastive pretraining", "pretrained": "with contrastive pretraining"}
BACKBONE = "sentence-transformers/all-MiniLM-L6-v2"
# What a laptop changes in the recipes: a frozen encoder with a large learning rate for what lies above it.
LAPTOP = (
    "model.tune=frozen", "loss.similarity=cosine", "loss.temperature=0.05",
    "training.learning_rate=1.0e-3", "training.loading_processes=0",
    "corpus.preparing_processes=1",
)  # fmt: skip
SHAPE = (
    f"model.start={BACKBONE}", "model.settings.pooling=mean", "model.settings.projection_size=384",
    "model.settings.normalize_passages=true", "model.settings.graph_layers=2", "model.settings.graph_heads=2",
    "model.settings.readout=document_node",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Pretrain, train, rank, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--work", type=Path, default=Path("runs/pretrained_retrieval"), help="where all of it is kept")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of all runs")
    options = parser.parse_args(arguments)
    start = pretrained(options.work / "pretrained", options.set)
    changes = " ".join(("--set", *options.set)) if options.set else ""
    parts = [
        "# Does contrastive pretraining help to find documents?",
        f"`python benchmarks/pretrained_retrieval.py --sets {' '.join(options.sets)} {changes}`".replace(" `", "`"),
        describe_machine(),
        "The recipes of the paper's tables 3 to 5 on a frozen MiniLM: a layer of 384, two layers of graph attention "
        "and the document node, from an untrained start and from one that `graph_roberta_retrieval.yaml` pretrained "
        f"on the texts of the encyclopedia without labels. Changed for a laptop: `{' '.join(LAPTOP)}`. Words are "
        "joined by a weighted sum, with weights by cross-validation. Differences to the rows of these "
        "names have the middle 95 % of 1,000 paired bootstrap resamples of the queries.",
    ]
    for name in options.sets:
        parts.append(section(name, TABLES[name], options.work, start, options.set))
        print(write_result("pretrained_retrieval", "\n\n".join(parts)), flush=True)


def pretrained(work: Path, changes: Sequence[str]) -> Path:
    """Pretrain the graph without labels, or take the one that was; the folder of the model."""
    if (work / "model" / "config.json").is_file():
        return work / "model"
    articles = SETS["wikir_title"]
    settings = load_settings(
        PretrainingSettings,
        ROOT / "configs" / "pretrain" / "graph_roberta_retrieval.yaml",
        [
            "corpus.dataset=null",
            "corpus.revision=null",
            f"corpus.source={DATA / articles.corpus}",
            f"corpus.max_passages={articles.passages}",
            f"model.settings.max_passages={articles.passages}",
            "validation.share=0.05",
            "training.save_steps=null",
            *LAPTOP,
            *SHAPE,
            f"output={work}",
            *changes,
        ],
    )
    return pretrain(settings, device="cpu", resume=work.exists())


def section(name: str, table: Table, work: Path, start: Path, changes: Sequence[str]) -> str:
    """Rank the queries of a set in all ways; their table as Markdown."""
    data = table.data
    judgements, qrels, own = data.read("test" if data.validation else None)
    runs = {way: leave_out(run, own) for way, run in word_runs(data, work / name / "words", judgements).items()}
    rows = dict(WORDS)
    for graph in table.graphs:
        for begin, its_name in STARTS.items():
            way = f"{begin}-{graph}"
            shape = SHAPE if begin == "untrained" else (f"model.start={start}",)
            settings = [*shape, f"model.settings.graph_kind={graph}", *changes]
            runs[way] = leave_out(test_run(table, work / name / way, settings), own)
            rows[way] = f"{graph} graph {its_name}"
        for words, its_name in WORDS.items():
            joined = f"{way}-{words}"
            runs[joined] = best_weight(runs[words], runs[way], qrels, fused, measure=data.measure, folds=FOLDS).run
            rows[joined] = f"the same and {its_name}"
    against = ("words", "words-documents", *(f"untrained-{graph}" for graph in table.graphs))
    about = (
        f"Table {table.number}, `{table.config}.yaml`; {len(judgements):,} queries; vectors of the first "
        f"{data.passages:,} passages of a document; differences in {data.measure}."
    )
    return "\n\n".join([f"## {name}", about, measured(runs, qrels, data.measure, rows, against)])


def test_run(table: Table, work: Path, changes: Sequence[str]) -> Run:
    """Train, once for every fold; the rankings of all, each query by a model that did not see it."""
    run: dict[str, dict[str, float]] = {}
    for fold in range(1, 2 if table.data.validation else FOLDS + 1):
        folder = work / f"fold-{fold}"
        if not (folder / "test.run").exists():
            settings = load_settings(
                RetrievalSettings,
                ROOT / "configs" / "finetune" / f"{table.config}.yaml",
                [*queries_of(table.data, folder, fold), *LAPTOP, *table.changes, f"output={folder}", *changes],
            )
            train_retrieval(settings, device="cpu", resume=folder.exists())
        run.update(read_run(folder / "test.run"))
    return run


if __name__ == "__main__":
    main()
