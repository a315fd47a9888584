"""What is learned when a model is fitted to a corpus, as users say it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from ..errors import SettingsError
from ..runtime.processes import Processes
from ..segmentation.spans import SegmentedDocument
from ..settings.document import DocumentSettings
from ..settings.lexical import LEARNED_WEIGHT, LexicalFit
from .fitting import Fit, fit
from .inputs import AnyDocument
from .pipeline import EncodingPipeline, StreamOptions

logger = logging.getLogger("graphdoc")


class FitOptions(StreamOptions, total=False):
    """What is learned of documents, and how these are encoded.

    Args:
        centre: learn the mean passage vector, which is then taken off all passages, queries and sentences; so it is
            unless said otherwise.
        lexical: also learn a lexical part, which puts the words of a text beside its vector (see
            :mod:`graphdoc.modeling.lexical`); True for the usual settings, or fields of
            :class:`~graphdoc.settings.lexical.LexicalFit`.
        lexical_weight: length of that part beside vectors of length 1; None takes 0.85 for one
            that is learned of the documents, and leaves the model's setting for random numbers.
        corpus: what the documents are, for the model card.
        processes: the processes that share the work, all of which have to call; None for this one alone.
    """

    centre: bool
    lexical: bool | LexicalFit | Mapping[str, Any]
    lexical_weight: float | None
    corpus: str
    processes: Processes | None


def fit_as(
    pipeline: EncodingPipeline,
    documents: Iterable[AnyDocument | SegmentedDocument] | AnyDocument,
    *,
    centre: bool = True,
    lexical: bool | LexicalFit | Mapping[str, Any] = False,
    lexical_weight: float | None = None,
    corpus: str = "",
    processes: Processes | None = None,
    **options: Unpack[StreamOptions],
) -> Fit:
    """Fit a model to documents, and change its settings with it (see :class:`FitOptions`).

    Raises:
        ModelError: there are fewer than two documents, all are alike, or no word occurs in enough of them.
        SettingsError: a setting is out of range, or nothing is learned.
    """
    how = LexicalFit() if lexical is True else lexical or None
    changes: dict[str, Any] = {} if lexical_weight is None else {"lexical_weight": lexical_weight}
    DocumentSettings(**changes)
    if how is not None and not isinstance(how, LexicalFit):
        how = LexicalFit(**how)
    if how is not None and how.projection == "decomposition":
        changes.setdefault("lexical_weight", LEARNED_WEIGHT)
    if not centre and how is None:
        raise SettingsError("centre=False without lexical leaves nothing to fit; set one of them")
    head, centred = pipeline.model.head, pipeline.model.centre is not None
    found = fit(pipeline, documents, centre=centre, lexical=how, corpus=corpus, processes=processes, **options)
    if head is not None and (centre or centred or head.words is not None):
        logger.warning(
            "%s: the head read vectors as they were before this fit, and is taken away; fit or train a new one "
            "(graphdoc fit --classes, graphdoc finetune classify)",
            pipeline.name,
        )
        pipeline.model.remove_head(subtopics=False)
    for name, value in changes.items():
        setattr(pipeline.model.config, name, value)
    return found
