"""graphdoc search and mine: documents that answer a query or resemble a document, and those that only look so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from cyclopts import Parameter
from rich.cells import cell_len

from ..analysis.pages.marks import excerpt
from ..documents.readers import ReadingReport
from ..documents.readers.folders import is_pattern
from ..errors import DocumentError, SettingsError
from ..runtime.files import write_csv
from ..runtime.imports import quick_imports
from ..runtime.text import counted, left_out_line, one_line
from .options import COUNT, COUNT_FROM_0, OUTPUT, WEIGHT, EncodingModel, File, Json, ModelOptions
from .output import (
    LINE_WIDTH,
    MOST_LISTED,
    Outputs,
    Table,
    Terminal,
    check_apart,
    names,
    plain,
    read_and_skipped,
    write_json,
)
from .sources import CorpusReading, is_missing_source

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..retrieval.alignments import HitAlignment
    from ..retrieval.index import DocumentIndex
    from ..retrieval.results import Hit, SearchResults

logger = logging.getLogger("graphdoc")

# Ways to search that take a document.
BySentences = Literal["sentences", "flat", "paragraphs", "document"]
BY_SENTENCES: tuple[str, ...] = get_args(BySentences)
# Options that have an effect in some ways to search alone.
_EFFECTIVE = {"--weight": ("hybrid", *BY_SENTENCES), "--vectors-level": ("hybrid", "vectors"), "--pool": BY_SENTENCES}
# What the score of a hit is, where it is not of words and vectors together.
_SCORES = {
    "words": "BM25 of the words, above all in the best passage",
    "vectors": "similarity of vectors to the query, above all of the best passage",
    "sentences": "mean similarity of paragraphs by their sentences, of which each counts by its best match",
    "flat": "mean similarity of sentences to their best matches",
    "paragraphs": "mean similarity of paragraphs to their best matches",
    "document": "similarity of both documents as wholes",
}


def search(
    index: str,
    query: str | None = None,
    /,
    *,
    document: str | None = None,
    top_k: Annotated[int, COUNT] = 10,
    where: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    by: Literal["hybrid", "words", "vectors", BySentences] = "hybrid",
    weight: Annotated[float | None, WEIGHT] = None,
    vectors_level: Literal["passage", "document"] | None = None,
    pool: Annotated[int | None, COUNT] = None,
    passages: Annotated[int, COUNT_FROM_0] = 1,
    html: File = None,
    json: Json = None,
    csv: File = None,
    model: EncodingModel = EncodingModel(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Find documents that answer a query, or that resemble a document.

    Words (BM25) and vectors each score documents, above all by their best passage; the score adds up both, in standard
    deviations above the lowest. What each gave a document, and its best passages, stand next to it; --html writes a
    page that also says why.

    With --document and --by sentences, flat, paragraphs or document, documents are ranked by their sentences, and each
    hit shows which of its sentences are like which of the query document: what pairs add makes up the score. All
    documents are ranked, or those that a first search finds (--pool).

    Usage examples:
      graphdoc search papers.index "attention over passages"
      graphdoc search papers/ "attention over passages" --html hits.html
      graphdoc search papers.index --document draft.md --top-k 20
      graphdoc search papers.index "tides" --where "year >= 2010 AND label = 'sea'" --by words

    Args:
        index: what graphdoc index has written; or a file, folder or corpus, which is indexed for this one search
        query: words or a question
        document: query document: a file, -, corpus.jsonl#ID or the id of one in the index
        top_k: documents to find
        where: only documents for which this holds, such as "year >= 2010"
        by: what to search by; sentences, flat, paragraphs and document need --document
        weight: weight of words in the score, 0 to 1 (default: 0.5, by sentences 0)
        vectors_level: compare vectors of passages or of documents (default: those that the model was trained for)
        pool: by sentences: number of documents of a hybrid search that are ranked
        passages: passages, or pairs of sentences, shown of each document (in files 3 at least, or all pairs)
        html: write the results as a page, with --document also comparison reports in a folder next to it
        csv: write a row for every passage found
    """
    if (query is None) == (document is None):
        raise SettingsError("give either a query or --document FILE")
    if by in BY_SENTENCES and document is None:
        raise SettingsError(f"--by {by} ranks by a document; give one with --document FILE")
    for (option, ways), value in zip(_EFFECTIVE.items(), (weight, vectors_level, pool), strict=True):
        if value is not None and by not in ways:
            raise SettingsError(f"{option} has no effect with --by {by}; leave it out")
    outputs = Outputs([index, document], html=html, json=json, csv=csv)
    reports: Path | None = None
    if html is not None and document is not None:
        from ..retrieval.results import report_paths

        reports = report_paths(html, 1)[0].parent
        check_apart([index, document], [], [reports])
    source: str | Document | None = query
    # An id may begin with a hash, or hold what makes a pattern of a path.
    path = (document or "#").partition("#")[0]
    if document is not None and path and not is_missing_source(document) and not is_pattern(path):
        source = reading.document(document)
    opened = open_or_index(index, model, reading, sentences=by in BY_SENTENCES)
    if source is None:
        if document not in opened:
            fix = "name a file, or an id as a search shows it in brackets"
            raise DocumentError(f"--document {document} is no file and no id in {index}; {fix}")
        source = opened.document(str(document))
    results = opened.search(
        source,
        top_k,
        by=by,
        where=where,
        weight=weight,
        vectors_level=vectors_level,
        pool=pool,
        passages=max(passages, 3) if html or json or csv else passages,
    )
    target = outputs.write(
        html=lambda to: results.to_html(to, compare=None if isinstance(source, str) else opened.comparer(source, by)),
        json=lambda path: write_json(path, results.to_dict(explain=True)),
        csv=lambda path: write_csv(
            path, results.columns, ([row[name] for name in results.columns] for row in results.rows())
        ),
    )
    _print(target, results, passages)
    outputs.report(target, None, *([reports] if reports is not None and reports.is_dir() else []))


def open_or_index(path: str, model: ModelOptions, reading: CorpusReading, *, sentences: bool = False) -> DocumentIndex:
    """An index, or one in memory of the documents that are named in its place, perhaps with their sentences."""
    if "://" not in path:
        # What is missing is found before the import, which takes seconds; nothing is read yet.
        reading.documents([path])
    with quick_imports():
        from ..retrieval.index import DocumentIndex
        from ..retrieval.lance import folder_of, has_table

    folder = folder_of(path)
    if folder is None or has_table(folder):
        return model.open_index(path)
    report = ReadingReport()
    documents, encoder = reading.all_with_model([path], model, report)
    index = DocumentIndex.create("memory://", encoder, sentences=sentences, max_passages=model.most_passages)
    # Such as one whose metadata have another type than those of the first.
    report.leave_out(index.update(documents, maintain=True, on_error=reading.on_unencodable([path])).skipped)
    for skipped in report.skipped[:MOST_LISTED]:
        logger.warning("skipped %s: %s", skipped.source, skipped.reason)
    if report.skipped:
        logger.warning("%s", read_and_skipped(report))
    index.path = path
    return index


def _print(target: Terminal, results: SearchResults, passages: int) -> None:
    target.lines([f"note: {warning}" for warning in results.warnings])
    if results.hits:
        # The score of a single ranking is that of the document.
        columns = ["words", results.by if results.by in BY_SENTENCES else "vectors"] if results.fusion else []
        rows = Table(["", names("document", 60), "score", *(f"{name} (rank)" for name in columns)])
        for hit in results:
            ranks = (f"{part.score:.2f} ({part.rank})" if (part := hit.parts.get(name)) else "-" for name in columns)
            rows.add(hit.rank, f"{_name(hit)} [{hit.id}]" if _name(hit) != hit.id else hit.id, hit.score, *ranks)
        rows.print(target)
        score = _SCORES.get(results.by)
        if results.fusion:
            score = "both scores beside it, brought to one scale and added up; compare it within this search alone"
        target.lines([f"score: {score}"])
    for hit in results:
        if passages and (hit.passages or hit.alignment):
            target.print(plain(f"\n{hit.rank}  {_name(hit)}"), style="bold")
            if hit.cut:
                target.lines([f"   {counted(hit.cut, 'character')} beyond the passage limit not indexed"])
        for passage in hit.passages[:passages]:
            width = min(LINE_WIDTH, target.width)
            heading = f"   {one_line(passage.heading, width // 2)}: " if passage.heading else "   "
            # Characters of some scripts take two cells.
            cells = cell_len(passage.text) / max(1, len(passage.text))
            room = int((width - cell_len(heading) - 4) / max(1.0, cells))
            target.passage(heading + excerpt(passage.text, passage.matches, room))
        if hit.alignment is not None:
            _print_pairs(target, hit.alignment, passages)
    target.print()
    about = results.index
    sizes = [counted(about[f"{name}s"], name) for name in ("document", "passage") if about[f"{name}s"] is not None]
    target.lines([f"{', '.join(sizes)}, model {about['model']['name']}"])


def _name(hit: Hit) -> str:
    """Name of a hit: its title, or else its first words, since ids of rows say little."""
    return hit.title or (one_line(hit.passages[0].text, 40) if hit.passages else hit.id)


def _print_pairs(target: Terminal, alignment: HitAlignment, most: int) -> None:
    """The strongest pairs of a score, one below the other: of the query document, and of the hit."""
    parts = "documents" if alignment.is_whole else "close paragraphs"
    for pair, best in alignment.best_pairs(most):
        sentences = "" if best is None else f"; their closest sentences: cosine {best.cosine:.2f}"
        lines = []
        for side in ("source", "candidate"):
            heading = alignment.heading(side, getattr(pair, side))
            # A paragraph that was compared as a whole is known by its first sentence.
            sentence = alignment.first_sentence(side, getattr(pair, side)) if best is None else getattr(best, side)
            lines.append(": ".join(filter(None, (heading, alignment.text(side, sentence)))))
        target.lines([f"   {parts}: cosine {pair.score:.2f}, {pair.contribution:.4f} of the score{sentences}"])
        for line in lines:
            target.passage(f"     {line}")


def mine(
    index: str,
    /,
    *,
    queries: str,
    split: str | None = None,
    query_column: str = "text",
    source_grade: Annotated[int | None, COUNT] = None,
    by: Literal["words", "vectors", "both"] = "both",
    depth: Annotated[int, COUNT] = 100,
    margin: float | Literal["none"] = 0.05,
    output: Annotated[str, OUTPUT],
    model: ModelOptions = ModelOptions(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Mine hard negatives: for every query the documents that a search ranks high and that do not answer it.

    A model that is trained for retrieval learns most from these (graphdoc finetune retrieve, negatives.kind). Left
    out, and counted, are documents that were judged to answer the query, copies and near-duplicates of these, and
    those whose score is close to that of the best answer, since they may well answer the query.

    Usage examples:
      graphdoc mine qmsum.index --queries qmsum --split train --output negatives.jsonl

    Args:
        index: an index, or a file, folder or corpus, which is indexed for this once
        queries: queries and judgements: a folder in BEIR's layout, or a file of query, tab and document
        split: queries of this split alone, such as train
        query_column: field that holds the text of a query
        source_grade: ignore documents judged so: the query was written from them
        by: what to search by
        depth: negatives of a query, at most
        margin: leave out what scores above the best answer less this share of its score; none for nothing
        output: write the lists there (.jsonl or .jsonl.gz)
    """
    outputs = Outputs([index, queries], output=output)
    with quick_imports():
        from ..evaluation import read_judgements
        from ..retrieval import mining

    settings = mining.MiningSettings(by, depth, None if margin == "none" else margin)
    # What nothing can be mined for is refused before a model is loaded.
    judged = read_judgements(queries, split=split, text_column=query_column)
    sources = judged.sources(source_grade)
    judged = judged.without(sources)
    opened = open_or_index(index, model, reading)
    documents = mining.documents_of_index(opened)
    judged = judged.among(documents.rows)
    by_vectors = "vectors" in settings.rankings
    lists = mining.mine(
        documents,
        {query: judged.positives(query) for query in judged.queries},
        settings,
        words=mining.word_scores(opened, judged.queries, settings.depth),
        vectors=opened.encoder.encode_query(list(judged.queries.values())) if by_vectors else None,
        excluded=sources,
        record={"model": {"name": opened.record["model"]["name"], "weights": opened.record["weights"]}},
        device=opened.encoder.device if by_vectors else "cpu",
    )
    target = outputs.write(output=lists.write)
    target.lines(lists.describe())
    target.lines([left_out_line(count, reason) for reason, count in judged.left_out.items()])
    outputs.report(target)
