"""Which way to rank documents by one of them finds those that it is linked with? Tables 1 and 2 of the SDR paper.

Rankings are kept in ``--work``: a run that was interrupted goes on, a repeated one ranks nothing.

    python benchmarks/document_ranking.py [--sets wikispeedia_cut] [--rows tf-idf sentences] [--work FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from paper_baselines import PAPER_RANKERS
from reporting import DATA, describe_machine, write_result

from graphdoc import Document, DocumentEncoder, read_documents
from graphdoc.commands.output import signed_interval
from graphdoc.evaluation import (
    Judgements,
    RankedDocuments,
    RankingTable,
    best_weight,
    read_relevant,
    read_run,
    write_run,
)
from graphdoc.evaluation.rankers import RANKERS, RankedCorpus, fused, rank_documents
from graphdoc.evaluation.trec import Run, ranked
from graphdoc.segmentation.sentences import split_sentences
from graphdoc.similarity.hierarchical import Direction, Normalization, SentenceScoring

MEASURES = ("nDCG@10", "MPR", "MRR", "HR@10", "HR@100", "MRR-published")
AGAINST = "mean of passages"
# Of the trial: sentences of a section, and of a document.
SECTION_SENTENCES, DOCUMENT_SENTENCES = 5, 48


class BySentences(NamedTuple):
    """A way to score documents by their sentences."""

    by: SentenceScoring
    normalization: Normalization = "none"
    direction: Direction = "source"


BY_SENTENCES: dict[str, BySentences] = {
    "document": BySentences("document"),
    "paragraphs": BySentences("paragraphs"),
    "paragraphs, z-score": BySentences("paragraphs", normalization="zscore"),
    "flat": BySentences("flat"),
    "flat, both": BySentences("flat", direction="both"),
    "sentences": BySentences("sentences"),
    "sentences, z-score": BySentences("sentences", normalization="zscore"),
    "sentences, both": BySentences("sentences", direction="both"),
}
EVERY_RANKER = {**RANKERS, **PAPER_RANKERS}
OTHERS = tuple(name for name in EVERY_RANKER if name not in BY_SENTENCES)
# The model's document vectors without its words and its centre: what there is before anything is fitted or trained.
MEAN = "mean of passages"
# As a search by sentences looks by default, with words of three kinds.
JOINED = tuple(
    f"{words}+{other}" for words in ("tf-idf", "bm25", "bm25-keywords") for other in ("sentences, both", "flat, both")
)
SHOWN = 3


@dataclass(frozen=True)
class Ranked:
    """A set of documents with what is relevant among them."""

    documents: list[Document]
    judgements: Judgements

    @classmethod
    def from_documents(cls, documents: list[Document], relevant: Mapping[str, Mapping[str, int]]) -> Ranked:
        """Keep what is relevant among the documents; none is to itself."""
        qrels = {id: {one: grade for one, grade in grades.items() if one != id} for id, grades in relevant.items()}
        titles = {document.id: document.title for document in documents if document.id in qrels}
        return cls(documents, Judgements.from_qrels(titles, qrels).among({document.id for document in documents}))


def wikispeedia() -> Ranked:
    """The articles of test; those are relevant that are linked both ways."""
    everything = read_documents(DATA / "wikispeedia/articles.jsonl.gz")
    articles = [one for one in everything if one.metadata["split"] == "test"]
    return Ranked.from_documents(articles, read_relevant(DATA / "wikispeedia/links.tsv.gz", mutual=True))


def wikispeedia_cut() -> Ranked:
    """The same, of the first sentences of every section."""
    whole = wikispeedia()
    return replace(whole, documents=[first_sentences(document) for document in whole.documents])


def tech_proposals() -> Ranked:
    """All proposals; those are relevant that the text names."""
    proposals = list(read_documents(DATA / "tech_proposals/documents.jsonl.gz"))
    references = {one.id: dict.fromkeys(one.metadata.get("references") or (), 1) for one in proposals}
    return Ranked.from_documents(proposals, references)


SETS = {one.__name__: one for one in (wikispeedia_cut, wikispeedia, tech_proposals)}


def first_sentences(document: Document) -> Document:
    """The first sentences of every section, as far as there are sentences left for the document."""
    left, sections = DOCUMENT_SENTENCES, []
    for section in document.sections:
        spans = split_sentences(section.text, "en")[: min(SECTION_SENTENCES, left)]
        left -= len(spans)
        sections.append(replace(section, text=section.text[: spans[-1][1]] if spans else ""))
    return replace(document, sections=tuple(sections))


def main(arguments: Sequence[str] | None = None) -> None:
    """Encode, rank, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    every = [*OTHERS, MEAN, *BY_SENTENCES]
    parser.add_argument("--rows", nargs="+", choices=every, default=every)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="numbers of the model")
    parser.add_argument("--fit", type=int, metavar="N", help="fit N numbers of words to the documents of a set first")
    parser.add_argument("--work", type=Path, default=Path("runs/document-ranking"))
    parser.add_argument("--name", default="document_ranking", help="name of the result")
    options = parser.parse_args(arguments)
    load = partial(DocumentEncoder.from_pretrained, options.model, dtype=options.dtype, max_passages=None)
    encoder = load()
    bare = partial(load, lexical=None, centre=None)
    fit = f" --fit {options.fit}" if options.fit else ""
    parts = [
        "# Which way to rank documents by one of them finds those that it is linked with?",
        f"`python benchmarks/document_ranking.py --sets {' '.join(options.sets)} --dtype {options.dtype}{fit}`",
        describe_machine(),
        f"`{encoder.name}`, {options.dtype}. Intervals: middle 95 % of 1,000 bootstrap resamples of the sources; "
        "differences are paired. MPR is a mean over pairs; MRR-published counts ranks 1 and 2 alike, as the published "
        "code does. Rows with a + join two, weights of words by cross-validation.",
    ]
    for name in options.sets:
        found = SETS[name]()
        if options.fit:
            # Without labels, as `graphdoc fit --lexical --no-centre` does.
            encoder = load()
            encoder.fit(found.documents, lexical={"size": options.fit}, centre=False)
        runs = rankings(found, encoder, bare, options.rows, options.work / name)
        parts += section(name, found, runs)
    print(write_result(options.name, "\n\n".join(parts)))


def rankings(
    found: Ranked, encoder: DocumentEncoder, bare: Callable[[], DocumentEncoder], rows: Sequence[str], work: Path
) -> dict[str, Run]:
    """The ranking of every row; such as were made are read."""
    sources, qrels = list(found.judgements.queries), found.judgements.qrels
    files = {name: work / "rankings" / f"{name.replace(', ', '-').replace(' ', '-')}.run" for name in rows}
    (work / "rankings").mkdir(parents=True, exist_ok=True)
    left = [name for name in rows if not files[name].is_file()]
    corpus = RankedCorpus(found.documents, lambda: encoder, show_progress_bar=True)
    for name in left:
        if name in OTHERS:
            ranked_by = rank_documents(corpus, sources, qrels, [name], rankers=EVERY_RANKER)
            write_run(files[name], ranked_by.runs[name], files[name].stem)
    if MEAN in left:
        means = RankedCorpus(found.documents, bare, show_progress_bar=True)
        write_run(files[MEAN], rank_documents(means, sources, qrels, ["vectors"]).runs["vectors"], files[MEAN].stem)
    for name, way in BY_SENTENCES.items():
        if name in left:
            write_run(files[name], rank_by_sentences(corpus, found, way), files[name].stem)
    runs: dict[str, Run] = {name: read_run(file) for name, file in files.items()}
    for name in JOINED:
        words, other = name.split("+")
        if words in runs and other in runs:
            runs[name] = best_weight(runs[words], runs[other], qrels, fused).run
    return runs


def rank_by_sentences(corpus: RankedCorpus, found: Ranked, way: BySentences) -> Run:
    """The ranking of one way; the sentences of the corpus are encoded once, and stay."""
    corpus.normalization, corpus.direction = way.normalization, way.direction
    judgements = found.judgements
    return rank_documents(corpus, list(judgements.queries), judgements.qrels, [way.by]).runs[way.by]


def section(name: str, found: Ranked, runs: Mapping[str, Run]) -> Iterator[str]:
    """The table of a set, and the best hits of some sources, as Markdown."""
    judgements = found.judgements
    against = AGAINST if AGAINST in runs else "document"
    against = against if against in runs else next(iter(runs))
    candidates = RankedDocuments(len(found.documents) - 1)
    table = RankingTable.from_runs(runs, judgements.qrels, MEASURES, against=against, candidates=candidates)
    yield f"## {name}"
    pairs = sum(sum(grade > 0 for grade in grades.values()) for grades in judgements.qrels.values())
    yield f"{len(judgements):,} sources, {pairs:,} pairs, {len(found.documents):,} documents."
    first, *others = MEASURES
    lines = [
        f"| ranked by | {first} | against {against} | {' | '.join(others)} |",
        f"|---|{'---|' * (len(others) + 2)}",
    ]
    for row, scores in table.scores.items():
        own, difference = table.estimate(row, first), table.difference(row, first)
        low, high = own.interval or (0.0, 0.0)
        shown = "" if difference is None else signed_interval(difference)
        means = " | ".join(f"{scores.means[other]:.3f}" for other in others)
        lines.append(f"| {row} | {own.value:.3f} [{low:.3f}, {high:.3f}] | {shown} | {means} |")
    yield "\n".join(lines)
    yield hits(found, runs)


def hits(found: Ranked, runs: Mapping[str, Run]) -> str:
    """The first documents of some sources, evenly taken, as in table 2 of the paper; relevant ones are bold."""
    titles = {document.id: document.title or document.id for document in found.documents}
    sources = sorted(found.judgements.queries)
    rows = [name for name in ("tf-idf", "vectors", "document", "sentences", "flat") if name in runs]
    lines = [f"| source | {' | '.join(rows)} |", f"|---|{'---|' * len(rows)}"]
    for source in sources[:: max(1, len(sources) // 6)][:6]:
        cells = [titles[source]]
        for name in rows:
            relevant = found.judgements.positives(source)
            best = ranked(runs[name][source])[:SHOWN]
            cells.append("<br>".join(f"**{titles[id]}**" if id in relevant else titles[id] for id in best))
        lines.append(f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
