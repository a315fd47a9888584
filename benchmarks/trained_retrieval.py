"""Does training on judgements find more? Five-fold runs beside BM25, untrained vectors, and what joins them.

Every query is ranked by a model that was trained without it (``folds``). Indexes and runs are kept in ``--work``: an
interrupted benchmark goes on, and trained folds are not trained again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from reporting import DATA, ROOT, describe_machine, write_result

from graphdoc import DocumentEncoder, DocumentIndex, read_documents
from graphdoc.evaluation import RankingTable, best_weight, read_judgements, read_run
from graphdoc.evaluation.trec import Run
from graphdoc.recipes.retrieve import train_retrieval
from graphdoc.retrieval.fusion import fuse
from graphdoc.retrieval.rankings import EXPLAINED, rank_queries
from graphdoc.settings.loading import load_settings
from graphdoc.settings.retrieve import RetrievalSettings

SETS = ("aila2019_statutes", "aila2019_casedocs")
MEASURES = ("nDCG@10", "MAP", "P@5", "recall@100")
MEASURE, FOLDS = "MAP", 5
UNTRAINED = ("words", "words-documents", "vectors-documents", "hybrid", "hybrid-weighted")
TRAINED = {
    "trained": "trained vectors of documents",
    "trained-reciprocal": "the same and BM25 of whole documents, by reciprocal rank",
    "trained-weighted": "the same by a weighted sum, the weight from cross-validation",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Index, train, rank, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--work", type=Path, default=Path("runs/trained_retrieval"), help="where all of it is kept")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the training")
    options = parser.parse_args(arguments)
    changes = " ".join(("--set", *options.set)) if options.set else ""
    parts = [
        "# Does training on judgements find more?",
        f"`python benchmarks/trained_retrieval.py --sets {' '.join(options.sets)} {changes}`".replace(" `", "`"),
        describe_machine(),
        f"`own_queries.yaml` with the judgements as queries, a frozen MiniLM, {FOLDS} folds: each query is ranked by "
        "a model that was trained without it. p: paired permutation test of MAP against the row of that name. A "
        "document that answers several queries can be learnt as such.",
    ]
    for name in options.sets:
        parts.append(section(name, options.work / name, options.set))
    print(write_result("trained_retrieval", "\n\n".join(parts)))


def section(name: str, work: Path, changes: Sequence[str]) -> str:
    """Rank the queries of a set in all ways; their table as Markdown."""
    encoder = DocumentEncoder.from_pretrained("mini", dtype="float32")
    place = work / "index"
    index = (DocumentIndex.open if DocumentIndex.exists(place) else DocumentIndex.create)(place, encoder)
    index.update(read_documents(DATA / name / "corpus.jsonl.gz"), show_progress=True)
    judgements = read_judgements(DATA / name)
    found = rank_queries(index, judgements.queries, judgements.qrels, measure=MEASURE, show_progress=True)
    runs: dict[str, Run] = {way: found.runs[way] for way in UNTRAINED if way in found.runs}
    words = runs["words-documents"]
    runs["trained"] = trained = trained_run(name, work, changes)
    runs["trained-reciprocal"] = {query: joined(words[query], trained.get(query, {})) for query in words}
    weight = best_weight(words, trained, judgements.qrels, weighted, measure=MEASURE, folds=FOLDS)
    runs["trained-weighted"] = weight.run
    tables = {
        against: RankingTable.of(runs, judgements.qrels, MEASURES, against=against)
        for against in ("words-documents", "vectors-documents")
    }
    names = {**EXPLAINED, **TRAINED}
    lines = [
        f"| ranked by | {' | '.join(MEASURES)} | p, {' | p, '.join(tables)} |",
        f"|---|{'---|' * (len(MEASURES) + len(tables))}",
    ]
    for way, scores in tables["words-documents"].scores.items():
        means = " | ".join(f"{mean:.3f}" for mean in scores.means.values())
        p_values = (table.p_values.get(way, {}).get(MEASURE) for table in tables.values())
        lines.append(f"| {names[way]} | {means} | {' | '.join('' if p is None else f'{p:.4f}' for p in p_values)} |")
    weights = ", ".join(f"{one:g}" for one in weight.fold_weights)
    about = (
        f"{len(judgements):,} queries, {len(index):,} documents. Weight of words beside trained vectors: {weights}."
    )
    return "\n\n".join([f"## {name}", about, "\n".join(lines)])


def trained_run(name: str, work: Path, changes: Sequence[str]) -> Run:
    """Train once for every fold; the rankings of all, each query by the model that did not see it."""
    run: dict[str, dict[str, float]] = {}
    for fold in range(1, FOLDS + 1):
        folder = work / f"fold-{fold}"
        if not (folder / "test.run").exists():
            settings = load_settings(
                RetrievalSettings,
                ROOT / "configs" / "finetune" / "own_queries.yaml",
                [
                    f"corpus.source={DATA / name / 'corpus.jsonl.gz'}",
                    "queries.made_from=[]",
                    f"queries.source={DATA / name}",
                    f"folds.number={FOLDS}",
                    f"folds.fold={fold}",
                    "validation.best=map",
                    f"output={folder}",
                    *changes,
                ],
            )
            train_retrieval(settings, device="cpu", resume=folder.exists())
        run.update(read_run(folder / "test.run"))
    return run


def joined(words: dict[str, float], vectors: dict[str, float]) -> dict[str, float]:
    """Fused scores of a query by reciprocal rank."""
    return {one.id: one.score for one in fuse({"words": words, "vectors": vectors})}


def weighted(words: dict[str, float], vectors: dict[str, float], weight: float) -> dict[str, float]:
    """Fused scores of a query by the paper's weighted sum."""
    weights = {"words": weight, "vectors": 1 - weight}
    both = partial(fuse, {"words": words, "vectors": vectors}, "weighted")
    return {one.id: one.score for one in both(weights)}


if __name__ == "__main__":
    main()
