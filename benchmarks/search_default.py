"""Does a search by default find more than ranks joined, words, vectors or TF-IDF alone?

Weights and units of the default were chosen on these sets. Rankings are kept in ``--work``, where those of an earlier
version can be put as a row of another name.

    python benchmarks/search_default.py [--sets statutes] [--rows search] [--work FOLDER]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from document_ranking import Ranked, tech_proposals
from reporting import DATA, describe_machine, write_result
from sklearn.feature_extraction.text import TfidfVectorizer

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section, read_documents
from graphdoc.commands.output import signed_interval
from graphdoc.evaluation import RankingTable, read_judgements, read_relevant, read_run, write_run

MEASURE, DEPTH = "nDCG@10", 10
# What a search is asked for, by row; TF-IDF is that of scikit-learn.
ROWS: dict[str, dict[str, Any]] = {
    "search": {},
    "ranks joined": {"fusion": "reciprocal_rank"},
    "BM25 of documents": {"by": "words", "words_level": "document"},
    "words": {"by": "words"},
    "vectors": {"by": "vectors"},
    "TF-IDF": {},
}


@dataclass(frozen=True)
class Asked:
    """Documents, the queries that are asked, and what is relevant to them."""

    documents: list[Document]
    queries: Mapping[str, str | Document]
    qrels: Mapping[str, Mapping[str, int]]


def judged(folder: str, documents: list[Document], **chosen: Any) -> Asked:
    """The queries of a folder whose answers are among the documents."""
    judgements = read_judgements(DATA / folder, **chosen)
    judgements = judgements.among({document.id for document in documents})
    return Asked(documents, judgements.queries, judgements.qrels)


def alike(found: Ranked) -> Asked:
    """Documents as queries for those that belong to them."""
    ids = {document.id: document for document in found.documents}
    return Asked(found.documents, {id: ids[id] for id in found.judgements.queries}, found.judgements.qrels)


@cache
def articles(cut: bool) -> list[Document]:
    """The articles of the dev part; for queries made of them without title and first sentence."""
    found = [one for one in read_documents(DATA / "wikispeedia/articles.jsonl.gz") if one.metadata["split"] == "dev"]
    return [without_opening(one) for one in found] if cut else found


def without_opening(article: Document) -> Document:
    """An article without what queries are made of."""
    first, *rest = article.sections
    if span := article.metadata["first_sentence_span"]:
        first = Section(first.text[: span[0]] + first.text[span[1] :], first.heading, first.level)
    return replace(article, sections=(first, *rest), title="")


def cases() -> Asked:
    """Precedents for situations: those that are cited, and 450 others."""
    documents = list(read_documents(DATA / "aila2019_casedocs/corpus.jsonl.gz"))
    asked = judged("aila2019_casedocs", documents)
    cited = {id for grades in asked.qrels.values() for id, grade in grades.items() if grade > 0}
    others = random.Random(0).sample([one.id for one in documents if one.id not in cited], 450)
    return judged("aila2019_casedocs", [one for one in documents if one.id in cited or one.id in set(others)])


SETS = {
    "meetings": lambda: judged(
        "qmsum", list(read_documents(DATA / "qmsum/corpus.jsonl.gz")), only=["kind=specific"], split="val"
    ),
    "statutes": lambda: judged("aila2019_statutes", list(read_documents(DATA / "aila2019_statutes/corpus.jsonl.gz"))),
    "cases": cases,
    "titles": lambda: judged("wikispeedia/wikir", articles(cut=True), text_column="title"),
    "first sentences": lambda: judged("wikispeedia/wikir", articles(cut=True), text_column="first_sentence"),
    "articles": lambda: alike(
        Ranked.from_documents(articles(cut=False), read_relevant(DATA / "wikispeedia/links.tsv.gz", mutual=True))
    ),
    "proposals": lambda: alike(tech_proposals()),
}


def rank(asked: Asked, row: str, index: DocumentIndex | None) -> dict[str, dict[str, float]]:
    """Scores by document of every query."""
    if row != "TF-IDF":
        assert index is not None
        return {
            query: {hit.id: hit.score for hit in index.search(text, DEPTH, passages=0, **ROWS[row])}
            for query, text in asked.queries.items()
        }
    vectors = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    matrix = vectors.fit_transform([f"{document.title}\n{document.text}" for document in asked.documents])
    run = {}
    for query, text in asked.queries.items():
        is_document = isinstance(text, Document)
        of_query = vectors.transform([f"{text.title}\n{text.text}" if isinstance(text, Document) else text])
        scores = (matrix @ of_query.T).toarray().ravel().tolist()
        named = {document.id: score for document, score in zip(asked.documents, scores, strict=True)}
        run[query] = {id: score for id, score in named.items() if score > 0 and not (is_document and id == query)}
    return run


def section(name: str, asked: Asked, work: Path, rows: Sequence[str], model: str) -> Iterator[str]:
    """The table of a set, as Markdown."""
    files = {row: work / name / f"{row}.run" for row in rows}
    missing = [row for row in rows if not files[row].is_file()]
    place = work / "indexes" / ("titles" if name == "first sentences" else name)
    index = None
    if any(row != "TF-IDF" for row in missing):
        encoder = DocumentEncoder.from_pretrained(model)
        index = DocumentIndex.open(place, encoder) if place.exists() else DocumentIndex.create(place, encoder)
        index.update(asked.documents, maintain=True)
    for row in missing:
        files[row].parent.mkdir(parents=True, exist_ok=True)
        write_run(files[row], rank(asked, row, index), "search")
    runs = {path.stem: read_run(path) for path in sorted((work / name).glob("*.run"))}
    table = RankingTable.from_runs(runs, asked.qrels, [MEASURE], against="search")
    yield f"| {name} ({len(asked.queries):,} queries, {len(asked.documents):,} documents) | | |"
    for row in sorted(runs, key=lambda row: -table.scores[row].means[MEASURE]):
        difference = table.difference(row, MEASURE)
        apart = "" if difference is None else signed_interval(difference)
        yield f"| {row} | {table.scores[row].means[MEASURE]:.3f} | {apart} |"


def main() -> None:
    """Index, search, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--work", type=Path, default=Path("runs/search-default"))
    parser.add_argument("--model", default="mini")
    options = parser.parse_args()
    lines = ["| ranked by | nDCG@10 | less or more than search |", "|---|---|---|"]
    for name in options.sets:
        lines += section(name, SETS[name](), options.work, options.rows, options.model)
    text = [
        f"# {__doc__.splitlines()[0]}",
        "`python benchmarks/search_default.py`",
        describe_machine(),
        "\n".join(lines),
    ]
    print(write_result("search_default", "\n\n".join(text)))


if __name__ == "__main__":
    main()
