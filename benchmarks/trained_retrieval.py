"""Does training on judgements find more? Runs on folds or on given splits beside BM25, and what joins them.

Every query that is measured is ranked by a model that was trained without it. Indexes and runs are kept in ``--work``:
an interrupted benchmark goes on, and what is trained is not trained again. ``--tables`` asks what contrastive
pretraining adds, by the configs of tables 3 to 5 of the Graph-RoBERTa paper.

    python benchmarks/trained_retrieval.py [--tables] [--sets qmsum ...] [--work FOLDER] [--set KEY=VALUE ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reporting import DATA, ROOT, describe_machine, write_result

from graphdoc import DocumentEncoder, read_documents
from graphdoc.commands.output import signed_interval
from graphdoc.evaluation import Judgements, RankingTable, best_weight, read_judgements, read_run
from graphdoc.evaluation.rankers import fused
from graphdoc.evaluation.trec import Qrels, Run, leave_out, source_documents
from graphdoc.retrieval.fusion import fused_scores
from graphdoc.retrieval.index import DocumentIndex, index_words
from graphdoc.settings.finetuning import RetrievalSettings
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import SubDocumentSettings
from graphdoc.trainer import train

DEPTH, FOLDS = 1000, 5


@dataclass(frozen=True)
class Data:
    """A set of queries with judgements.

    Args:
        corpus, queries: file of its documents, and folder of queries and judgements, in the folder of data sets.
        passages: passages of a document that vectors are made of; words are searched in all of them.
        measure: what differences are of.
        only, text_column: which queries, and where their text is.
        source_grade: the grade of documents that queries were made of, which are left out.
        validation: the split of the queries that are measured during training; None for folds.
        track_trained: the first queries, which the organisers of a track gave for training; those after them are also
            measured alone.
    """

    corpus: str
    queries: str
    passages: int
    measure: str = "nDCG@10"
    only: tuple[str, ...] = ()
    text_column: str = "text"
    source_grade: int | None = None
    validation: str | None = "dev"
    track_trained: int = 0

    def read(self, split: str | None) -> tuple[Judgements, Qrels, Mapping[str, frozenset[str]]]:
        """The queries of a split, their judgements, and the documents that they were made of."""
        found = read_judgements(DATA / self.queries, split=split, only=self.only, text_column=self.text_column)
        sources = {} if self.source_grade is None else source_documents(found.qrels, self.source_grade)
        return found, leave_out(found.qrels, sources), sources


SETS = {
    "aila2019_statutes": Data("aila2019_statutes/corpus.jsonl.gz", "aila2019_statutes", 100, "MAP", validation=None),
    "aila2019_casedocs": Data(
        "aila2019_casedocs/corpus.jsonl.gz", "aila2019_casedocs", 12, "MAP", validation=None, track_trained=10
    ),
    "qmsum": Data("qmsum/corpus.jsonl.gz", "qmsum", 300, only=("kind=specific",), validation="val"),
    "wikir_title": Data("wikispeedia/articles.jsonl.gz", "wikispeedia/wikir", 8, text_column="title", source_grade=2),
    "wikir_first_sentence": Data(
        "wikispeedia/articles.jsonl.gz", "wikispeedia/wikir", 8, text_column="first_sentence", source_grade=2
    ),
}
MEASURES = ("nDCG@10", "MAP", "P@5", "recall@100")
WORDS = {"words": "BM25 of passages", "bm25": "BM25 of whole documents", "words-both": "BM25 of both added up"}
LEVELS = {"document": "vectors of documents", "passage": "the three best passages"}
# The config of the paper's table for every set, its graphs, and what a laptop changes in it.
TABLES = {
    **dict.fromkeys(("aila2019_statutes", "aila2019_casedocs"), ("robust04", ("full",))),
    "qmsum": ("msmarco_doc", ("full",)),
    **{name: (name, ("full", "section")) for name in ("wikir_title", "wikir_first_sentence")},
}
LAPTOP = [
    *("model.tune=frozen", "loss.similarity=cosine", "loss.temperature=0.05", "training.learning_rate=1e-3"),
    *("training.dataloader_num_workers=0", "corpus.preparing_processes=1"),
]
SHAPE = [
    *("model.start=sentence-transformers/all-MiniLM-L6-v2", "model.settings.pooling=mean"),
    *("model.settings.projection_size=384", "model.settings.normalize_passages=true", "model.settings.graph_layers=2"),
    *("model.settings.graph_heads=2", "model.settings.readout=document_node"),
]
QUESTIONS = {
    "trained_retrieval": "training on judgements find more? `own_queries.yaml` with given queries and a frozen MiniLM. "
    "*Untrained* is the same model after a step that moves nothing.",
    "pretrained_retrieval": "contrastive pretraining help to find documents? Configs of the paper's tables on a frozen "
    "MiniLM, from an untrained start and from one that `graph_roberta_retrieval.yaml` pretrained on the articles. "
    f"Changed: `{' '.join(LAPTOP + SHAPE)}`.",
}
# What a row is called, and the config and the settings that it is trained by.
Way = tuple[str, str, Sequence[str]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Index, train, rank, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS), help="what the loss compares")
    parser.add_argument("--tables", action="store_true", help="with and without contrastive pretraining instead")
    parser.add_argument("--work", type=Path, default=Path("runs/trained_retrieval"), help="where all of it is kept")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the training")
    options = parser.parse_args(arguments)
    result = "pretrained_retrieval" if options.tables else "trained_retrieval"
    question, _, about = QUESTIONS[result].partition("? ")
    words = [*["--tables"] * options.tables, "--sets", *options.sets, *(["--set"] if options.set else []), *options.set]
    parts = [
        f"# Does {question}?\n\n`python benchmarks/trained_retrieval.py {' '.join(words)}`\n\n{describe_machine()}",
        f"{about} Each query is ranked by a model that was trained without it: by splits where the set has them, "
        f"otherwise by {FOLDS} folds. BM25 of passages is the sum of the best three. Differences to the rows of these "
        "names have the middle 95 % of 1,000 paired bootstrap resamples of the queries.",
    ]
    for name in options.sets:
        parts.append(section(name, options.work / name, ways_of(name, options)))
        print(write_result(result, "\n\n".join(parts)), flush=True)


def ways_of(name: str, options: argparse.Namespace) -> dict[str, Way]:
    """What is trained on a set; the others are compared with those that begin with ``untrained``."""
    found: dict[str, Way] = {}
    if options.tables:
        config, graphs = TABLES[name]
        start = [f"model.start={pretrained(options.work / 'pretrained', options.set)}"]
        common = [*LAPTOP, "validation.documents=null", *options.set]
        for graph in graphs:
            for begin, how, shape in (("untrained", "without", SHAPE), ("pretrained", "with", start)):
                settings = [*common, *shape, f"model.settings.graph_kind={graph}"]
                found[f"{begin}-{graph}"] = f"{graph} graph {how} contrastive pretraining", config, settings
        return found
    for level in options.levels:
        settings = ["queries.made_from=[]", f"loss.level={level}", *options.set]
        nothing = [*settings, "training.max_steps=1", "training.learning_rate=1.0e-12"]
        found[f"untrained-{level}"] = f"untrained, {LEVELS[level]}", "own_queries", nothing
        found[level] = f"trained, {LEVELS[level]}", "own_queries", settings
    return found


def pretrained(work: Path, changes: Sequence[str]) -> Path:
    """The model that learned to find articles by one of their passages, without labels; trained unless it is there."""
    data, config = SETS["wikir_title"], ROOT / "configs" / "pretrain" / "graph_roberta_retrieval.yaml"
    corpus = ["corpus.dataset=null", "corpus.revision=null", "validation.share=0.05", "training.save_steps=null"]
    corpus += [f"{part}.max_passages={data.passages}" for part in ("corpus", "model.settings")]
    places = [f"corpus.source={DATA / data.corpus}", f"output={work}"]
    settings = load_settings(SubDocumentSettings, config, [*places, *corpus, *LAPTOP, *SHAPE, *changes])
    return work / "model" if (work / "model").is_dir() else train(settings, device="cpu", resume=work.exists())


def section(name: str, work: Path, ways: Mapping[str, Way]) -> str:
    """Rank the queries of a set in all ways; their table as Markdown."""
    data = SETS[name]
    judgements, qrels, sources = data.read("test" if data.validation else None)
    runs = {way: leave_out(run, sources) for way, run in word_runs(data, work / "words", judgements).items()}
    rows, weights = dict(WORDS), {}
    untrained = [one for one in ways if one.startswith("untrained")]
    for one, (title, config, settings) in ways.items():
        runs[one], rows[one] = test_run(data, work / one, config, settings), title
        for words, its_name in WORDS.items() if one not in untrained else ():
            way, trained = f"{one}-{words}", runs[one]
            rows[f"{way}-rank"] = f"the same and {its_name}, reciprocal rank"
            runs[f"{way}-rank"] = {
                query: fused_scores({"words": own, "vectors": trained.get(query, {})}, "reciprocal_rank")
                for query, own in runs[words].items()
            }
            weight = best_weight(runs[words], trained, qrels, fused, measure=data.measure, folds=FOLDS)
            rows[f"{way}-sum"] = rows[f"{way}-rank"].replace("reciprocal rank", "weighted sum")
            runs[f"{way}-sum"], weights[rows[f"{way}-sum"]] = weight.run, weight.fold_weights
    against = (*WORDS, *untrained)
    about = (
        f"{len(judgements):,} queries; vectors of the first {data.passages:,} passages of a document; differences "
        f"in {data.measure}. Weights of words in weighted sums by fold, chosen on the other folds: "
        + "; ".join(f"{way}: {', '.join(f'{one:g}' for one in found)}" for way, found in weights.items())
    )
    parts = [f"## {name}", about + ".", measured(runs, qrels, data.measure, rows, against)]
    if data.track_trained:
        later = {query: qrels[query] for query in list(judgements.queries)[data.track_trained :] if query in qrels}
        parts += [
            f"The {len(later):,} queries that the track tested, alone:",
            measured(runs, later, data.measure, rows, against),
        ]
    return "\n\n".join(parts)


def measured(
    runs: Mapping[str, Run], qrels: Qrels, measure: str, rows: Mapping[str, str], against: Sequence[str]
) -> str:
    """The table of some queries as Markdown, with differences to some rows."""
    own = {way: {query: run.get(query, {}) for query in qrels} for way, run in runs.items()}
    tables = {one: RankingTable.from_runs(own, qrels, MEASURES, against=one) for one in against}
    lines = [
        f"| ranked by | {' | '.join(MEASURES)} | {' | '.join(f'against {rows[one]}' for one in against)} |",
        f"|---|{'---|' * (len(MEASURES) + len(tables))}",
    ]
    for way, scores in tables[against[0]].scores.items():
        means = " | ".join(f"{mean:.3f}" for mean in scores.means.values())
        differences = (table.difference(way, measure) for table in tables.values())
        shown = " | ".join("" if one is None else signed_interval(one) for one in differences)
        lines.append(f"| {rows[way]} | {means} | {shown} |")
    return "\n".join(lines)


def word_runs(data: Data, place: Path, judgements: Judgements) -> dict[str, Run]:
    """All queries ranked by BM25: of passages, the best three added up, of whole documents, and of both."""
    if DocumentIndex.exists(place):
        index = DocumentIndex.open(place)
    else:
        segmenter = DocumentEncoder.from_pretrained("mini", max_passages=None).segmenter
        found = segmenter.segment_many(read_documents(DATA / data.corpus))
        index = index_words(found, "en", str(place))
    return {
        way: {
            query: index.scores(text, by="words", words_level=level, depth=5 * DEPTH)["words"]  # type: ignore[arg-type]
            for query, text in judgements.queries.items()
        }
        for way, level in (("words", "passage"), ("bm25", "document"), ("words-both", "both"))
    }


def test_run(data: Data, work: Path, config: str, changes: Sequence[str]) -> Run:
    """Train, once for every fold; the rankings of all, each query by the model that did not see it."""
    run: dict[str, dict[str, float]] = {}
    for fold in range(1, 2 if data.validation else FOLDS + 1):
        folder = work / f"fold-{fold}"
        if not (folder / "test.run").exists():
            given = [*queries_of(data, folder, fold), f"output={folder}", *changes]
            settings = load_settings(RetrievalSettings, ROOT / "configs" / "finetune" / f"{config}.yaml", given)
            train(settings, device="cpu", resume=folder.exists())
        run.update(read_run(folder / "test.run"))
    return run


def queries_of(data: Data, folder: Path, fold: int) -> list[str]:
    """The settings of the documents, queries and folds of a run."""
    source_grade = [] if data.source_grade is None else [f"queries.source_grade={data.source_grade}"]
    if data.validation:
        # The test queries are the first fold, and no other is tested.
        given = folder.parent / "folds.tsv"
        given.parent.mkdir(parents=True, exist_ok=True)
        tested = data.read("test")[0].queries
        names = data.read(None)[0].queries
        given.write_text("".join(f"{query}\t{1 if query in tested else 2}\n" for query in names), encoding="utf-8")
        divided = ["folds.number=2", f"folds.fold={fold}", f"folds.file={given}", f"validation.split={data.validation}"]
    else:
        divided = [f"folds.number={FOLDS}", f"folds.fold={fold}", "folds.file=null"]
    return [
        f"corpus.source={DATA / data.corpus}",
        f"corpus.max_passages={data.passages}",
        f"model.settings.max_passages={data.passages}",
        f"queries.source={DATA / data.queries}",
        "queries.split=null",
        f"queries.only=[{', '.join(data.only)}]",
        f"queries.text_column={data.text_column}",
        *source_grade,
        *divided,
        f"validation.best={'map' if data.measure == 'MAP' else 'ndcg@10'}",
    ]


if __name__ == "__main__":
    main()
