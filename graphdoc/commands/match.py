"""graphdoc match: how well pairs of documents match, by a model that reads them view by view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from ..documents.readers import ReadingReport
from ..errors import DocumentError, SettingsError
from ..runtime.files import write_csv
from ..runtime.text import counted
from .options import COUNT, WEIGHT, Csv, File, IndexModel, Json
from .output import Outputs, write_json
from .printing import Table, list_left_out, names, print_lines, print_passage
from .sources import CorpusReading, no_documents

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
    model: IndexModel = IndexModel(),
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
    many = _Many(outputs, model, reading, weight)
    if pairs is not None and run is None:
        many.match_pairs(pairs, corpus)
    elif candidates is not None:
        many.match_run(candidates, queries, corpus, top)
    else:
        raise SettingsError("--run is a ranking, which --candidates give; leave it out, or use --csv")


def _match_two(outputs: Outputs, documents: list[Document], model: IndexModel) -> None:
    encoder = model.load()
    matched = encoder.match(documents[0], documents[1])
    target = outputs.write(json=lambda path: write_json(path, matched.to_dict()), csv=matched.to_csv)
    if target is None:
        return
    for side, document in zip("AB", documents, strict=True):
        title = f"{document.title} [{document.id}]" if document.title else document.id
        print_lines(target, [f"{side}  {title}"])
    target.print(f"\n[bold]{_score_in_words(matched)}[/bold] ({len(matched.views)} views, model {encoder.name})")
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


def _score_in_words(matched: PairMatch) -> str:
    if matched.probability is None:
        return f"cosine {matched.score:.3f}"
    return f"probability that they match {matched.probability:.3f} (log-odds {matched.score:+.3f})"


@dataclass(frozen=True, slots=True)
class MatchedRow:
    """A pair and its score.

    Args:
        a: id of the first document.
        b: id of the second.
        match: what the model says.
        score: the score: that of the model, or with words the sum of both.
        words: TF-IDF cosine of both texts; None where words do not count.
    """

    a: str
    b: str
    match: PairMatch
    score: float
    words: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row of a table; with words also the score of the model."""
        row: dict[str, Any] = {"a": self.a, "b": self.b, "score": self.score, "probability": self.match.probability}
        return row if self.words is None else row | {"match": self.match.score, "words": self.words}


@dataclass(frozen=True)
class _Many:
    """Matches many pairs, prints and writes them."""

    outputs: Outputs
    model: IndexModel
    reading: CorpusReading
    weight: float

    def match_pairs(self, file: str, corpus: Sequence[str]) -> None:
        from ..documents.readers.pair_files import read_any_pairs

        report = ReadingReport()
        pairs = read_any_pairs(file)
        documents = self._read(corpus, {id for pair in pairs for id in (pair.a, pair.b)}, report)
        unknown: Literal["leave_out", "stop"] = "leave_out" if self.reading.on_error == "skip" else "stop"
        known = pairs.among(documents, unknown, setting="--on-error skip")
        encoder = self.model.load()
        matches = self._matches(encoder, [(documents[pair.a], documents[pair.b]) for pair in known])
        rows = matched_rows(((pair.a, pair.b) for pair in known), matches, self.weight)
        table = Table([names("A", 36), names("B", 36), "score"])
        for row in sorted(rows, key=lambda row: -row.score):
            table.add(row.a, row.b, row.score)
        self._write(encoder, rows, report, table, "pair", len(pairs) - len(known), "pair")

    def match_run(self, file: str, queries: Sequence[str], corpus: Sequence[str], top: int) -> None:
        from ..evaluation.trec import ranked, read_run, write_run

        report = ReadingReport()
        hits_of = {query: ranked(hits)[:top] for query, hits in read_run(file).items()}
        asked = self._read(queries, set(hits_of), report)
        documents = self._read(corpus, {id for hits in hits_of.values() for id in hits}, report)
        pairs = [(query, id) for query, hits in hits_of.items() for id in hits]
        known = [(query, id) for query, id in pairs if query in asked and id in documents]
        missing = len(pairs) - len(known)
        if missing and (self.reading.on_error != "skip" or not known):
            query, id = next(pair for pair in pairs if pair[0] not in asked or pair[1] not in documents)
            unknown = f"query {query!r} in --queries" if query not in asked else f"document {id!r} in --corpus"
            raise DocumentError(
                f"{file}: there is no {unknown}, and so it is with {missing:,} of {len(pairs):,} hits; give the files "
                "that the run was made of, or leave such hits out (--on-error skip)"
            )
        encoder = self.model.load()
        matches = self._matches(encoder, [(asked[query], documents[id]) for query, id in known])
        rows = matched_rows(known, matches, self.weight)
        scores: dict[str, dict[str, float]] = {}
        for row in rows:
            scores.setdefault(row.a, {})[row.b] = row.score
        table = Table([names("query", 30), names("best match", 40), "score", "hits"])
        for query, hits in scores.items():
            best = ranked(hits)[0]
            table.add(query, best, hits[best], len(hits))
        self._write(encoder, rows, report, table, "query", missing, "hit", run=lambda path: write_run(path, scores))

    def _read(self, sources: Sequence[str], wanted: set[str], report: ReadingReport) -> dict[str, Document]:
        documents: dict[str, Document] = {}
        is_empty = True
        for document in self.reading.many(sources, report):
            is_empty = False
            if document.id in wanted and document.id in documents:
                raise DocumentError(f"several documents have the id {document.id!r}; give each an id of its own")
            if document.id in wanted:
                documents[document.id] = document
        if is_empty:
            raise no_documents(sources, report)
        return documents

    def _matches(self, encoder: DocumentEncoder, pairs: list[tuple[Document, Document]]) -> list[PairMatch]:
        from ..matching import match_pairs
        from ..runtime.progress import progress_bar

        matches = []
        with progress_bar(None, len(pairs), doing="Matching", unit="pairs") as bar:
            for matched in match_pairs(encoder, pairs):
                bar.update(1)
                matches.append(matched)
        return matches

    def _write(
        self,
        encoder: DocumentEncoder,
        rows: list[MatchedRow],
        report: ReadingReport,
        table: Table,
        noun: str,
        missing: int,
        missing_noun: str,
        **writers: Callable[[str], object],
    ) -> None:
        values = [row.to_dict() for row in rows]
        content = {
            "model": encoder.describe(),
            **({"weight_of_words": self.weight} if self.weight else {}),
            "pairs": [
                row_values | {"views": row.match.to_dict()["views"]}
                for row_values, row in zip(values, rows, strict=True)
            ],
        }
        columns = list(values[0]) if values else ["a", "b", "score", "probability"]
        target = self.outputs.write(
            json=lambda path: write_json(path, content),
            csv=lambda path: write_csv(path, columns, [list(row.values()) for row in values]),
            **writers,
        )
        if target is None:
            return
        table.print(target, noun)
        if missing:
            print_lines(target, [f"left out: {counted(missing, missing_noun)} of unknown documents"])
        list_left_out(target, report)
        self.outputs.report(target)


def matched_rows(ids: Iterable[tuple[str, str]], matches: Sequence[PairMatch], weight: float) -> list[MatchedRow]:
    """The rows of pairs, in their order.

    Args:
        ids: ids of both documents of every pair.
        matches: what the model says of it.
        weight: weight of words, from 0 to 1; the model has the rest.

    Raises:
        SettingsError: words are asked for, and there are no pairs to compare a pair with.
    """
    if not weight:
        return [MatchedRow(a, b, match, match.score) for (a, b), match in zip(ids, matches, strict=True)]
    if len(matches) == 1:
        raise SettingsError("--weight compares a pair with others, and one alone is known; leave it out")
    if not matches:
        return []
    from ..evaluation.pair_scores import standard_scores

    words = _tfidf(matches)
    model = np.array([match.score for match in matches])
    scores = (1 - weight) * standard_scores(model) + weight * standard_scores(words)
    rows = zip(ids, matches, scores.tolist(), words.tolist(), strict=True)
    return [MatchedRow(a, b, match, score, own) for (a, b), match, score, own in rows]


def _tfidf(matches: Sequence[PairMatch]) -> npt.NDArray[np.float64]:
    from ..evaluation.baselines import tfidf_similarities

    texts: list[str] = []
    # By the object, since queries and documents may have the same ids.
    places: dict[int, int] = {}
    pairs = []
    for match in matches:
        pair = []
        for document in (match.a.document, match.b.document):
            if id(document) not in places:
                places[id(document)] = len(texts)
                texts.append(document.text)
            pair.append(places[id(document)])
        pairs.append(pair)
    return tfidf_similarities(texts, np.array(pairs, np.int64))
