"""Sentences of documents as an index keeps them, and where two documents are alike by their sentences."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import torch

from ..documents.document import Document
from ..inference.pipeline import EncodingPipeline
from ..segmentation.segmenter import paragraph_numbers
from ..segmentation.spans import Coverage, SegmentedDocument
from ..settings.document import Paragraph
from ..similarity.alignment import Alignment, ParagraphPair, SentencePair
from ..similarity.hierarchical import Direction, Normalisation, SentenceSet
from .table import SENTENCE_COLUMNS

SIDES = ("source", "candidate")
# What a page shows of an alignment, however long the documents are. A paragraph may be a whole document.
SHOWN_PAIRS, SHOWN_SENTENCES, _OPENING = 5, 12, 4
# The columns of the rows of an alignment.
ALIGNMENT_COLUMNS = (
    *("direction", "contribution", "similarity"),
    *(f"{side}_{name}" for side in SIDES for name in ("paragraph", "heading", "sentence", "text")),
)


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """The sentences of one document.

    Args:
        vectors: ``(sentences, node size)``, of unit length, in half precision or more.
        places: ``(sentences, 4)``: the section of every sentence, its first character in the text of that, one past
            the last, and its paragraph.
    """

    vectors: npt.NDArray[Any]
    places: npt.NDArray[np.int32]

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.places)

    def columns(self) -> dict[str, bytes]:
        """What a row of an index holds of them."""
        content = self.vectors.astype(np.float16).tobytes(), self.places.astype(np.int32).tobytes()
        return dict(zip(SENTENCE_COLUMNS, content, strict=True))

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """``(paragraphs,)``, the first sentence of every paragraph."""
        return np.flatnonzero(np.diff(self.places[:, 3], prepend=-1))


def encode_sentences(
    encoder: EncodingPipeline,
    documents: Sequence[Document | SegmentedDocument],
    paragraph: Paragraph,
    show_progress: bool | None = False,
) -> Iterator[Sentences]:
    """Encode all sentences of some documents, without the graph, many together.

    Args:
        encoder: the model.
        documents: the documents, each with text; such as have the vectors of their passages have them encoded once.
        paragraph: which sentences belong together.
        show_progress: show a bar; None shows it on a terminal when the work is long.

    Raises:
        DocumentError: a document has no text.
    """
    encoded = encoder.stream(documents, level="sentence", workers=0, show_progress=show_progress, totals=Coverage())
    for segmented, vectors in encoded:
        spans = [(span.section, span.start, span.end) for span in segmented.passages]
        paragraphs = paragraph_numbers(segmented, paragraph, encoder.segmenter)
        # As an index keeps them, so that a score does not depend on where sentences come from.
        unit = torch.nn.functional.normalize(vectors.float(), dim=-1).to(torch.float16).numpy()
        yield Sentences(unit, np.column_stack([np.array(spans, np.int32), paragraphs]))


def stored_sentences(rows: Any) -> tuple[list[str], Sentences, npt.NDArray[np.int64]]:
    """The sentences in rows of an index, without a step for each document.

    Args:
        rows: the columns ``id``, ``sentence_vectors`` and ``sentence_places`` (an Arrow table or record batch).

    Returns:
        Ids of the documents that have sentences, these one document after the other, and ``(documents,)``, how many
        each has.
    """
    vectors_column, places_column = SENTENCE_COLUMNS
    if rows.column(places_column).null_count:
        rows = rows.filter(rows.column(places_column).is_valid())
    content, sizes = _joined(rows.column(places_column))
    places = np.frombuffer(content, np.int32).reshape(-1, 4)
    vectors = np.frombuffer(_joined(rows.column(vectors_column))[0], np.float16)
    sentences = Sentences(vectors.reshape(len(places), -1) if len(places) else vectors, places)
    return rows.column("id").to_pylist(), sentences, sizes // places[:1].nbytes if len(places) else sizes


def _joined(column: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """The bytes of a column without gaps, and how many each of its values has."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = values.cast(pa.large_binary())
    _, offsets, data = values.buffers()
    ends = (
        np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * 8) if len(values) else np.zeros(1, np.int64)
    )
    return (b"" if data is None else data[int(ends[0]) : int(ends[-1])]), np.diff(ends)


def sentence_set(parts: Sequence[Sentences], counts: Sequence[int] | None = None) -> SentenceSet:
    """Documents one after the other, to be compared by their sentences.

    Args:
        parts: their sentences.
        counts: sentences of every document, where a part holds several.
    """
    wide = torch.empty(sum(map(len, parts)), parts[0].vectors.shape[1])
    with warnings.catch_warnings():
        # What lies in a row of an index cannot be written, and is only read.
        warnings.simplefilter("ignore", UserWarning)
        # Torch widens half precision several times as fast as NumPy.
        torch.cat([torch.from_numpy(part.vectors) for part in parts], out=wide)
    ends = np.cumsum([len(part) for part in parts] if counts is None else counts, dtype=np.int64)
    is_first = np.diff(np.concatenate([part.places[:, 3] for part in parts]), prepend=-1) != 0
    is_first[ends[:-1]] = True
    starts = np.append(np.flatnonzero(is_first), ends[-1]).astype(np.int64)
    return SentenceSet(wide.numpy(), starts, np.searchsorted(starts, np.append(0, ends)).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class SentenceDocument:
    """A document with its sentences, to be shown beside another one.

    Args:
        document: the document.
        sentences: its sentences.
        version: hash of what the index holds of it; None for the query document.
    """

    document: Document
    sentences: Sentences
    version: str | None = None

    def heading(self, sentence: int) -> str:
        """Heading of the section that a sentence is in."""
        return self.document.sections[int(self.sentences.places[sentence, 0])].heading

    def text(self, sentence: int) -> str:
        """The text of a sentence."""
        section, start, end, _ = self.sentences.places[sentence].tolist()
        return str(self.document.sections[section].text[start:end])


@dataclass(frozen=True)
class HitAlignment:
    """What the score of a hit by sentences is made of.

    Args:
        alignment: pairs of paragraphs and sentences; their contributions add up to the score.
        source: the query document.
        candidate: the hit.
        direction: whether the document was looked for in the hit, or also the hit in it.
        normalisation: how scores were normalised.
    """

    alignment: Alignment
    source: SentenceDocument
    candidate: SentenceDocument
    direction: Direction = "source"
    normalisation: Normalisation = "none"

    @property
    def whole(self) -> bool:
        """Whether the only pair is that of both documents as wholes."""
        return self.alignment.by == "document"

    @property
    def score(self) -> float:
        """The score by sentences, the sum of the contributions of all pairs."""
        return self.alignment.score

    @property
    def pairs(self) -> tuple[ParagraphPair, ...]:
        """Pairs of paragraphs, with their sentence pairs."""
        return self.alignment.pairs

    def best(self, most: int) -> list[tuple[ParagraphPair, SentencePair | None]]:
        """The strongest pairs of paragraphs, each with the pair of its sentences that adds most, if any.

        A score is a mean of means: a sentence of a short paragraph adds more than one of a long paragraph, which says
        nothing about either. So paragraphs are compared with paragraphs, and sentences with those beside them.
        """
        return [(pair, next(iter(_best_first(pair)), None)) for pair in self.alignment.best(most)]

    def first_sentence(self, side: str, paragraph: int) -> int:
        """Number of the first sentence of a paragraph of the ``source`` or the ``candidate``."""
        return 0 if self.whole else int(self._starts[side][paragraph])

    def heading(self, side: str, paragraph: int) -> str:
        """Heading of the section that a paragraph is in; of the whole document its title."""
        document = self._sides[side]
        return document.document.title if self.whole else document.heading(self.first_sentence(side, paragraph))

    def text(self, side: str, sentence: int) -> str:
        """A sentence of the ``source`` or the ``candidate``."""
        return self._sides[side].text(sentence)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, each pair with headings or texts of both sides."""
        about = {"direction": self.direction, "normalisation": self.normalisation}
        return {
            **self.alignment.to_dict(),
            **about,
            "pairs": [self._pair(pair, pair.sentences) for pair in self.pairs],
        }

    def excerpt(self) -> dict[str, Any]:
        """The strongest pairs as plain values, with a stretch of each text: what a page shows.

        Returns:
            ``by``, ``direction``, ``normalisation``, ``score``, ``whole``, ``total`` (pairs of paragraphs there are)
            and ``pairs``, those of :meth:`to_dict` with the sentence pairs that add most, ``total`` (sentence pairs
            there are), and ``source_stretch`` and ``candidate_stretch``: the sentences in these pairs and those beside
            them, each with ``sentence``, ``text`` and ``space`` before it, and None where some are left out; no
            stretches where documents were compared as wholes.
        """
        pairs = []
        for pair in self.alignment.best(SHOWN_PAIRS):
            shown = _best_first(pair)[:SHOWN_SENTENCES]
            stretches = {
                f"{side}_stretch": self._stretch(side, getattr(pair, side), {getattr(part, side) for part in shown})
                for side in SIDES
            }
            pairs.append({**self._pair(pair, shown), "total": len(pair.sentences), **stretches})
        about = {"direction": self.direction, "normalisation": self.normalisation, "whole": self.whole}
        return {"by": self.alignment.by, "score": self.score, **about, "total": len(self.pairs), "pairs": pairs}

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each pair of sentences, or of paragraphs where no sentences were compared.

        The strongest pairs of paragraphs come first, and within each the sentences that add most.
        """
        for pair in self.alignment.best():
            for part in _best_first(pair) or (None,):
                row: dict[str, Any] = {"direction": pair.direction, "contribution": (part or pair).contribution}
                row["similarity"] = pair.score if part is None else part.cosine
                for side in SIDES:
                    paragraph, sentence = getattr(pair, side), None if part is None else getattr(part, side)
                    text = None if sentence is None else self.text(side, sentence)
                    row |= {f"{side}_paragraph": paragraph, f"{side}_heading": self.heading(side, paragraph)}
                    row |= {f"{side}_sentence": sentence, f"{side}_text": text}
                yield row

    @cached_property
    def _sides(self) -> dict[str, SentenceDocument]:
        return {"source": self.source, "candidate": self.candidate}

    @cached_property
    def _starts(self) -> dict[str, npt.NDArray[np.int64]]:
        return {side: document.sentences.starts for side, document in self._sides.items()}

    def _pair(self, pair: ParagraphPair, sentences: Sequence[SentencePair]) -> dict[str, Any]:
        """A pair of paragraphs as plain values, with some of its pairs of sentences."""
        values = pair._asdict() | {f"{side}_heading": self.heading(side, getattr(pair, side)) for side in SIDES}
        parts = []
        for part in sentences:
            texts = {f"{side}_text": self.text(side, getattr(part, side)) for side in SIDES}
            places = {
                f"{side}_place": document.sentences.places[getattr(part, side), :3].tolist()
                for side, document in self._sides.items()
            }
            parts.append({**part._asdict(), **texts, **places})
        return {**values, "sentences": parts}

    def _stretch(self, side: str, paragraph: int, paired: Set[int]) -> list[dict[str, Any] | None] | None:
        """The sentences of a paragraph that are in pairs, and those beside them; its first ones where none are."""
        if self.whole:
            return None
        document, starts = self._sides[side], self._starts[side]
        places = document.sentences.places
        first, end = int(starts[paragraph]), int([*starts[1:], len(places)][paragraph])
        near = {number for sentence in paired for number in range(sentence - 1, sentence + 2) if first <= number < end}
        shown: list[dict[str, Any] | None] = []
        last = first - 1
        for number in sorted(near) or range(first, min(end, first + _OPENING)):
            space = ""
            if number > last + 1:
                shown.append(None)
            elif last >= first:
                section, start = places[number, :2].tolist()
                space = document.document.sections[section].text[int(places[last, 2]) : start]
            shown.append({"sentence": number, "text": document.text(number), "space": space})
            last = number
        return [*shown, None] if last < end - 1 else shown


def _best_first(pair: ParagraphPair) -> list[SentencePair]:
    """Pairs of sentences, those first that add most."""
    return sorted(pair.sentences, key=lambda part: (-part.contribution, part.source, part.candidate))


def adding_up_to(score: float, alignment: Alignment) -> Alignment:
    """Spread over contributions what rounding took: a product of many vectors rounds otherwise than one of few."""
    parts = [part for pair in alignment.pairs for part in (pair.sentences or (pair,))]
    factor = (score - alignment.score) / (sum(abs(part.contribution) for part in parts) or 1.0)

    def scaled(contribution: float) -> float:
        return contribution + abs(contribution) * factor

    pairs = []
    for pair in alignment.pairs:
        sentences = tuple(part._replace(contribution=scaled(part.contribution)) for part in pair.sentences)
        whole = sum(part.contribution for part in sentences) if sentences else scaled(pair.contribution)
        pairs.append(pair._replace(contribution=whole, sentences=sentences))
    return replace(alignment, pairs=tuple(pairs))
