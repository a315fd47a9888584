"""How well does search find? Queries of the sets at hand, ranked in every way that an index knows.

Indexes are kept in ``--work``: a run that was interrupted goes on, and a repeated one encodes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reporting import DATA, describe_machine, write_result

from graphdoc import DocumentEncoder, DocumentIndex, read_documents
from graphdoc.evaluation import Judgements, RankingTable, read_judgements
from graphdoc.evaluation.rankings import EXPLAINED, Rankings, rank_queries

# Set, its folder, the split and kind of its queries, and its measure.
SETS: dict[str, tuple[str, str | None, tuple[str, ...], str]] = {
    "aila2019_statutes": ("aila2019_statutes", None, (), "MAP"),
    "qmsum": ("qmsum", "test", ("kind=specific",), "nDCG@10"),
    "qmsum_all": ("qmsum", None, ("kind=specific",), "nDCG@10"),
}
MEASURES = ("nDCG@10", "MAP", "P@5", "recall@100", "success@1")
AGAINST = "words-documents"


def main(arguments: Sequence[str] | None = None) -> None:
    """Index, search, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--work", type=Path, default=Path("runs/retrieval"), help="where indexes are kept")
    options = parser.parse_args(arguments)
    encoder = DocumentEncoder.from_pretrained("mini", dtype="float32", max_passages=None)
    parts = [
        "# How well does search find?",
        f"`python benchmarks/retrieval.py --sets {' '.join(options.sets)}`",
        describe_machine(),
        f"`mini`, all passages, float32. p: paired permutation test against {AGAINST}. "
        "ms: median time of a query, which other work on the machine lengthens.",
    ]
    for name in options.sets:
        folder, split, only, measure = SETS[name]
        place = options.work / folder
        index = (DocumentIndex.open if DocumentIndex.exists(place) else DocumentIndex.create)(place, encoder)
        index.update(read_documents(DATA / folder / "corpus.jsonl.gz"), show_progress=True)
        judgements = read_judgements(DATA / folder, split=split, only=only)
        found = rank_queries(index, judgements.queries, judgements.qrels, measure=measure, show_progress=True)
        parts.append(section(name, index, judgements, found, measure))
    print(write_result("retrieval", "\n\n".join(parts)))


def section(name: str, index: DocumentIndex, judgements: Judgements, found: Rankings, measure: str) -> str:
    """The table of a set as Markdown."""
    table = RankingTable.of(found.runs, judgements.qrels, MEASURES, against=AGAINST)
    lines = [f"| ranked by | {' | '.join(MEASURES)} | p {measure} | ms |", f"|---|{'---|' * (len(MEASURES) + 2)}"]
    for way, scores in table.scores.items():
        means = " | ".join(f"{mean:.3f}" for mean in scores.means.values())
        p_value = f"{table.p_values[way][measure]:.3f}" if way in table.p_values else ""
        lines.append(f"| {EXPLAINED[way]} | {means} | {p_value} | {found.latency[way]:.1f} |")
    state = index.state()
    about = f"{len(judgements):,} queries, {state.documents:,} documents, {state.passages:,} passages."
    if found.weight is not None:
        about += f" Weight of words: {', '.join(f'{one:g}' for one in found.weight.fold_weights)} by fold."
    return "\n\n".join([f"## {name}", about, "\n".join(lines)])


if __name__ == "__main__":
    main()
