"""Matching pairs of documents with a model that reads them view by view (SST, sections 3.2 to 3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np

from ..checkpoints.contents import token_limit
from ..errors import DocumentError, ModelError, SettingsError
from ..graphs.batch import Packing
from ..inference.learned_subtopics import subtopic_finder
from ..inference.levels import sentence_segmenter
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import Precision, inference, require_finite
from ..inference.segmenting import AnyDocument, as_document, in_blocks
from ..registry import VIEW_READERS, VIEW_SAMPLINGS, load
from ..runtime.arrays import Floats
from ..sampling.batches import random_generator
from ..sampling.views import Purpose, Sampling, View, ViewSide, sample_views
from ..segmentation.spans import SegmentedDocument
from ..settings.document import Aggregation, ViewSettings
from ..subtopics.subtopics import SubtopicFinder, Subtopics
from .reader import ReceptiveField, SentenceFeatures, SpecialTokens, ViewReader, ViewTokens
from .result import MatchedView, PairMatch

Pair = TypeVar("Pair")
# Draws subtopics and views, the same for all pairs.
SEED = 0
# Views that are read together: enough to sort by length, little to hold.
WINDOW_VIEWS = 256


class ViewPair(NamedTuple):
    """A view of both documents of a pair."""

    first: View
    second: View


class PairDocument(NamedTuple):
    """A document of a pair: its sentences, tokens of those that views are drawn from, and what finds subtopics."""

    segmented: SegmentedDocument
    field: ReceptiveField
    features: Any


@dataclass(frozen=True, slots=True)
class SampledViews:
    """The subtopics of a pair, and views sampled by them, in the order of their numbers."""

    subtopics: Subtopics
    views: tuple[ViewPair, ...]


class ViewSampler:
    """Finds the subtopics of pairs and draws their views, as the settings of a model say.

    Args:
        settings: the settings.
        language: language of the documents, a two-letter code.
        room: tokens of a view without special tokens.
        model: name or folder of a model that has learned to find subtopics; needed where the settings ask for it.
    """

    def __init__(self, settings: ViewSettings, language: str, room: int, model: str | Path | None = None) -> None:
        self.settings, self.language, self.room = settings, language, room
        self.finder: SubtopicFinder = subtopic_finder(settings.subtopics, language, model)
        self._sampling: Sampling = load(VIEW_SAMPLINGS[settings.sampling])

    def sample(
        self,
        first: tuple[ReceptiveField, Any],
        second: tuple[ReceptiveField, Any],
        numbers: Sequence[int],
        purpose: Purpose,
    ) -> SampledViews:
        """Find the subtopics of a pair, documents with their features, and sample views; equal in the other order."""
        # What is random in finding subtopics depends on the order of sentences.
        if first[0].id > second[0].id:
            turned = self.sample(second, first, numbers, purpose)
            return SampledViews(turned.subtopics.turned(), tuple(ViewPair(b, a) for a, b in turned.views))
        settings = self.settings
        subtopics = self.finder.find(first[1], second[1], cluster_size=settings.cluster_size, seed=SEED)
        sides = [
            ViewSide(field.id, clusters, field.lengths)
            for (field, _), clusters in zip((first, second), subtopics.sides, strict=True)
        ]
        fields, turn = settings.receptive_fields, 0
        if purpose == "training":
            # An epoch has pairs of every field. Those that are matched are compared, and so are sampled alike.
            turn = int(random_generator(SEED, "fields", sides[0].id, sides[1].id).integers(2**31))
        views = []
        for number in numbers:
            one, other = [side.head(fields[(number + turn) % len(fields)]) for side in sides] if fields else sides
            sampled = sample_views(one, other, self._sampling, self.room, seed=SEED, number=number, purpose=purpose)
            views.append(ViewPair(*sampled))
        return SampledViews(subtopics, tuple(views))


class PairMatcher:
    """Matches pairs of documents by views, sampled and aggregated as the model's configuration says, or settings.

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
        self.special = SpecialTokens.from_tokenizer(pipeline.tokenizer)
        self.reader = view_reader(self.settings, pipeline, self.special, pipeline.name)
        language, room = pipeline.model.config.language, self.reader.room(self.settings.view_tokens)
        model = pipeline.model.subtopic_folder or self.settings.subtopic_model
        self.sampler = ViewSampler(self.settings, language, room, model)
        self.segmenter = sentence_segmenter(pipeline, with_context=False)
        self._features = SentenceFeatures(self.sampler.finder, model, pipeline.device)
        self.identity = self._features.identity

    def documents(self, segmented: Iterable[SegmentedDocument]) -> Iterator[PairDocument]:
        """Make documents ready that are cut by :attr:`segmenter`, each once however many pairs it is in.

        Raises:
            DocumentError: a document has no text.
        """
        for one in segmented:
            if not one.passages:
                raise DocumentError(f"document {one.document.id!r} has no text to match; leave it out")
            size = self.settings.receptive_field
            field = ReceptiveField.from_tokens(one.document.id, one.token_ids, size, self.special)
            yield PairDocument(one, field, self._features(one.texts[: len(field)]))

    def sample(self, first: PairDocument, second: PairDocument) -> SampledViews:
        """The subtopics of a pair, and the views that it is matched by."""
        numbers = range(self.settings.views)
        return self.sampler.sample((first.field, first.features), (second.field, second.features), numbers, "matching")

    def view_scores(
        self,
        sampled: Iterable[tuple[Pair, PairDocument, PairDocument, SampledViews]],
        dtype: Precision | None = None,
        packing: Packing | None = None,
    ) -> Iterator[tuple[Pair, Floats]]:
        """Score the views of pairs, in windows.

        Args:
            sampled: a key, which is given back, both documents of a pair, and their views.
            dtype: compute the transformer in this precision; None for that of its weights.
            packing: how views are packed into mini-batches; None for the rule of the device.

        Yields:
            What stands for the pair, and the scores of its views, ``(views,)``; one where views are read together.
        """
        for window in in_blocks(sampled, max(1, -(-WINDOW_VIEWS // self.settings.views))):
            views = [
                (first.field.tokens_of(view.first), second.field.tokens_of(view.second))
                for _, first, second, pair in window
                for view in pair.views
            ]
            at_once = self.settings.views if self.settings.joint else 1
            scores = self._scores(views, at_once, dtype, packing)
            counts = [len(pair.views) // at_once for *_, pair in window]
            for (key, *_), part in zip(window, np.split(scores, np.cumsum(counts)[:-1]), strict=True):
                yield key, part

    def _scores(
        self, views: Sequence[ViewTokens], at_once: int, dtype: Precision | None, packing: Packing | None
    ) -> Floats:
        """Scores of views, of which ``at_once`` are read together; ``(views / at_once,)``."""
        # Views of a short document, or of first sentences, are all alike, and are read once.
        numbers: dict[tuple[bytes, ...], int] = {}
        distinct: list[ViewTokens] = []
        places = []
        for start in range(0, len(views), at_once):
            group = views[start : start + at_once]
            number = numbers.setdefault(tuple(side.tobytes() for view in group for side in view), len(numbers))
            if number * at_once == len(distinct):
                distinct += group
            places.append(number)
        pipeline = self._pipeline
        batch = self.reader.graphs(distinct, at_once).to(pipeline.device)
        with inference(pipeline.model):
            with pipeline.computing_in(dtype):
                vectors = pipeline.model.encode_passages(batch, packing)
            scores = self.reader.scores(pipeline.model.encode_graphs(vectors, batch))
        require_finite(scores)
        return np.asarray(scores.double().cpu().numpy()[places])

    def aggregate(self, scores: Floats) -> float:
        """The score of a pair from those of its views (SST, eq. 11 and 12)."""
        how = self.settings.aggregation or self.reader.aggregation
        return float(scores.max() if how == "max" else scores.mean())


def view_reader(settings: ViewSettings, pipeline: EncodingPipeline, special: SpecialTokens, name: str) -> ViewReader:
    """The reader of views of a model.

    Raises:
        ModelError: views are longer than it can read, or have no room next to special tokens.
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
            f"views.view_tokens={settings.view_tokens} leaves no room next to the special tokens of {name}; raise it"
        )
    return reader


# Documents that are kept ready in addition to those of the pair at hand: pairs of one query follow each other.
_KEPT = 512

AnyPair = tuple[AnyDocument | SegmentedDocument, AnyDocument | SegmentedDocument]


class MatchOptions(TypedDict, total=False):
    """Options of matching pairs, where not as the model was trained.

    Args:
        views: views of a pair that are read.
        aggregation: how the scores of views become one; None for that of the model.
        dtype: precision of the transformer; None for that of its weights.
    """

    views: int
    aggregation: Aggregation | None
    dtype: Precision | None


def match_pairs(
    pipeline: EncodingPipeline, pairs: Iterable[AnyPair], **options: Unpack[MatchOptions]
) -> Iterator[PairMatch]:
    """Match pairs of documents, in constant memory and in their order.

    Args:
        pipeline: the model, which was trained on views.
        pairs: the pairs; a document that is in several that follow each other is cut once.
        options: see :class:`MatchOptions`.

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
    config = pipeline.model.config.matching
    changes: dict[str, Any] = {name: value for name, value in options.items() if name != "dtype"}
    if config is not None and config.joint and changes.get("views", config.views) != config.views:
        raise SettingsError(f"views={changes['views']}: {pipeline.name} reads {config.views} at once; leave it out")
    matcher = PairMatcher(pipeline, config.replace(**changes) if config is not None and changes else None)
    if matcher.reader.labels and pipeline.model.head is None:
        raise ModelError(
            f"{pipeline.name} reads both views at once and has no head that says whether they match; train it with "
            "graphdoc finetune views"
        )
    ready: dict[int, tuple[object, PairDocument]] = {}

    def document(source: AnyDocument | SegmentedDocument) -> PairDocument:
        # An object that is kept here cannot give its number to another one.
        if (known := ready.get(id(source))) is not None:
            return known[1]
        plain = source.document if isinstance(source, SegmentedDocument) else as_document(source)
        (made,) = matcher.documents(matcher.segmenter.segment_many([plain]))
        ready[id(source)] = (source, made)
        if len(ready) > _KEPT:
            del ready[next(iter(ready))]
        return made

    def sampled() -> Iterator[
        tuple[tuple[PairDocument, PairDocument, SampledViews], PairDocument, PairDocument, SampledViews]
    ]:
        for a, b in pairs:
            first, second = document(a), document(b)
            pair = matcher.sample(first, second)
            yield (first, second, pair), first, second, pair

    description = pipeline.describe()
    for (first, second, pair), scores in matcher.view_scores(sampled(), options.get("dtype")):
        values = scores.tolist() if len(scores) == len(pair.views) else [None] * len(pair.views)
        views = [_matched_view(view, value, first, second) for view, value in zip(pair.views, values, strict=True)]
        yield PairMatch(
            first.segmented, second.segmented, matcher.aggregate(scores), bool(matcher.reader.labels), tuple(views),
            pair.subtopics, (first.field.beyond, second.field.beyond), description,
        )  # fmt: skip


def _matched_view(view: ViewPair, score: float | None, first: PairDocument, second: PairDocument) -> MatchedView:
    sides = ((view.first, first.field.lengths), (view.second, second.field.lengths))
    cut = sum(int((side.tokens < lengths[side.sentences]).sum()) for side, lengths in sides)
    return MatchedView(score, tuple(view.first.sentences.tolist()), tuple(view.second.sentences.tolist()), cut)
