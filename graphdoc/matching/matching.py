"""Matching documents: pairs in, scores with their views and subtopics out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, TypedDict, Unpack

from ..errors import ModelError, SettingsError
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import Precision
from ..inference.segmenting import AnyDocument, Workers, as_document
from ..segmentation.spans import SegmentedDocument
from ..settings.views import Aggregation
from .drawing import MANY_PAIRS, draw_in_order
from .matcher import PairDocument, PairMatcher, ViewPair
from .result import MatchedView, PairMatch

# Documents that are kept ready beside those of the pair at hand: pairs of one query follow each other.
_KEPT = 512

AnyPair = tuple[AnyDocument | SegmentedDocument, AnyDocument | SegmentedDocument]


class MatchOptions(TypedDict, total=False):
    """How pairs are matched, where not as the model was trained.

    Args:
        views: views of a pair.
        aggregation: ``max`` or ``mean`` of their scores.
        seed: seed of subtopics and views.
        dtype: compute the transformer in this precision.
    """

    views: int
    aggregation: Aggregation | None
    seed: int
    dtype: Precision | None


def matcher_of(pipeline: EncodingPipeline, **options: Unpack[MatchOptions]) -> PairMatcher:
    """What matches pairs with a model.

    Args:
        pipeline: the model, which was trained on views.
        options: see :class:`MatchOptions`.

    Raises:
        ModelError: the model was not trained on views.
        SettingsError: an option is out of range.
    """
    own = pipeline.model.config.matching
    changes: dict[str, Any] = {name: value for name, value in options.items() if name != "dtype"}
    if own is not None and own.together and changes.get("views", own.views) != own.views:
        raise SettingsError(f"views={changes['views']}: {pipeline.name} reads {own.views} views at once; leave it out")
    matcher = PairMatcher(pipeline, None if own is None or not changes else own.replace(**changes))
    if matcher.reader.labels and pipeline.model.head is None:
        raise ModelError(
            f"{pipeline.name} reads both views at once and has no head that says whether they match; train it with "
            "graphdoc finetune views"
        )
    return matcher


def match_pairs(
    pipeline: EncodingPipeline, pairs: Iterable[AnyPair], **options: Unpack[MatchOptions]
) -> Iterator[PairMatch]:
    """Match pairs of documents, in constant memory.

    Args:
        pipeline: the model, which was trained on views.
        pairs: the pairs; a document that is in several that follow each other is cut once.
        options: see :class:`MatchOptions`.

    Yields:
        What matching gave, in the order of the pairs.

    Raises:
        DocumentError: a document has no text, or something is no document.
        ModelError: the model was not trained on views.
        SettingsError: an option is out of range.

    >>> from graphdoc import DocumentEncoder
    >>> backbone = "sentence-transformers/all-MiniLM-L6-v2"
    >>> encoder = DocumentEncoder.from_backbone(backbone, device="cpu", views={"encoder": "dual"})
    >>> pairs = [("Rice is steamed. Salt is added.", "Steam the rice with salt.")]
    >>> [len(match.views) for match in match_pairs(encoder, pairs)]
    [3]
    """
    matcher = matcher_of(pipeline, **options)
    ready: dict[int, tuple[object, PairDocument]] = {}

    def document(given: AnyDocument | SegmentedDocument) -> PairDocument:
        # An object that is kept here cannot give its number to another one.
        if (known := ready.get(id(given))) is not None:
            return known[1]
        plain = given.document if isinstance(given, SegmentedDocument) else as_document(given)
        (made,) = matcher.documents(matcher.segmenter.segment_many([plain]))
        ready[id(given)] = (given, made)
        if len(ready) > _KEPT:
            del ready[next(iter(ready))]
        return made

    prepared = ((None, document(a), document(b)) for a, b in pairs)
    description = pipeline.describe()
    with closing(draw_in_order(matcher, prepared, Workers.on(pipeline.device, after=MANY_PAIRS))) as drawn:
        given = (((first, second, own), first, second, own) for _, first, second, own in drawn)
        for (first, second, own), scores in matcher.view_scores(given, options.get("dtype")):
            values = scores.tolist() if len(scores) == len(own.views) else [None] * len(own.views)
            yield PairMatch(
                first.segmented,
                second.segmented,
                matcher.aggregate(scores),
                bool(matcher.reader.labels),
                tuple(
                    _matched_view(view, score, first, second) for view, score in zip(own.views, values, strict=True)
                ),
                own.subtopics,
                (first.field.beyond, second.field.beyond),
                description,
            )


def _matched_view(view: ViewPair, score: float | None, first: PairDocument, second: PairDocument) -> MatchedView:
    sides = ((view.first, first.field.lengths), (view.second, second.field.lengths))
    cut = sum(int((side.tokens < lengths[side.sentences]).sum()) for side, lengths in sides)
    return MatchedView(score, tuple(view.first.sentences.tolist()), tuple(view.second.sentences.tolist()), cut)
