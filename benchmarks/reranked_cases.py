"""Do views of subtopics rank cases better than the words that found them? Cases of a court, found by a situation.

The first 40 hits of BM25 over whole texts are ranked again by views of the situation and of the case, with models that
``graphdoc finetune views`` has trained (``--models``), and with MiniLM as two towers before any training. Measured on
the queries that the track tested (the last 40 of 50) and on all.

    python benchmarks/reranked_cases.py [--models FOLDER ...] [--work FOLDER]
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import bm25s
from reporting import DATA, ROOT, describe_machine, write_result

from graphdoc import Document, DocumentEncoder, read_documents
from graphdoc.evaluation import RankingTable, read_judgements
from graphdoc.evaluation.trec import Qrels, Run, read_run, write_run
from graphdoc.matching import match_pairs
from graphdoc.recipes.views import begin_views
from graphdoc.retrieval.fusion import fused_scores
from graphdoc.runtime.progress import progress_bar
from graphdoc.settings.loading import load_settings
from graphdoc.settings.view_training import ViewRunSettings

FOLDER, TOP, TESTED = DATA / "aila2019_casedocs", 40, 40
MEASURES = ("MAP", "nDCG@10", "P@5")
BM25 = "BM25"
# Settings of sst_small.yaml for models that are not trained.
UNTRAINED = {
    "two towers, untrained": ["views.encoder=dual", "loss.kind=cosine", "model.settings.pooling=mean"],
}


def found_by_words(texts: Mapping[str, str], queries: Mapping[str, str]) -> Run:
    """The best hits of BM25 (k1 1.2, b 0.75, no stems)."""
    names = list(texts)
    ranker = bm25s.BM25(k1=1.2, b=0.75)
    ranker.index(bm25s.tokenize(list(texts.values()), stopwords="en", show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(list(queries.values()), stopwords="en", show_progress=False)
    rows, scores = ranker.retrieve(tokens, k=1000, show_progress=False)
    return {
        query: {names[row]: float(score) for row, score in zip(rows[place], scores[place], strict=True) if score > 0}
        for place, query in enumerate(queries)
    }


def untrained(changes: Sequence[str], view_tokens: int) -> DocumentEncoder:
    """MiniLM that reads views, before any training."""
    given = ["corpus.source=none", "pairs.file=none", f"views.view_tokens={view_tokens}", *changes]
    settings = load_settings(ViewRunSettings, ROOT / "configs" / "finetune" / "sst_small.yaml", given)
    encoder = DocumentEncoder.from_backbone(settings.model.start, **settings.model.settings)
    begin_views(encoder, settings)
    return encoder


def ranked_again(
    encoder: DocumentEncoder, first: Run, queries: Mapping[str, Document], cases: Mapping[str, Document], dtype: str
) -> Run:
    """The best hits of every query by how well they match it; those below stay below."""
    pairs = [(query, case) for query, hits in first.items() for case in list(hits)[:TOP]]
    run: dict[str, dict[str, float]] = {query: {} for query in first}
    documents = ((queries[query], cases[case]) for query, case in pairs)
    precision = None if dtype == "float32" else dtype
    with progress_bar(None, len(pairs), doing="Matching", unit="pairs") as bar:
        for (query, case), match in zip(pairs, match_pairs(encoder, documents, dtype=precision), strict=True):  # type: ignore[typeddict-item]
            run[query][case] = match.score
            bar.update(1)
    for query, hits in first.items():
        lowest = min(run[query].values())
        rest = list(hits)[TOP:]
        run[query] |= {case: lowest - rank for rank, case in enumerate(rest, start=1)}
    return run


def table_of(runs: Mapping[str, Run], qrels: Qrels) -> str:
    """All rows on some queries as Markdown, with p values against BM25."""
    own = {way: {query: run.get(query, {}) for query in qrels} for way, run in runs.items()}
    table = RankingTable.of(own, qrels, MEASURES, against=BM25)
    lines = [f"| ranked by | {' | '.join(MEASURES)} | p, MAP |", f"|---|{'---|' * (len(MEASURES) + 1)}"]
    for way, scores in table.scores.items():
        p = table.p_values.get(way, {}).get("MAP")
        means = " | ".join(f"{mean:.3f}" for mean in scores.means.values())
        lines.append(f"| {way} | {means} | {'' if p is None else f'{p:.3f}'} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Find, rank again, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME=FOLDER", help="models that were trained")
    parser.add_argument("--untrained", nargs="*", choices=list(UNTRAINED), default=list(UNTRAINED))
    parser.add_argument("--view-tokens", type=int, default=256, help="of models that are not trained")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="precision of models")
    parser.add_argument("--work", type=Path, default=Path("runs/reranked_cases"), help="where rankings are kept")
    options = parser.parse_args(arguments)
    judgements = read_judgements(FOLDER)
    cases = {case.id: case for case in read_documents(FOLDER / "corpus.jsonl.gz")}
    queries = {id: Document.from_text(text, id=id) for id, text in judgements.queries.items()}
    place = options.work / "bm25.run"
    if not place.exists():
        texts = {id: f"{case.title}\n{case.text}" for id, case in cases.items()}
        write_run(place, found_by_words(texts, judgements.queries))
    first = {query: dict(sorted(hits.items(), key=lambda hit: -hit[1])) for query, hits in read_run(place).items()}
    runs: dict[str, Run] = {BM25: first}
    named = dict(one.split("=", 1) for one in options.models)
    for name in (*options.untrained, *named):
        place = options.work / f"{name.replace(' ', '_').replace(',', '')}-{options.view_tokens}.run"
        if not place.exists():
            encoder = (
                DocumentEncoder.from_pretrained(named[name])
                if name in named
                else untrained(UNTRAINED[name], options.view_tokens)
            )
            write_run(place, ranked_again(encoder, first, queries, cases, options.dtype))
        runs[name] = read_run(place)
        runs[f"{name}, and BM25 (reciprocal rank)"] = {
            query: fused_scores({"words": hits, "views": runs[name].get(query, {})}) for query, hits in first.items()
        }
    tested = {query: judgements.qrels[query] for query in list(judgements.queries)[-TESTED:]}
    command = shlex.join(["python", "benchmarks/reranked_cases.py", *(arguments or sys.argv[1:])])
    parts = [
        "# Cases that BM25 found, ranked again by views",
        f"`{command}`",
        describe_machine(),
        f"aila2019_casedocs: {len(cases):,} cases; the first {TOP} hits of BM25 over whole texts (k1 1.2, b 0.75) are "
        f"ranked again, those below stay below. Soft views by words, of the first 40 sentences; models that are not "
        f"trained read views of {options.view_tokens} tokens. p: paired permutation test against BM25.",
        f"The {len(tested)} queries that the track tested:",
        table_of(runs, tested),
        f"All {len(judgements.queries)} queries:",
        table_of(runs, judgements.qrels),
    ]
    print(write_result("reranked_cases", "\n\n".join(parts)))


if __name__ == "__main__":
    main()
