"""Matching pairs of documents with a model that reads them view by view (SST, sections 3.2 to 3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from ..checkpoints.contents import token_limit
from ..errors import DocumentError, ModelError
from ..graphs.packing import Packing
from ..inference.learned_subtopics import subtopic_finder
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import Precision, inference, require_finite
from ..inference.sentences import sentence_segmenter
from ..registry import SUBTOPICS, VIEW_READERS, VIEW_SAMPLINGS, load
from ..sampling.batches import random_generator
from ..sampling.views import Purpose, Sampling, View, ViewSide, centrality, draw_views
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import SegmentedDocument
from ..settings.views import ViewSettings
from ..subtopics.clustering import Subtopics
from ..subtopics.ways import SubtopicFinder
from .reader import ViewReader, ViewTokens
from .sentence_source import SentenceFeatures
from .special_tokens import SpecialTokens
from .view_tokens import FieldTokens

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
