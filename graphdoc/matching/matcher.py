"""Matching pairs of documents with a model that reads them view by view (SST, sections 3.2 to 3.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits

from ..checkpoints.contents import token_limit
from ..errors import DocumentError, ModelError, SettingsError
from ..graphs.layout import Packing
from ..inference.learned_subtopics import subtopic_finder
from ..inference.levels import sentence_segmenter
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import Precision, inference, require_finite
from ..inference.segmenting import AnyDocument, Workers, as_document
from ..registry import SUBTOPICS, VIEW_READERS, VIEW_SAMPLINGS, load
from ..runtime.workers import in_blocks, work_ahead
from ..sampling.batches import random_generator
from ..sampling.views import Purpose, Sampling, View, ViewSide, centrality, draw_views
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import SegmentedDocument
from ..settings.document import Aggregation, ViewSettings
from ..subtopics.subtopics import SubtopicFinder, Subtopics
from .reader import FieldTokens, SentenceFeatures, SpecialTokens, ViewReader, ViewTokens
from .result import MatchedView, PairMatch

Pair = TypeVar("Pair")
Floats = npt.NDArray[np.float64]
# Views that are read together: enough to sort by length, little to hold.
WINDOW_VIEWS = 256


class ViewPair(NamedTuple):
    """A view of both documents of a pair.

    Args:
        first: sentences of the first document.
        second: those of the second.
    """

    first: View
    second: View


class PairDocument(NamedTuple):
    """A document of a pair, as it is matched.

    Args:
        segmented: its sentences.
        field: tokens of those that views are drawn from.
        features: what subtopics are found by.
    """

    segmented: SegmentedDocument
    field: FieldTokens
    features: Any


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """The subtopics of a pair, and views drawn by them.

    Args:
        subtopics: the subtopics.
        views: the views, in the order of their numbers.
    """

    subtopics: Subtopics
    views: tuple[ViewPair, ...]


class ViewDrawer:
    """Finds the subtopics of pairs and draws their views, as the settings of a model say.

    Args:
        settings: the settings.
        language: language of the documents, a two-letter code.
        room: tokens of a view without special tokens.
        model: name or folder of a model that has learned to find subtopics; needed where the settings ask for it.

    Raises:
        ModelError: there is no such model, or it has not learned that.
        SettingsError: there is none, and the settings ask for it.
    """

    def __init__(self, settings: ViewSettings, language: str, room: int, model: str | Path | None = None) -> None:
        self.settings, self.language, self.room = settings, language, room
        learned = load(SUBTOPICS[settings.subtopics]).reads_model
        self.finder: SubtopicFinder = subtopic_finder(settings.subtopics, language, model if learned else None)
        self._sampling: Sampling = load(VIEW_SAMPLINGS[settings.sampling])

    def draw(
        self,
        first: tuple[FieldTokens, Any],
        second: tuple[FieldTokens, Any],
        numbers: Sequence[int],
        purpose: Purpose,
    ) -> DrawnPair:
        """Find the subtopics of a pair and draw views; the same for the pair in the other order.

        Args:
            first: a document, and its features.
            second: the other one.
            numbers: numbers of the views.
            purpose: what they are drawn for.
        """
        # What is random in finding subtopics depends on the order of sentences.
        if first[0].id > second[0].id:
            turned = self.draw(second, first, numbers, purpose)
            return DrawnPair(turned.subtopics.turned(), tuple(ViewPair(b, a) for a, b in turned.views))
        settings, central = self.settings, None
        similarity = self.finder.similarity(first[1], second[1]) if self._sampling.reads_centrality else None
        found = self.finder.find(first[1], second[1], cluster_size=settings.cluster_size, seed=settings.seed)
        if similarity is not None:
            central = centrality(similarity)
        sides = []
        for place, (field, clusters) in enumerate(zip((first[0], second[0]), found.sides, strict=True)):
            own = slice(found.first) if place == 0 else slice(found.first, None)
            sides.append(ViewSide(field.id, clusters, field.lengths, None if central is None else central[own]))
        fields, turn = settings.fields, 0
        if purpose == "training":
            # An epoch has pairs of every field. Those that are matched are compared, and so are drawn alike.
            turn = int(random_generator(settings.seed, "fields", sides[0].id, sides[1].id).integers(2**31))
        views = []
        for number in numbers:
            one, other = sides
            if fields:
                one, other = (side.head(fields[(number + turn) % len(fields)]) for side in sides)
            drawn = draw_views(
                one, other, self._sampling, self.room, seed=settings.seed, number=number, purpose=purpose
            )
            views.append(ViewPair(*drawn))
        return DrawnPair(found, tuple(views))


class PairMatcher:
    """Matches pairs of documents.

    Args:
        pipeline: the model, which was trained on views.
        settings: how views are drawn and aggregated, where not as in the model's configuration.

    Attributes:
        settings: how views are drawn and aggregated.
        reader: how they are read.
        drawer: draws them.

    Raises:
        ModelError: the model was not trained on views, or reads less than two views.
    """

    def __init__(self, pipeline: EncodingPipeline, settings: ViewSettings | None = None) -> None:
        own = pipeline.model.config.matching
        if own is None:
            raise ModelError(
                f"{pipeline.name} was not trained to match pairs view by view; give a checkpoint of graphdoc finetune "
                "views, or compare documents with graphdoc compare"
            )
        self._pipeline = pipeline
        self.settings = settings or own
        self.special = SpecialTokens.of(pipeline.tokenizer)
        self.reader = view_reader(self.settings, pipeline, self.special, pipeline.name)
        language, room = pipeline.model.config.language, self.reader.room(self.settings.view_tokens)
        # Checkpoints of earlier versions only name it.
        model = pipeline.model.subtopic_folder or self.settings.subtopic_model
        self.drawer = ViewDrawer(self.settings, language, room, model)
        self._segmenter = sentence_segmenter(pipeline, with_context=False)
        self._features = SentenceFeatures(self.drawer.finder, model, pipeline.device)

    def documents(self, segmented: Iterable[SegmentedDocument]) -> Iterator[PairDocument]:
        """Make documents ready, each once however many pairs it is in.

        Args:
            segmented: documents that are cut into sentences, as by :attr:`segmenter`.

        Raises:
            DocumentError: a document has no text.
        """
        for one in segmented:
            if not one.passages:
                raise DocumentError(f"document {one.document.id!r} has no text to match; leave it out")
            field = FieldTokens.of(one.document.id, one.token_ids, self.settings.receptive_field, self.special)
            yield PairDocument(one, field, self._features(one.texts[: len(field)]))

    @property
    def segmenter(self) -> Segmenter:
        """What cuts documents into sentences."""
        return self._segmenter

    @property
    def identity(self) -> str:
        """What subtopics depend on beside the settings."""
        return self._features.identity

    def draw(self, first: PairDocument, second: PairDocument) -> DrawnPair:
        """The subtopics of a pair, and the views that it is matched by."""
        numbers = range(self.settings.views)
        return self.drawer.draw((first.field, first.features), (second.field, second.features), numbers, "matching")

    def view_scores(
        self,
        drawn: Iterable[tuple[Pair, PairDocument, PairDocument, DrawnPair]],
        dtype: Precision | None = None,
        packing: Packing | None = None,
    ) -> Iterator[tuple[Pair, Floats]]:
        """Score the views of pairs, in windows.

        Args:
            drawn: whatever stands for a pair, both documents, and their views.
            dtype: compute the transformer in this precision; None for that of its weights.
            packing: how views are packed into mini-batches; None for the rule of the device.

        Yields:
            What stands for the pair, and the scores of its views, ``(views,)``; one score where views are read
            together.
        """
        at_once = self.settings.views if self.settings.together else 1
        waiting: list[tuple[Pair, int]] = []
        views: list[ViewTokens] = []
        for pair, first, second, own in drawn:
            waiting.append((pair, len(own.views) // at_once))
            views += [(first.field.tokens_of(view.first), second.field.tokens_of(view.second)) for view in own.views]
            if len(views) >= WINDOW_VIEWS:
                yield from self._scored(waiting, views, at_once, dtype, packing)
                waiting, views = [], []
        if waiting:
            yield from self._scored(waiting, views, at_once, dtype, packing)

    def _scored(
        self,
        waiting: list[tuple[Pair, int]],
        views: list[ViewTokens],
        at_once: int,
        dtype: Precision | None,
        packing: Packing | None,
    ) -> Iterator[tuple[Pair, Floats]]:
        pipeline = self._pipeline
        views, places = _once(views, at_once)
        batch = self.reader.graphs(views, at_once).to(pipeline.device)
        with inference(pipeline.model):
            with pipeline.computing_in(dtype):
                vectors = pipeline.model.encode_passages(batch, packing)
            output = pipeline.model.encode_graphs(vectors, batch)
            scores = self.reader.scores(output)
        require_finite(scores)
        parts = torch.split(scores.double().cpu()[places], [count for _, count in waiting])
        for (pair, _), part in zip(waiting, parts, strict=True):
            yield pair, part.numpy()

    def aggregate(self, scores: Floats) -> float:
        """The score of a pair from those of its views (SST, eq. 11 and 12)."""
        how = self.settings.aggregation or self.reader.aggregation
        return float(scores.max() if how == "max" else scores.mean())


def _once(views: Sequence[ViewTokens], at_once: int) -> tuple[list[ViewTokens], list[int]]:
    """Every view once, and which of these each is: those of a short document, or of first sentences, are all alike.

    Args:
        views: the views, pair after pair.
        at_once: views that are read together, which are one here.
    """
    numbers: dict[tuple[bytes, ...], int] = {}
    kept: list[ViewTokens] = []
    places = []
    for start in range(0, len(views), at_once):
        group = views[start : start + at_once]
        key = tuple(side.tobytes() for view in group for side in view)
        number = numbers.setdefault(key, len(numbers))
        if number * at_once == len(kept):
            kept += group
        places.append(number)
    return kept, places


def view_reader(settings: ViewSettings, pipeline: EncodingPipeline, special: SpecialTokens, name: str) -> ViewReader:
    """How a model reads views.

    Args:
        settings: the settings of views.
        pipeline: the model.
        special: special tokens of its tokenizer.
        name: what to call it in messages.

    Raises:
        ModelError: views are longer than it can read, or have no room beside special tokens.
    """
    kind: type[ViewReader] = load(VIEW_READERS[settings.encoder])
    reader = kind(special)
    longest = reader.longest(settings.view_tokens)
    limit = min(int(pipeline.tokenizer.model_max_length), token_limit(pipeline.model.config.encoder_config))
    if longest > limit:
        most = settings.view_tokens * limit // longest
        raise ModelError(
            f"views.view_tokens={settings.view_tokens} with views.encoder={settings.encoder} makes {longest} tokens, "
            f"and {name} reads {limit}; set views.view_tokens={most} or less"
        )
    if reader.room(settings.view_tokens) < 1:
        raise ModelError(
            f"views.view_tokens={settings.view_tokens} leaves no room beside the special tokens of {name}; raise it"
        )
    return reader


Side = tuple[FieldTokens, Any]

# Pairs that are drawn together: a fifth of a second, enough to travel for.
BLOCK_PAIRS = 16
# Pairs from which on processes of their own draw ahead: two seconds, in which they have started.
MANY_PAIRS = 160


def draw_in_order(
    matcher: PairMatcher, pairs: Iterable[tuple[Pair, PairDocument, PairDocument]], workers: Workers
) -> Generator[tuple[Pair, PairDocument, PairDocument, DrawnPair]]:
    """Find the subtopics of pairs and draw the views that they are matched by; the same for any number of processes.

    Args:
        matcher: what matches them.
        pairs: whatever stands for a pair, and both documents; read a few blocks ahead.
        workers: processes that draw. A model that finds subtopics stays in this process, which then draws alone.

    Yields:
        What was given, and what was drawn, in order.

    Raises:
        GraphdocError: a worker was ended from outside.
    """
    drawer, numbers = matcher.drawer, range(matcher.settings.views)
    count = 0 if drawer.finder.reads_model else workers.count
    blocks = in_blocks(pairs, BLOCK_PAIRS)
    waiting: deque[list[tuple[Pair, PairDocument, PairDocument]]] = deque()

    def sides(blocks: Iterable[list[tuple[Pair, PairDocument, PairDocument]]]) -> Iterator[list[tuple[Side, Side]]]:
        for block in blocks:
            waiting.append(block)
            yield [((a.field, a.features), (b.field, b.features)) for _, a, b in block]

    first = islice(blocks, workers.after // BLOCK_PAIRS) if count else blocks
    shared = drawer, numbers
    # Workers end with an error, not when its traceback is forgotten.
    with (
        closing(work_ahead(_draw, shared, sides(first), 0)) as here,
        closing(work_ahead(_draw_in_worker, shared, sides(blocks), count, setting=None)) as ahead,
    ):
        for drawn in chain(here, ahead):
            for (pair, a, b), own in zip(waiting.popleft(), drawn, strict=True):
                yield pair, a, b, own


def _draw(shared: tuple[ViewDrawer, range], block: Sequence[tuple[Side, Side]]) -> list[DrawnPair]:
    drawer, numbers = shared
    return [drawer.draw(first, second, numbers, "matching") for first, second in block]


def _draw_in_worker(shared: tuple[ViewDrawer, range], block: Sequence[tuple[Side, Side]]) -> list[DrawnPair]:
    # Small matrices gain nothing from threads, which would fight over the cores of other processes.
    with threadpool_limits(1):
        return _draw(shared, block)


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
