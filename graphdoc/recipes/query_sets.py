"""The queries of a run: those that are trained on, measured meanwhile, and tested at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..corpus.report import CorpusReport
from ..corpus.source import CorpusSource, nothing_to_train_on
from ..documents.readers.lines import numbered_lines
from ..documents.section import clean_text
from ..errors import DocumentError, EvaluationError
from ..evaluation import Judgements, own_documents, read_judgements
from ..evaluation.resampling import folds_of
from ..evaluation.trec import leave_out
from ..runtime.text import left_out_line
from ..sampling.draws import random_generator
from ..settings.retrieve import TEXT_COLUMN, RetrievalSettings
from .made_queries import make_queries

# A fold in a file.
_WHOLE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class QuerySets:
    """The queries of a run.

    Args:
        train: those that are trained on.
        validation: those that are measured while the model is trained; None for none.
        test: those of the fold that is tested; None without folds.
        own: documents by query id that queries were made of, which are neither answers nor negatives.
        made: how many queries were made of what.
        left_out: how many were left out, by reason.
        seen: queries to measure whose text is trained on too.
    """

    train: Judgements
    validation: Judgements | None
    test: Judgements | None
    own: Mapping[str, frozenset[str]] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    seen: int = 0

    def describe(self) -> list[str]:
        """What there is to train on and to measure, in a few lines."""
        lines = []
        if self.made:
            kinds = [f"{count:,} of {kind.replace('_', ' ')}" for kind, count in self.made.items()]
            lines.append(f"queries made of documents: {', '.join(kinds)}")
        parts = [("to train on", self.train), ("to measure", self.validation), ("to test", self.test)]
        lines.append(", ".join(f"{queries_counted(len(one))} {what}" for what, one in parts if one is not None))
        lines += [left_out_line(count, reason) for reason, count in self.left_out.items()]
        if self.own:
            lines.append(f"documents that queries were made of, and which they do not look for: {len(self.own):,}")
        if self.seen:
            lines.append(f"{queries_counted(self.seen)} to measure with a text that is trained on too")
        return lines


def read_query_sets(settings: RetrievalSettings) -> QuerySets:
    """Read the queries of a run, or make them of its documents, and divide them.

    Args:
        settings: the settings of the run.

    Raises:
        EvaluationError: queries or judgements cannot be read, or none are left to train on.
        DocumentError: queries are made of documents, and there are none.
    """
    queries, validation = settings.queries, settings.validation
    made: dict[str, int] = {}
    left_out: dict[str, int] = {}
    measured: Judgements | None
    if queries.made_from:
        report = CorpusReport()
        documents = CorpusSource(settings.corpus.replace(leave_out_first_sentence=False)).documents(report)
        try:
            given, made, left_out = make_queries(
                (document for _, document in documents),
                queries.made_from,
                queries.most_documents,
                settings.corpus.name,
            )
        except EvaluationError:
            if report.documents:
                raise
            raise nothing_to_train_on(settings.corpus, report) from None
    else:
        given = _read(settings, queries.source or "", queries.split)
    own = {} if queries.own_grade is None else own_documents(given.qrels, queries.own_grade)
    given = _without_own(given, own, queries.own_grade)
    left_out |= given.left_out
    test, left = _fold(settings, given)
    if validation.source is not None or validation.split is not None:
        measured = _read(settings, validation.source or queries.source or "", validation.split)
        if queries.own_grade is not None:
            measured_own = own_documents(measured.qrels, queries.own_grade)
            measured, own = _without_own(measured, measured_own, queries.own_grade), {**own, **measured_own}
        if validation.source in (None, queries.source):
            # Those that are tested do not choose the checkpoint.
            tested = {} if test is None else test.queries
            measured = _chosen(measured, [query for query in measured.queries if query not in tested], "to measure")
            known = measured.queries
            left = _chosen(left, [query for query in left.queries if query not in known])
    else:
        measured, left = _held_out(settings, left)
    if measured is not None and validation.most_queries is not None:
        order = random_generator(settings.training.seed, "most queries").permutation(sorted(measured.queries))
        measured = _chosen(measured, order[: validation.most_queries].tolist())
    texts = set(left.queries.values())
    return QuerySets(
        train=left,
        validation=measured,
        test=test,
        own=own,
        made=made,
        left_out=left_out,
        seen=sum(text in texts for text in (measured.queries.values() if measured is not None else ())),
    )


def queries_counted(number: int) -> str:
    """A number of queries in words, such as ``1 query``."""
    return f"{number:,} {'query' if number == 1 else 'queries'}"


def _read(settings: RetrievalSettings, source: str, split: str | None) -> Judgements:
    queries = settings.queries
    is_same, is_folder = source == queries.source, Path(source).is_dir()
    return read_judgements(
        source,
        split=split,
        only=queries.only if is_same else (),
        text_column=queries.text_column if is_folder or is_same else TEXT_COLUMN,
    )


def _without_own(given: Judgements, own: Mapping[str, frozenset[str]], grade: int | None) -> Judgements:
    """Judgements without the documents that queries were made of."""
    if grade is None:
        return given
    if not own:
        raise EvaluationError(
            f"{given.source}: no judgement has the grade queries.own_grade={grade}; leave it out, or check the grades"
        )
    left = Judgements.of(given.queries, leave_out(given.qrels, own), source=given.source)
    return replace(
        left,
        without_positive=(*given.without_positive, *left.without_positive),
        without_text=given.without_text,
        unknown_queries=given.unknown_queries,
    )


def _fold(settings: RetrievalSettings, given: Judgements) -> tuple[Judgements | None, Judgements]:
    """The queries of the fold that is tested, and the others."""
    folds = settings.folds
    if folds.number is None or folds.fold is None:
        return None, given
    ids = list(given.queries)
    if folds.file is not None:
        by_query = _read_folds(folds.file, folds.number)
        if missing := next((id for id in ids if id not in by_query), None):
            raise EvaluationError(f"{folds.file}: query {missing!r} has no fold; give every query one")
        numbers = [by_query[id] for id in ids]
    else:
        if len(ids) < folds.number:
            raise EvaluationError(
                f"{given.source}: there are {queries_counted(len(ids))} for folds.number={folds.number}; give more "
                "queries, or fewer folds"
            )
        numbers = (folds_of(ids, folds.number, folds.seed) + 1).tolist()
    tested = {id for id, number in zip(ids, numbers, strict=True) if number == folds.fold}
    if not tested or len(tested) == len(ids):
        raise EvaluationError(
            f"{folds.file or given.source}: folds.fold={folds.fold} has {len(tested):,} of "
            f"{queries_counted(len(ids))}; there have to be some to test, and others to train on"
        )
    return _chosen(given, [id for id in ids if id in tested]), _chosen(given, [id for id in ids if id not in tested])


def _read_folds(path: str, number: int) -> dict[str, int]:
    """The fold of every query of a file."""
    result: dict[str, int] = {}
    try:
        for line_number, line in numbered_lines(path):
            query, _, cell = (part.strip() for part in clean_text(line).strip().partition("\t"))
            fold = int(cell) if _WHOLE.fullmatch(cell) else 0
            if not query or not 1 <= fold <= number:
                raise EvaluationError(
                    f"{path}:{line_number}: the id of a query and its fold, 1 to {number}, are expected with a tab "
                    "between; mend the line"
                )
            if (before := result.setdefault(query, fold)) != fold:
                raise EvaluationError(
                    f"{path}:{line_number}: query {query!r} has the fold {fold}, but {before} in a line before; keep "
                    "one of the two"
                )
    except DocumentError as error:
        raise EvaluationError(str(error)) from error.__cause__
    return result


def _held_out(settings: RetrievalSettings, given: Judgements) -> tuple[Judgements | None, Judgements]:
    """Queries that are measured and not trained on, and the others; of made queries all of a document together."""
    share = settings.validation.share
    if not share:
        return None, given
    unit: Callable[[str], str] = (lambda query: given.positives(query)[0]) if settings.queries.made_from else str
    units = {query: unit(query) for query in given.queries}
    there = sorted(set(units.values()))
    count = max(1, round(len(there) * share))
    if count >= len(there):
        raise EvaluationError(
            f"{given.source}: validation.share={share:g} of {queries_counted(len(units))} leaves none to train on; "
            "give more queries, or lower it"
        )
    held_out = set(random_generator(settings.training.seed, "validation").permutation(there)[:count].tolist())
    return (
        _chosen(given, [query for query, one in units.items() if one in held_out]),
        _chosen(given, [query for query, one in units.items() if one not in held_out]),
    )


def _chosen(given: Judgements, ids: Sequence[str] | Collection[str], what: str = "to train on") -> Judgements:
    """Some of the queries, with their judgements; what was left out stays with those that are many."""
    if not ids:
        raise EvaluationError(
            f"{given.source}: none of {queries_counted(len(given))} is left {what}; give more queries, or measure and "
            "test fewer"
        )
    return Judgements({id: given.queries[id] for id in ids}, {id: given.qrels[id] for id in ids}, given.source)
