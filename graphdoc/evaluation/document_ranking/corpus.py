"""The documents that are ranked, with what several ways to rank them take of them, made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from ...documents.document import Document
from ...encoder import DocumentEncoder
from ...errors import OutputError, RetrievalError
from ...inference.sentences import sentence_segmenter
from ...retrieval.sentence_settings import DIRECTION
from ...retrieval.sentences import encode_sentences
from ...segmentation.segmenter import paragraph_numbers
from ...settings.document import Paragraph
from ...similarity.hierarchical import Direction, Normalisation, SentenceSet
from ...vectors.folder import ANOTHER_FOLDER, read_vectors, settings_of
from ...vectors.writer import FolderOptions
from ..baselines import text_of

# Documents of a shard, which is what an interrupted run loses at most.
_SHARD = 64
# Settings of a folder that change nothing about what is ranked: vectors are brought to unit length in any case.
_KEPT = ("shard_size", "normalize", "token_budget", "padding", "columns")


class RankedCorpus:
    """Documents that are ranked by each other.

    Args:
        documents: the documents, each with text and an id of its own.
        encoder: gives the model, where a way to rank takes one.
        folder: where vectors of sentences are kept, so that another run encodes nothing; None keeps none.
        paragraph: which sentences belong together; None for what the model says.
        normalisation: how scores of sentences are normalised (see
            :func:`~graphdoc.similarity.hierarchical.score_documents`).
        direction: in which direction sentences are looked for (see there).
        show_progress: show bars; None shows them on a terminal when the work is long.
        seed: draws whatever is drawn.

    Raises:
        RetrievalError: two documents have one id.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        encoder: Callable[[], DocumentEncoder],
        *,
        folder: str | Path | None = None,
        paragraph: Paragraph | None = None,
        normalisation: Normalisation = "none",
        direction: Direction = DIRECTION,
        show_progress: bool | None = None,
        seed: int = 0,
    ) -> None:
        self.documents, self._encoder, self._folder, self._paragraph = documents, encoder, folder, paragraph
        self.normalisation, self.direction = normalisation, direction
        self.show_progress, self.seed = show_progress, seed
        self.places: dict[str, int] = {}
        for place, document in enumerate(documents):
            if self.places.setdefault(document.id, place) != place:
                raise RetrievalError(f"two documents have the id {document.id!r}; give each its own")

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.documents)

    @cached_property
    def encoder(self) -> DocumentEncoder:
        """The model."""
        return self._encoder()

    @property
    def paragraph(self) -> Paragraph:
        """Which sentences belong together."""
        return self._paragraph or self.encoder.model.config.paragraph

    @cached_property
    def texts(self) -> list[str]:
        """Title, headings and text of every document."""
        return [text_of(document) for document in self.documents]

    @cached_property
    def sentences(self) -> SentenceSet:
        """The sentences of all documents.

        Raises:
            DocumentError: a document has no text.
            RetrievalError: the folder cannot be written, or holds something else.
        """
        if self._folder is None:
            found = encode_sentences(self.encoder, self.documents, self.paragraph, self.show_progress)
            parts = [(own.vectors, own.places[:, 3]) for own in found]
            return SentenceSet.of(*zip(*parts, strict=True))
        try:
            # What graphdoc encode has written is taken, in whatever shards.
            kept = settings_of(self._folder) or {"shard_size": _SHARD}
            options = FolderOptions(level="sentence", show_progress=self.show_progress)
            options |= FolderOptions(**{name: kept[name] for name in _KEPT if name in kept})  # type: ignore[typeddict-item]
            self.encoder.encode_to_disk(self.documents, self._folder, **options)
        except OutputError as error:
            # Nothing is overwritten here.
            fix = "give another folder for vectors, or the model and --dtype that this one was made with"
            raise RetrievalError(str(error).replace(ANOTHER_FOLDER, fix)) from error
        ids, vectors = read_vectors(self._folder)
        counts, paragraphs = [], []
        for segmented in sentence_segmenter(self.encoder).segment_many(self.documents):
            counts.append(len(segmented.passages))
            paragraphs.append(paragraph_numbers(segmented, self.paragraph, self.encoder.segmenter))
        expected = [document.id for document, count in zip(self.documents, counts, strict=True) for _ in range(count)]
        if ids != expected:
            raise RetrievalError(f"{self._folder} holds vectors of other documents; give another folder")
        return SentenceSet.of(np.split(vectors, np.cumsum(counts)[:-1]), paragraphs)
