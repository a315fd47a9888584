"""The sets of a file of sets, read: documents in parts, pairs and judgements."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import EvaluationError
from ..runtime.text import counted
from .labelled_parts import SPLIT_COLUMN
from .sources import encodable, read_many

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder
    from ..evaluation.measured_set import MeasuredSet
    from ..settings.measured_sets import MeasuredSet as SetSettings


def chosen_sets(sets: Sequence[SetSettings], only: Sequence[str] | None) -> list[SetSettings]:
    """The sets that are asked for.

    Args:
        sets: all sets of the file.
        only: names of those that are measured; None for all.

    Raises:
        EvaluationError: there is no set of a name.
    """
    known = {one.name: one for one in sets}
    for name in only or ():
        if name not in known:
            raise EvaluationError(f"--only {name!r} is no set of the file; use one of {', '.join(known)}")
    return [one for one in sets if only is None or one.name in only]


def read_set(
    settings: SetSettings, options: argparse.Namespace, report: ReadingReport, encoder: DocumentEncoder
) -> tuple[MeasuredSet, str]:
    """Read a set.

    Args:
        settings: what it is.
        options: the arguments.
        report: is filled while documents are read.
        encoder: a model; documents that give it no passages are left out and listed.

    Returns:
        The set; how large it is, in words.

    Raises:
        EvaluationError: nothing can be measured on it.
        DocumentError: documents or pairs cannot be read.
    """
    from ..documents.readers.pair_files import Pairs, read_pair_file
    from ..evaluation import LabelledDocuments, read_judgements
    from ..evaluation.measured_set import MeasuredSet

    train, test, others = _parts(settings, options, report)
    train, test, others = (list(encodable(part, encoder, report)) for part in (train, test, others))
    everything = {one.id: one for one in (*others, *train, *test)}
    labelled = [{name for (name,) in LabelledDocuments.of(part).labels} for part in (train, test)]
    labels = all(len(found) > 1 for found in labelled) if settings.labels is None else settings.labels
    notes = []
    pairs = Pairs(())
    if settings.pairs is not None:
        given = read_pair_file(settings.pairs)
        given.require_agreement()
        there = given.among(everything, "leave_out")
        pairs = there.chosen([number for number, pair in enumerate(there) if pair.a != pair.b])
        if left := len(given) - len(pairs):
            notes.append(f"{counted(left, 'pair')} left out, of documents that are not there or of one with itself")
    judgements = None
    if settings.judged is not None:
        read = read_judgements(settings.judged, only=settings.only, text_column=settings.query_column)
        judgements = read.among(everything)
        notes += [f"{count:,} {reason}" for reason, count in judgements.left_out.items()]
    data = MeasuredSet(
        settings.name,
        train,
        test,
        others,
        labels=labels,
        without=settings.without,
        pairs=pairs,
        random_pairs=settings.random_pairs,
        judgements=judgements,
        own_grade=settings.own_grade,
        measures=settings.measures,
    )
    sizes = [f"{counted(len(everything), 'document')}"]
    if labels:
        sizes.append(f"{len(train):,} for fitting and {len(test):,} for testing with {len(labelled[1])} labels")
    if pairs:
        sizes.append(counted(len(pairs), "pair"))
    if judgements is not None:
        sizes.append(counted(len(judgements), "query"))
    return data, ", ".join(sizes) + "".join(f"; {note}" for note in notes)


def _parts(
    settings: SetSettings, options: argparse.Namespace, report: ReadingReport
) -> tuple[list[Document], list[Document], list[Document]]:
    """Documents for fitting, for testing and others."""
    parts: dict[str, list[Document]] = {"train": [], "test": [], "others": []}
    if settings.test:
        for name, sources in (("train", settings.train), ("test", settings.test)):
            parts[name] = _read(sources, settings, options, report) if sources else []
    else:
        for document in _read(settings.documents, settings, options, report):
            split = str(document.metadata.get(SPLIT_COLUMN))
            part = "test" if split == settings.test_split else split if split == "train" else "others"
            parts[part].append(document)
    return tuple(_drawn(part, settings.most_documents) for part in parts.values())  # type: ignore[return-value]


def _read(
    sources: Sequence[str], settings: SetSettings, options: argparse.Namespace, report: ReadingReport
) -> list[Document]:
    from ..documents.readers.left_out_sections import LeftOutSections

    documents = read_many(list(sources), options, report)
    if not settings.leave_out_sections:
        return list(documents)
    sections = LeftOutSections(tuple(dict.fromkeys(settings.leave_out_sections)))
    kept = list(sections.without(documents))
    if unused := [heading for heading, count in sections.counts.items() if not count]:
        raise EvaluationError(
            f"set {settings.name!r}: no document has a section {unused[0]!r}; check leave_out_sections"
        )
    return kept


def _drawn(documents: list[Document], most: int | None) -> list[Document]:
    """So many documents in their order, drawn from all of them by a fixed seed."""
    if most is None or len(documents) <= most:
        return documents
    import numpy as np

    rows = np.random.default_rng(0).permutation(len(documents))[:most]
    return [documents[row] for row in sorted(rows.tolist())]
