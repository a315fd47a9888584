"""graphdoc match: how well pairs of documents match, by a model that reads them view by view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ..documents.readers import ReadingReport
from ..errors import DocumentError, SettingsError
from ..runtime.files import write_csv
from ..runtime.text import counted
from .options import WEIGHT, File, Json, ModelOptions
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
    corpus: tuple[str, ...] = (),
    weight: Annotated[float, WEIGHT] = 0.0,
    json: Json = None,
    csv: File = None,
    model: ModelOptions = ModelOptions(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Score how well documents match, by a model that was trained to (graphdoc finetune views).

    The model reads views of a pair: some sentences of either document, chosen by the subtopics that both share. The
    score of a pair is the highest of its views (cross encoders, whose scores are log-odds) or their mean (dual
    encoders, whose scores are cosines).

    A and B are two documents. --pairs names many: a file of two ids in a line, of the documents in --corpus. These can
    be matched by their words too: shared rare words add evidence that the views miss.

    Usage examples:
      graphdoc match a.md b.md --model runs/views/model
      graphdoc match --pairs pairs.tsv --corpus papers/ --model runs/views/model --weight 0.5 --csv scores.csv

    Args:
        a: first document: a file, - or corpus.jsonl#ID
        b: second document
        pairs: two ids in a line, with a tab between; a label may follow
        corpus: documents of --pairs; may be repeated
        weight: weight of the words of whole texts in the score, 0 to 1: their TF-IDF cosine and the score of the
            model, each standardized over all pairs
        csv: write a row for every pair; of two documents a row for every sentence of a view
    """
    outputs = Outputs([a, b, pairs, *corpus], json=json, csv=csv)
    if a is not None and b is not None and pairs is None and not weight:
        _match_two(outputs, reading.document(a), reading.document(b), model)
    elif a is None and pairs is not None and corpus:
        _match_many(outputs, pairs, corpus, weight, model, reading)
    else:
        raise SettingsError("give two documents A B, or --pairs with --corpus, which --weight is for")


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
                target.passage(f"  {side}  {segmented.document.section_name(span.section)}: {segmented.text(span)}")
    target.print()
    for side, beyond in zip("AB", matched.beyond, strict=True):
        if beyond:
            target.lines([f"{side}: {counted(beyond, 'sentence')} beyond the receptive field are in no view"])
    outputs.report(target)


def _match_many(
    outputs: Outputs, file: str, corpus: Sequence[str], weight: float, model: ModelOptions, reading: CorpusReading
) -> None:
    from ..documents.readers.pair_files import read_any_pairs

    report = ReadingReport()
    every = read_any_pairs(file)
    wanted = {id for pair in every for id in (pair.a, pair.b)}
    documents: dict[str, Document] = {}
    for document in not_empty(reading.documents(corpus, report), corpus, report):
        if document.id in wanted and documents.setdefault(document.id, document) is not document:
            raise DocumentError(f"several documents have the id {document.id!r}; give each its own id")
    pairs = every.among(documents, "leave_out" if reading.on_error == "skip" else "stop", setting="--on-error skip")

    encoder = model.load()
    from ..matching import match_pairs
    from ..runtime.progress import progress_bar

    matches: list[PairMatch] = []
    with progress_bar(None, len(pairs), doing="Matching", unit="pairs") as bar:
        for matched in match_pairs(encoder, ((documents[pair.a], documents[pair.b]) for pair in pairs)):
            matches.append(matched)
            bar.update(1)
    rows: list[dict[str, Any]] = [
        {"a": pair.a, "b": pair.b, "score": match.score, "probability": match.probability}
        for pair, match in zip(pairs, matches, strict=True)
    ]
    if weight and rows:
        _add_words(rows, matches, weight)
    matched_pairs = [row | {"views": match.to_dict()["views"]} for row, match in zip(rows, matches, strict=True)]
    content = {"model": encoder.describe(), "weight_of_words": weight, "pairs": matched_pairs}
    columns = list(rows[0]) if rows else ["a", "b", "score", "probability"]
    target = outputs.write(
        json=lambda path: write_json(path, content),
        csv=lambda path: write_csv(path, columns, [list(row.values()) for row in rows]),
    )
    table = Table([names("A", 36), names("B", 36), "score"])
    for row in sorted(rows, key=lambda row: -row["score"]):
        table.add(row["a"], row["b"], row["score"])
    table.print(target, "pair")
    if missing := len(every) - len(pairs):
        target.lines([f"left out: {counted(missing, 'pair')} of unknown documents"])
    outputs.report(target, report)


def _add_words(rows: list[dict[str, Any]], matches: Sequence[PairMatch], weight: float) -> None:
    """Make scores sums of the model's and of words, each standardized over the pairs, and keep both with them."""
    if len(rows) == 1:
        raise SettingsError("--weight compares a pair with others, and there is only one; leave it out")
    from ..evaluation.baselines import TfidfVectors
    from ..evaluation.pair_scores import standard_scores

    documents = {document.id: document.text for match in matches for document in (match.a.document, match.b.document)}
    row_of = {id: number for number, id in enumerate(documents)}
    pairs = np.array([(row_of[row["a"]], row_of[row["b"]]) for row in rows])
    words = TfidfVectors(list(documents.values())).similarities(pairs)
    scores = (1 - weight) * standard_scores(np.array([match.score for match in matches]))
    scores = scores + weight * standard_scores(words)
    for row, match, score, cosine in zip(rows, matches, scores.tolist(), words.tolist(), strict=True):
        row |= {"score": score, "match": match.score, "words": cosine}
