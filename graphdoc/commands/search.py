"""graphdoc search and mine: documents that answer a query or resemble a document, and those that only look so."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.cells import cell_len
from rich.console import Console

from ..analysis.pages.marks import excerpt
from ..documents.readers import ReadingReport
from ..documents.readers.folders import is_pattern
from ..errors import DocumentError, EvaluationError, SettingsError
from ..runtime.files import write_csv
from ..runtime.memory import quick_imports
from ..runtime.text import counted, left_out_line, one_line
from .options import COUNT, OUTPUT, SEED, WEIGHT, Csv, EncodingModel, File, Json, ModelOptions
from .output import (
    LINE_WIDTH,
    MOST_LISTED,
    Outputs,
    Table,
    check_apart,
    names,
    plain,
    print_lines,
    print_passage,
    read_and_skipped,
    require_name,
    write_json,
    written,
)
from .sources import CorpusReading, is_missing

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..evaluation import Judgements
    from ..retrieval.alignments import HitAlignment
    from ..retrieval.index import DocumentIndex
    from ..retrieval.mining import MiningSettings, NegativeLists
    from ..retrieval.results import SearchResults

logger = logging.getLogger("graphdoc")

# Ways to search that take a document.
BY_SENTENCES = ("sentences", "flat", "paragraphs", "document")
# Queries with their negatives, and documents of each, that are printed of mined lists.
_EXAMPLES, _SHOWN = 3, 3


def search(
    index: str,
    query: str | None = None,
    /,
    *,
    document: str | None = None,
    top: Annotated[int, COUNT] = 10,
    where: str | None = None,
    by: Literal["hybrid", "words", "vectors", "sentences", "flat", "paragraphs", "document"] = "hybrid",
    weight: Annotated[float | None, WEIGHT] = None,
    vectors_unit: Literal["passage", "document"] | None = None,
    pool: Annotated[int | None, COUNT] = None,
    passages: Annotated[int, SEED] = 1,
    html: File = None,
    json: Json = None,
    csv: Csv = None,
    model: EncodingModel = EncodingModel(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Find documents that answer a query, or that resemble a document.

    Words (BM25) and vectors each score documents, above all by their best passage; the score adds up both, in standard
    deviations above the lowest. What each gave a document, and its best passages, stand beside it; --html writes a
    page that also says why.

    With --document and --by sentences, flat, paragraphs or document, documents are ranked by their sentences, and each
    hit shows which of its sentences are like which of the query document: what pairs add makes up the score. All
    documents are ranked, or those that a first search finds (--pool).

    Usage examples:
      graphdoc search papers.index "attention over passages"
      graphdoc search papers/ "attention over passages" --html hits.html
      graphdoc search papers.index --document draft.md --top 20
      graphdoc search papers.index "tides" --where "year >= 2010 AND label = 'sea'" --by words
      graphdoc search papers.index --document draft.md --by sentences --pool 100
      graphdoc search papers.index "tides" --json - | jq '.hits[].id'

    Args:
        index: what graphdoc index has written; or a file, folder or corpus, which is indexed for this one search
        query: words or a question
        document: query document: a file, -, corpus.jsonl#ID or the id of one in the index
        top: documents to find
        where: only documents for which this holds, such as "year >= 2010"
        by: what to search by; sentences, flat, paragraphs and document need --document
        weight: weight of words in the score, 0 to 1 (default: 0.5, by sentences 0)
        vectors_unit: compare vectors of passages or of documents (default: those that the model was trained for)
        pool: by sentences: rank the documents that a hybrid search finds, so many
        passages: passages, or pairs of sentences, shown of each document (in files 3 at least, or all pairs)
        html: write the results as a page, with --document also comparison reports in a folder beside it
        csv: write a row for every passage found
    """
    if (query is None) == (document is None):
        raise SettingsError("give either a query or --document FILE")
    if by in BY_SENTENCES and document is None:
        raise SettingsError(f"--by {by} ranks by a document; give one with --document FILE")
    sources = [index, document]
    outputs = Outputs(sources, html=html, json=json, csv=csv)
    reports = [] if html is None or document is None else _report_paths(html, top)
    check_apart(sources, map(str, reports))
    shown = max(passages, 3) if outputs.paths else passages
    needs_sentences = by in BY_SENTENCES and pool is None
    asked, unread = (query, None) if document is None else _read_document(document, index, reading)
    with searched_index(
        index, model, reading, document=document, unread=unread, needs_sentences=needs_sentences
    ) as opened:
        if document is not None and unread is not None:
            asked = _document_of(opened, document, index, unread)
        assert asked is not None
        results = opened.search(
            asked, top, by=by, where=where, weight=weight, vectors_unit=vectors_unit, pool=pool, passages=shown
        )
        target = outputs.write(
            html=lambda path: results.to_html(
                path, compare=None if isinstance(asked, str) else opened.comparer(asked, by)
            ),
            json=lambda path: write_json(path, results.to_dict(explain=True)),
            csv=lambda path: write_csv(
                path, results.columns, ([row[name] for name in results.columns] for row in results.rows())
            ),
        )
        if target is None:
            return
        _print(target, results, passages)
    outputs.report(target)
    written(target, [folder for folder in {report.parent for report in reports} if folder.is_dir()])


def _report_paths(html: str, top: int) -> list[Path]:
    """The comparison reports that may be written beside the page."""
    with quick_imports():
        from ..retrieval.results import report_paths
    return report_paths(html, top)


def _read_document(source: str, index: str, reading: CorpusReading) -> tuple[Document | None, DocumentError | None]:
    """The query document; or why no file can be read, where it may be the id of a document."""
    try:
        return reading.one(source), None
    except DocumentError as error:
        if source == "-":
            raise
        is_name = is_missing(source) or is_pattern(source) or source.startswith("#")
        return None, _no_such_document(source, index) if is_name else error


def _document_of(opened: DocumentIndex, source: str, index: str, unread: DocumentError) -> Document:
    """The document of an index that has the id that is given."""
    if source not in opened:
        # The id of a file is its name without suffix.
        name = Path(source).stem
        raise _no_such_document(source, index, f"did you mean {name}?") if name and name in opened else unread
    return opened.document(source)


def _no_such_document(source: str, index: str, hint: str = "") -> DocumentError:
    fix = hint or "name a file, or an id as a search shows it in brackets"
    return DocumentError(
        f"--document {source} is no file, and no document that is indexed in {index} has that id; {fix}"
    )


@contextmanager
def searched_index(
    place: str,
    model: ModelOptions,
    reading: CorpusReading,
    *,
    document: str | None = None,
    unread: DocumentError | None = None,
    needs_sentences: bool = False,
) -> Iterator[DocumentIndex]:
    """An index, or one in memory of the documents that are named in its place.

    Args:
        place: the index, or documents.
        model: what encodes documents and queries.
        reading: how documents are read.
        document: the query document, which may be one of them.
        unread: why it is no file; this is raised where no document has its id.
        needs_sentences: whether the sentences of all documents are needed.
    """
    from ..retrieval.lance import folder_of, has_table

    folder = folder_of(place)
    if folder is not None and is_missing(place):
        # Before large libraries are imported, which takes longer than finding a mistake.
        list(reading.many([place]))
    with quick_imports():
        from ..retrieval.index import DocumentIndex

    if folder is None or has_table(folder):
        yield model.open_index(place)
        return
    report = ReadingReport()
    documents, encoder = reading.all_with_model([place], model, report)
    if unread is not None and document not in {indexed.id for indexed in documents}:
        # Before anything is encoded.
        raise unread
    index = DocumentIndex.create("memory://", encoder, sentences=needs_sentences)
    # Such as one whose metadata have another type than those of the first.
    report.leave_out(index.update(documents, maintain=True, on_error=reading.on_unencodable([place])).skipped)
    for skipped in report.skipped[:MOST_LISTED]:
        logger.warning("skipped %s: %s", skipped.source, skipped.reason)
    if report.skipped:
        logger.warning("%s", read_and_skipped(report))
    index.place = place
    yield index


def _print(target: Console, results: SearchResults, passages: int) -> None:
    # The score of a single ranking is that of the document.
    columns = ["words", results.by if results.by in BY_SENTENCES else "vectors"] if results.fusion else []
    rows = Table(["", names("document", 60), "score", *(f"{name} (rank)" for name in columns)])
    for hit in results:
        ranks = (f"{part.score:.2f} ({part.rank})" if (part := hit.parts.get(name)) else "-" for name in columns)
        rows.add(hit.rank, f"{hit.title} [{hit.id}]" if hit.title else hit.id, hit.score, *ranks)
    if rows.rows:
        rows.print(target)
    for hit in results:
        if passages and (hit.passages or hit.alignment):
            target.print(plain(f"\n{hit.rank}  {hit.title or hit.id}"), style="bold")
        for passage in hit.passages[:passages]:
            width = min(LINE_WIDTH, target.width)
            heading = f"   {one_line(passage.heading, width // 2)}: " if passage.heading else "   "
            # Characters of some scripts take two cells.
            cells = cell_len(passage.text) / max(1, len(passage.text))
            room = int((width - cell_len(heading) - 4) / max(1.0, cells))
            print_passage(target, heading + excerpt(passage.text, passage.matches, room))
        if hit.alignment is not None:
            _print_pairs(target, hit.alignment, passages)
    print_lines(target, [f"note: {warning}" for warning in results.warnings])
    target.print()
    about = results.index
    sizes = [counted(about[f"{name}s"], name) for name in ("document", "passage") if about[f"{name}s"] is not None]
    print_lines(target, [f"{', '.join(sizes)}, model {about['model']['name']}"])


def _print_pairs(target: Console, alignment: HitAlignment, most: int) -> None:
    """The strongest pairs of a score, one below the other: of the query document, and of the hit."""
    from ..retrieval.results import FROM_THE_HIT

    parts = "documents" if alignment.whole else "paragraphs"
    for pair, one in alignment.best_pairs(most):
        sentences = "" if one is None else f"; their best sentences {one.cosine:.2f}"
        lines = []
        for side in ("source", "candidate"):
            heading = alignment.heading(side, getattr(pair, side))
            # A paragraph that was compared as a whole is known by its first sentence.
            sentence = alignment.first_sentence(side, getattr(pair, side)) if one is None else getattr(one, side)
            text = alignment.text(side, sentence)
            lines.append(": ".join(filter(None, (heading, text))))
        found = f", {FROM_THE_HIT}" if pair.direction == "candidate" else ""
        cosine = "cosine" if one is None else "mean cosine"
        print_lines(target, [f"   {parts} add {pair.contribution:.4f}, {cosine} {pair.score:.2f}{found}{sentences}"])
        for line in lines:
            print_passage(target, f"     {line}")


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
    margin: str = "0.05",
    output: Annotated[str, OUTPUT],
    model: ModelOptions = ModelOptions(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Mine hard negatives: for every query the documents that a search ranks high and that do not answer it.

    A model that is trained for retrieval learns most from these (graphdoc finetune retrieve, negatives.lists). Left
    out, and counted, are documents that were judged to answer the query, copies and near-duplicates of these, and
    those whose score is close to that of the best answer, since they may well answer the query.

    Usage examples:
      graphdoc mine qmsum.index --queries qmsum --split train --output negatives.jsonl
      graphdoc mine letters/ --queries questions.tsv --by words --output negatives.jsonl
      graphdoc mine wiki.index --queries wikir --by vectors --depth 200 --margin none --output negatives.jsonl.gz

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
    require_name(output)
    outputs = Outputs([index, queries], output=output)

    with quick_imports():
        from ..evaluation import own_documents, read_judgements
        from ..evaluation.trec import leave_out
        from ..retrieval.mining import MiningSettings

    settings = MiningSettings(by, depth, _number("margin", margin))
    # What nothing can be mined for is refused before a model is loaded.
    judged = read_judgements(queries, split=split, text_column=query_column)
    own: Mapping[str, frozenset[str]] = {}
    if source_grade is not None:
        own = own_documents(judged.qrels, source_grade)
        if not own:
            raise EvaluationError(f"{queries}: no judgement has the grade {source_grade}; leave --source-grade out")
        judged = type(judged).of(judged.queries, leave_out(judged.qrels, own), source=judged.source)
    with searched_index(index, model, reading) as opened:
        lists, judged = _mined(opened, judged, own, settings)
    target = outputs.write(output=lists.write)
    assert target is not None
    print_lines(target, lists.describe())
    print_lines(target, [left_out_line(count, reason) for reason, count in judged.left_out.items()])
    for query in [query for query, ids in lists.lists.items() if ids][:_EXAMPLES]:
        shown = ", ".join(lists.lists[query][:_SHOWN])
        answers = ", ".join(judged.positives(query)[:_SHOWN])
        print_lines(
            target, [f"{query}: {one_line(judged.queries[query], 80)}", f"   answers: {answers}; negatives: {shown}"]
        )
    outputs.report(target)


def _number(option: str, value: str) -> float | None:
    """A number, or None for ``none``."""
    if value == "none":
        return None
    try:
        return float(value)
    except ValueError as error:
        raise SettingsError(f"--{option} {value!r} is neither a number nor 'none'") from error


def _mined(
    index: DocumentIndex, judged: Judgements, own: Mapping[str, frozenset[str]], settings: MiningSettings
) -> tuple[NegativeLists, Judgements]:
    """The lists, and the judgements of documents that there are."""
    from ..retrieval.mining import documents_of_index, mine, word_scores

    documents = documents_of_index(index)
    judged = judged.among(documents.rows)
    by_vectors = "vectors" in settings.rankings
    model = index.record
    lists = mine(
        documents,
        {query: judged.positives(query) for query in judged.queries},
        settings,
        words=word_scores(index, judged.queries, settings.depth),
        vectors=index.encoder.encode_query(list(judged.queries.values())) if by_vectors else None,
        never=own,
        record={"model": {"name": model["model"]["name"], "weights": model["weights"]}},
        device=index.encoder.device if by_vectors else "cpu",
    )
    return lists, judged
