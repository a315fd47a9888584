"""graphdoc match: how well pairs of documents match, by a model that reads them view by view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np

from ..documents.readers import ReadingReport
from ..errors import DocumentError, SettingsError
from ..runtime.files import write_csv
from ..runtime.text import counted
from .options import COUNT, WEIGHT, Csv, File, Json, ModelOptions
from .output import Outputs, Table, list_left_out, names, print_lines, print_passage, write_json
from .sources import CorpusReading, not_empty

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder
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
    csv: Csv = None,
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
    if a is not None and b is not None and pairs is None and candidates is None:
        if weight or run:
            raise SettingsError("--weight and --run are for many pairs; give --pairs or --candidates")
        _match_two(outputs, [reading.one(a), reading.one(b)], model)
        return
    if a is not None or (pairs is None) == (candidates is None) or not corpus or bool(candidates) != bool(queries):
        raise SettingsError(
            "give two documents A B, or --pairs with --corpus, or --candidates with --queries, --corpus"
        )
    if run is not None and candidates is None:
        raise SettingsError("--run is a ranking, which --candidates give; leave it out, or use --csv")
    report = ReadingReport()
    named = (
        _pairs_of_file(pairs, corpus, reading, report)
        if pairs is not None
        else _hits_of_run(candidates or "", queries, corpus, top, reading, report)
    )
    encoder = model.load()
    matches = _matches(encoder, named.documents)
    rows = _rows(named.ids, matches, weight)
    scores: dict[str, dict[str, float]] = {}
    for row in rows:
        scores.setdefault(row["a"], {})[row["b"]] = row["score"]
    content = {
        "model": encoder.describe(),
        **({"weight_of_words": weight} if weight else {}),
        "pairs": [row | {"views": match.to_dict()["views"]} for row, match in zip(rows, matches, strict=True)],
    }
    columns = list(rows[0]) if rows else ["a", "b", "score", "probability"]

    def write_run(path: str) -> None:
        from ..evaluation import write_run

        write_run(path, scores)

    target = outputs.write(
        json=lambda path: write_json(path, content),
        csv=lambda path: write_csv(path, columns, [list(row.values()) for row in rows]),
        run=write_run,
    )
    if target is None:
        return
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
    if named.missing:
        noun = "pair" if pairs is not None else "hit"
        print_lines(target, [f"left out: {counted(named.missing, noun)} of unknown documents"])
    list_left_out(target, report)
    outputs.report(target)


def _match_two(outputs: Outputs, documents: list[Document], model: ModelOptions) -> None:
    encoder = model.load()
    matched = encoder.match(documents[0], documents[1])
    target = outputs.write(json=lambda path: write_json(path, matched.to_dict()), csv=matched.to_csv)
    if target is None:
        return
    for side, document in zip("AB", documents, strict=True):
        title = f"{document.title} [{document.id}]" if document.title else document.id
        print_lines(target, [f"{side}  {title}"])
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
                print_passage(target, f"  {side}  {heading}: {segmented.text(span)}")
    target.print()
    for side, beyond in zip("AB", matched.beyond, strict=True):
        if beyond:
            print_lines(target, [f"{side}: {counted(beyond, 'sentence')} beyond the receptive field are in no view"])
    outputs.report(target)


class _NamedPairs(NamedTuple):
    """Pairs that a file names, those whose documents are there, and how many are not."""

    ids: list[tuple[str, str]]
    documents: list[tuple[Document, Document]]
    missing: int


def _pairs_of_file(file: str, corpus: Sequence[str], reading: CorpusReading, report: ReadingReport) -> _NamedPairs:
    from ..documents.readers.pair_files import read_any_pairs

    pairs = read_any_pairs(file)
    documents = _read(reading, corpus, {id for pair in pairs for id in (pair.a, pair.b)}, report)
    unknown: Literal["leave_out", "stop"] = "leave_out" if reading.on_error == "skip" else "stop"
    ids = [(pair.a, pair.b) for pair in pairs.among(documents, unknown, setting="--on-error skip")]
    return _NamedPairs(ids, [(documents[a], documents[b]) for a, b in ids], len(pairs) - len(ids))


def _hits_of_run(
    file: str, queries: Sequence[str], corpus: Sequence[str], top: int, reading: CorpusReading, report: ReadingReport
) -> _NamedPairs:
    from ..evaluation import read_run
    from ..evaluation.trec import ranked

    hits_of = {query: ranked(hits)[:top] for query, hits in read_run(file).items()}
    asked = _read(reading, queries, set(hits_of), report)
    documents = _read(reading, corpus, {id for hits in hits_of.values() for id in hits}, report)
    pairs = [(query, id) for query, hits in hits_of.items() for id in hits]
    ids = [(query, id) for query, id in pairs if query in asked and id in documents]
    missing = len(pairs) - len(ids)
    if missing and (reading.on_error != "skip" or not ids):
        query, id = next(pair for pair in pairs if pair[0] not in asked or pair[1] not in documents)
        unknown = f"query {query!r} in --queries" if query not in asked else f"document {id!r} in --corpus"
        raise DocumentError(
            f"{file}: there is no {unknown}, and so it is with {missing:,} of {len(pairs):,} hits; give the files "
            "that the run was made of, or leave such hits out (--on-error skip)"
        )
    return _NamedPairs(ids, [(asked[query], documents[id]) for query, id in ids], missing)


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


def _matches(encoder: DocumentEncoder, pairs: list[tuple[Document, Document]]) -> list[PairMatch]:
    from ..matching import match_pairs
    from ..runtime.progress import progress_bar

    matches = []
    with progress_bar(None, len(pairs), doing="Matching", unit="pairs") as bar:
        for matched in match_pairs(encoder, pairs):
            bar.update(1)
            matches.append(matched)
    return matches


def _rows(ids: Sequence[tuple[str, str]], matches: Sequence[PairMatch], weight: float) -> list[dict[str, Any]]:
    """The rows of a table of pairs; with words their scores are sums, beside which both parts stand."""
    rows: list[dict[str, Any]] = [
        {"a": a, "b": b, "score": match.score, "probability": match.probability}
        for (a, b), match in zip(ids, matches, strict=True)
    ]
    if not weight or not rows:
        return rows
    if len(rows) == 1:
        raise SettingsError("--weight compares a pair with others, and one alone is known; leave it out")
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
    return rows
