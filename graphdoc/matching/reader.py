"""Read the two views of a pair: together in one passage, or each by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from ..checkpoints.folders import name_of
from ..checkpoints.load import load_checkpoint
from ..documents.document import Document
from ..documents.section import Section
from ..graphs.batch import GraphBatch
from ..graphs.kinds import JoinedGraphs
from ..inference.pipeline import EncodingPipeline
from ..inference.vectors import encode_queries, segment_queries
from ..modeling import DocumentOutput
from ..modeling.document_model import weights_hash
from ..sampling.views import View
from ..settings.document import DEFAULT_SUBTOPIC_MODEL
from ..subtopics.subtopics import SubtopicFinder

Ids = npt.NDArray[np.int64]
ViewTokens = tuple[Ids, Ids]


class ViewReader(ABC):
    """Turns views of pairs into model inputs, and model outputs into scores."""

    # How the scores of several views become that of a pair by default (SST, eq. 11-12).
    aggregation: ClassVar[str]
    # Classes of the head that scores are read from; none where there is no head.
    labels: ClassVar[tuple[str, ...]] = ()

    def __init__(self, special: SpecialTokens) -> None:
        self._special = special

    @abstractmethod
    def room(self, view_tokens: int) -> int:
        """Tokens of a view without the special ones, by their number with them."""

    @abstractmethod
    def longest(self, view_tokens: int) -> int:
        """Tokens that the transformer reads at once at most, special tokens included."""

    @abstractmethod
    def graphs(self, views: Sequence[ViewTokens], views_per_graph: int = 1) -> GraphBatch:
        """The graphs of the views of pairs.

        Args:
            views: tokens of both views without special tokens, pair after pair.
            views_per_graph: views of one pair that are read as one document; with 1 each is by itself, as a query is.
        """

    @abstractmethod
    def roles(self, pairs: int) -> Mapping[str, slice]:
        """Which graphs play which role, by the number of pairs."""

    @abstractmethod
    def scores(self, output: DocumentOutput) -> Tensor:
        """How well the views of pairs match, ``(pairs,)``; higher is better."""


class CrossReader(ViewReader):
    """Both views in one passage, whose vector a head reads (a cross-encoder): ``[CLS] q [SEP] d [SEP]``."""

    aggregation = "max"
    labels = ("different", "similar")

    def room(self, view_tokens: int) -> int:
        """Tokens of a view without its half of the special ones."""
        return view_tokens - (self._special.pair_count + 1) // 2

    def longest(self, view_tokens: int) -> int:
        """Two views."""
        return 2 * view_tokens

    def graphs(self, views: Sequence[ViewTokens], views_per_graph: int = 1) -> GraphBatch:
        """One passage a pair of views."""
        joined = [self._special.join(*view) for view in views]
        return _graphs([ids for ids, _ in joined], views_per_graph, tuple(start for _, start in joined))

    def roles(self, pairs: int) -> Mapping[str, slice]:
        """None: all graphs are pairs."""
        return {}

    def scores(self, output: DocumentOutput) -> Tensor:
        """Logits of the class "similar" against the other: the logarithm of its odds, ``(pairs,)``."""
        assert output.logits is not None
        return output.logits[:, 1] - output.logits[:, 0]


class DualReader(ViewReader):
    """Each view in a separate passage, whose vectors are compared (a dual encoder, two towers of one model)."""

    aggregation = "mean"

    def room(self, view_tokens: int) -> int:
        """Tokens of a view without the special ones."""
        return view_tokens - self._special.single_count

    def longest(self, view_tokens: int) -> int:
        """One view."""
        return view_tokens

    def graphs(self, views: Sequence[ViewTokens], views_per_graph: int = 1) -> GraphBatch:
        """All first views, then all second ones."""
        both = chain((first for first, _ in views), (second for _, second in views))
        return self.single_graphs(list(both), views_per_graph)

    def single_graphs(self, views: Sequence[Ids], views_per_graph: int = 1) -> GraphBatch:
        """The graphs of views that are not in pairs."""
        return _graphs([self._special.wrap(ids) for ids in views], views_per_graph, None)

    def roles(self, pairs: int) -> Mapping[str, slice]:
        """The views of the first documents, and those of the second ones."""
        return {"first": slice(pairs), "second": slice(pairs, 2 * pairs)}

    def scores(self, output: DocumentOutput) -> Tensor:
        """Cosines of the vectors of both, ``(pairs,)``."""
        assert output.documents is not None
        first, second = output.documents.float().chunk(2)
        return functional.cosine_similarity(first, second)


def _graphs(token_ids: Sequence[Ids], views_per_graph: int, second_from: tuple[int, ...] | None) -> GraphBatch:
    documents = len(token_ids) // views_per_graph
    graphs = (
        JoinedGraphs.from_queries([0] * documents)
        if views_per_graph == 1
        else JoinedGraphs.from_sections([np.zeros(views_per_graph, np.int64)] * documents, None)
    )
    return GraphBatch.from_graphs(graphs, tuple(token_ids), second_from=second_from)


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """What stands around texts: token ids around one that stands alone, and around and between two.

    Args:
        second_from: how many of those between the texts are of the first, as token types count them.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    pair_before: tuple[int, ...]
    between: tuple[int, ...]
    pair_after: tuple[int, ...]
    second_from: int

    @classmethod
    def from_tokenizer(cls, tokenizer: PreTrainedTokenizerBase) -> SpecialTokens:
        """The special tokens of a tokenizer, found by tokenizing two short texts.

        If it puts nothing between two texts, they are separated by what ends a single one.
        """
        single, pair = tokenizer("a"), tokenizer("a", "a")
        places, pair_places = np.array(single.sequence_ids(0), float), np.array(pair.sequence_ids(0), float)
        text, first, second = (np.flatnonzero(at) for at in (places == 0, pair_places == 0, pair_places == 1))
        ids, pair_ids = single["input_ids"], pair["input_ids"]
        before, after = tuple(ids[: text[0]]), tuple(ids[text[-1] + 1 :])
        between = slice(first[-1] + 1, second[0])
        if not pair_ids[between]:
            return cls(before, after, before, after, after, len(after))
        # Some tokenizers give no types, or the same to both texts.
        types = pair.get("token_type_ids") or [0] * len(pair_ids)
        return cls(
            before, after, tuple(pair_ids[: first[0]]), tuple(pair_ids[between]), tuple(pair_ids[second[-1] + 1 :]),
            len(pair_ids[between]) - sum(types[between]),
        )  # fmt: skip

    def strip(self, token_ids: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Ids:
        """The tokens of a text that stands alone, without the special ones around it."""
        ids = np.asarray(token_ids, np.int64)
        return ids[len(self.before) : len(ids) - len(self.after)]

    def wrap(self, text: Ids) -> Ids:
        """The tokens of a text, with the special ones around it."""
        return np.concatenate([self.before, text, self.after]).astype(np.int64)

    def join(self, first: Ids, second: Ids) -> tuple[Ids, int]:
        """The tokens of two texts that are read together, special ones too, and the first that is of the second."""
        ids = np.concatenate([self.pair_before, first, self.between, second, self.pair_after]).astype(np.int64)
        return ids, len(self.pair_before) + len(first) + self.second_from

    @property
    def single_count(self) -> int:
        """Special tokens around a text that stands alone."""
        return len(self.before) + len(self.after)

    @property
    def pair_count(self) -> int:
        """Special tokens around and between two texts."""
        return len(self.pair_before) + len(self.between) + len(self.pair_after)


@dataclass(frozen=True, slots=True, eq=False)
class ReceptiveField:
    """The sentences of a document that views are drawn from: its receptive field.

    Args:
        id: id of the document.
        token_ids: tokens of every sentence, special tokens not included.
        beyond: sentences of the document that lie beyond the field.
    """

    id: str
    token_ids: tuple[Ids, ...]
    beyond: int = 0

    @classmethod
    def from_tokens(
        cls,
        id: str,
        token_ids: Sequence[Sequence[int] | npt.NDArray[np.integer[Any]]],
        receptive_field: int | None,
        special: SpecialTokens,
    ) -> ReceptiveField:
        """The first sentences of a document, whose tokens come with special ones; a field of None takes all."""
        kept = token_ids[:receptive_field]
        return cls(id, tuple(special.strip(ids) for ids in kept), len(token_ids) - len(kept))

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.token_ids)

    @property
    def lengths(self) -> Ids:
        """Tokens of every sentence, ``(sentences,)``."""
        return np.array([len(ids) for ids in self.token_ids], np.int64)

    def tokens_of(self, view: View) -> Ids:
        """The tokens of a view, sentence after sentence, ``(tokens,)``."""
        return np.concatenate(
            [self.token_ids[sentence][:most] for sentence, most in zip(*map(np.ndarray.tolist, view), strict=True)]
        )


class SentenceFeatures:
    """Makes what subtopics are found by, of the sentences of a document, with a model where the finder reads vectors.

    Attributes:
        identity: what subtopics depend on in addition to the settings: a hash of the model's weights, or nothing.
    """

    def __init__(self, finder: SubtopicFinder, model: str | Path | None, device: torch.device) -> None:
        self._finder = finder
        self._source: EncodingPipeline | None = None
        self.identity = finder.identity
        if finder.reads_vectors:
            name = DEFAULT_SUBTOPIC_MODEL if model is None else model
            loaded, tokenizer = load_checkpoint(name)
            self.identity = weights_hash(loaded.state_dict())
            self._source = EncodingPipeline(loaded, tokenizer, name=name_of(name), device=device)

    def __call__(self, texts: Sequence[str]) -> Any:
        """The features of some sentences; the vector of one without a letter or digit is zeros."""
        if self._source is None:
            return self._finder.features(texts)
        vectors = np.zeros((len(texts), self._source.hidden_size), np.float32)
        written = [number for number, text in enumerate(texts) if any(map(str.isalnum, text))]
        if written:
            documents = [Document(str(number), (Section(texts[number]),)) for number in written]
            vectors[written] = encode_queries(self._source, segment_queries(self._source, documents)).numpy()
        return self._finder.features(texts, vectors)
