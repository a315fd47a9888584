"""graphdoc match: how well pairs of documents match, by a model that reads them view by view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ..documents.readers import ReadingReport
from ..errors import DocumentError, SettingsError
from ..runtime.files import write_csv
from ..runtime.text import counted
from .options import COUNT, WEIGHT, File, Json, ModelOptions
from .output import Outputs, Table, names, titled, write_json
from .sources import CorpusReading, not_empty

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..matching import PairMatch


def match(
    a: str | None = None,
    b: str | None = None,
    /,
    *,
    pairs: str | None = None,
    candidates: str | None = None,
    queries: tuple[str, ...] = (),
    corpus: tuple[str, ...] = (),
    top: Annotated[int, COUNT] = 40,
    weight: Annotated[float, WEIGHT] = 0.0,
    json: Json = None,
    csv: File = None,
    run: File = None,
    model: ModelOptions = ModelOptions(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Score how well documents match, by a model that was trained to (graphdoc finetune views).

    The model reads views of a pair: some sentences of either document, chosen by the subtopics that both share. The
    score of a pair is the highest of its views (cross encoders, whose scores are log-odds) or their mean (dual
    encoders, whose scores are cosines).

    A and B are two documents. --pairs names many: a file of two ids in a line, of the documents in --corpus.
    --candidates names the hits of a first stage, a run in the format of TREC, for --queries in --corpus; they are
    ranked again. Many pairs can be matched by their words too: shared rare words add evidence that the views miss.

    Usage examples:
      graphdoc match a.md b.md --model runs/views/model
      graphdoc match --pairs pairs.tsv --corpus papers/ --model runs/views/model --weight 0.5 --csv scores.csv
      graphdoc match --candidates bm25.run --queries queries.jsonl --corpus cases.jsonl.gz --run matched.run

    Args:
        a: first document: a file, - or corpus.jsonl#ID
        b: second document
        pairs: two ids in a line, with a tab between; a label may follow
        candidates: hits of a first stage, in the format of TREC
        queries: query documents of --candidates; may be repeated
        corpus: documents of --pairs or --candidates; may be repeated
        top: hits of a query that are ranked again
        weight: weight of the words of whole texts in the score, 0 to 1: their TF-IDF cosine and the score of the
            model, each standardised over all pairs
        csv: write a row for every pair; of two documents a row for every sentence of a view
        run: write the ranking in the format of TREC, with --candidates
    """
    outputs = Outputs([a, b, pairs, candidates, *queries, *corpus], json=json, csv=csv, run=run)
    report = ReadingReport()
    many = bool(corpus) and (pairs is None) != (candidates is None) and bool(candidates) == bool(queries)
    if a is not None and b is not None and pairs is None and candidates is None:
        if weight or run:
            raise SettingsError("--weight and --run are for many pairs; give --pairs or --candidates")
        _match_two(outputs, reading.one(a), reading.one(b), model)
        return
    if a is not None or not many:
        raise SettingsError(
            "give two documents A B, or --pairs with --corpus, or --candidates with --queries and --corpus"
        )
    if pairs is not None:
        if run is not None:
            raise SettingsError("--run is a ranking, which --candidates give; leave it out, or use --csv")
        ids, texts, missing = _pairs_of_file(pairs, corpus, reading, report)
    else:
        ids, texts, missing = _hits_of_run(candidates or "", queries, corpus, top, reading, report)

    encoder = model.load()
    from ..evaluation import write_run
    from ..matching import match_pairs
    from ..runtime.progress import progress_bar

    matches: list[PairMatch] = []
    with progress_bar(None, len(texts), doing="Matching", unit="pairs") as bar:
        for matched in match_pairs(encoder, texts):
            matches.append(matched)
            bar.update(1)
    rows: list[dict[str, Any]] = [
        {"a": a, "b": b, "score": match.score, "probability": match.probability}
        for (a, b), match in zip(ids, matches, strict=True)
    ]
    if weight and rows:
        _add_words(rows, matches, weight)
    scores: dict[str, dict[str, float]] = {}
    for row in rows:
        scores.setdefault(row["a"], {})[row["b"]] = row["score"]
    content = {"model": encoder.describe(), **({"weight_of_words": weight} if weight else {})}
    content["pairs"] = [row | {"views": match.to_dict()["views"]} for row, match in zip(rows, matches, strict=True)]
    columns = list(rows[0]) if rows else ["a", "b", "score", "probability"]
    target = outputs.write(
        json=lambda path: write_json(path, content),
        csv=lambda path: write_csv(path, columns, [list(row.values()) for row in rows]),
        run=lambda path: write_run(path, scores),
    )
    if pairs is not None:
        table = Table([names("A", 36), names("B", 36), "score"])
        for row in sorted(rows, key=lambda row: -row["score"]):
            table.add(row["a"], row["b"], row["score"])
        table.print(target, "pair")
    else:
        table = Table([names("query", 30), names("best match", 40), "score", "hits"])
        for query, hits in scores.items():
            best = min(hits, key=lambda id: (-hits[id], id))
            table.add(query, best, hits[best], len(hits))
        table.print(target, "query")
    if missing:
        noun = "pair" if pairs is not None else "hit"
        target.lines([f"left out: {counted(missing, noun)} of unknown documents"])
    outputs.report(target, report)


def _match_two(outputs: Outputs, first: Document, second: Document, model: ModelOptions) -> None:
    encoder = model.load()
    matched = encoder.match(first, second)
    target = outputs.write(json=lambda path: write_json(path, matched.to_dict()), csv=matched.to_csv)
    target.lines([f"A  {titled(first)}", f"B  {titled(second)}"])
    score = f"cosine {matched.score:.3f}"
    if matched.probability is not None:
        score = f"probability that they match {matched.probability:.3f} (log-odds {matched.score:+.3f})"
    target.print(f"\n[bold]{score}[/bold] ({len(matched.views)} views, model {encoder.name})")
    for number, view in enumerate(matched.views, start=1):
        score = "" if view.score is None else f", {view.score:.3f}"
        target.print(f"\n[bold]view {number}[/bold]{score}")
        for side, segmented, sentences in (("A", matched.a, view.a), ("B", matched.b, view.b)):
            for sentence in sentences:
                span = segmented.passages[sentence]
                heading = segmented.document.section_name(span.section)
                target.passage(f"  {side}  {heading}: {segmented.text(span)}")
    target.print()
    for side, beyond in zip("AB", matched.beyond, strict=True):
        if beyond:
            target.lines([f"{side}: {counted(beyond, 'sentence')} beyond the receptive field are in no view"])
    outputs.report(target)


# Ids of pairs, their documents, and how many pairs are left out since a document is not there.
NamedPairs = tuple[list[tuple[str, str]], "list[tuple[Document, Document]]", int]


def _pairs_of_file(file: str, corpus: Sequence[str], reading: CorpusReading, report: ReadingReport) -> NamedPairs:
    from ..documents.readers.pair_files import read_any_pairs

    pairs = read_any_pairs(file)
    documents = _read(reading, corpus, {id for pair in pairs for id in (pair.a, pair.b)}, report)
    known = pairs.among(documents, "leave_out" if reading.on_error == "skip" else "stop", setting="--on-error skip")
    ids = [(pair.a, pair.b) for pair in known]
    return ids, [(documents[a], documents[b]) for a, b in ids], len(pairs) - len(ids)


def _hits_of_run(
    file: str, queries: Sequence[str], corpus: Sequence[str], top: int, reading: CorpusReading, report: ReadingReport
) -> NamedPairs:
    from ..evaluation import read_run
    from ..evaluation.trec import ranked

    pairs = [(query, id) for query, hits in read_run(file).items() for id in ranked(hits)[:top]]
    asking = _read(reading, queries, {query for query, _ in pairs}, report)
    documents = _read(reading, corpus, {id for _, id in pairs}, report)
    ids = [(query, id) for query, id in pairs if query in asking and id in documents]
    missing = len(pairs) - len(ids)
    if missing and (reading.on_error != "skip" or not ids):
        query, id = next(pair for pair in pairs if pair[0] not in asking or pair[1] not in documents)
        unknown = f"query {query!r} in --queries" if query not in asking else f"document {id!r} in --corpus"
        raise DocumentError(
            f"{file}: there is no {unknown}; {missing:,} of {len(pairs):,} hits are unknown; give the files that the "
            "run was made of, or leave such hits out (--on-error skip)"
        )
    return ids, [(asking[query], documents[id]) for query, id in ids], missing


def _read(
    reading: CorpusReading, sources: Sequence[str], wanted: set[str], report: ReadingReport
) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    for document in not_empty(reading.many(sources, report), sources, report):
        if document.id in wanted and document.id in documents:
            raise DocumentError(f"several documents have the id {document.id!r}; give each an id of its own")
        if document.id in wanted:
            documents[document.id] = document
    return documents


def _add_words(rows: list[dict[str, Any]], matches: Sequence[PairMatch], weight: float) -> None:
    """Make scores sums of the model's and of words, each standardised over the pairs, and keep both beside them."""
    if len(rows) == 1:
        raise SettingsError("--weight compares a pair with others, and there is only one; leave it out")
    from ..evaluation import TfidfVectors
    from ..evaluation.pair_scores import standard_scores

    # By the object, since queries and documents may have the same ids.
    documents = [document for match in matches for document in (match.a.document, match.b.document)]
    texts = {id(document): document.text for document in documents}
    places = {key: place for place, key in enumerate(texts)}
    pairs = np.array([places[id(document)] for document in documents]).reshape(-1, 2)
    words = TfidfVectors(list(texts.values())).similarities(pairs)
    scores = (1 - weight) * standard_scores(np.array([match.score for match in matches]))
    scores = scores + weight * standard_scores(words)
    for row, match, score, cosine in zip(rows, matches, scores.tolist(), words.tolist(), strict=True):
        row |= {"score": score, "match": match.score, "words": cosine}
