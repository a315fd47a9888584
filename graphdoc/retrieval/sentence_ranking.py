"""Documents of a corpus scored by their sentences against those of one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import RetrievalError
from ..similarity.alignment import Alignment, align
from ..similarity.hierarchical import Background, By, Direction, DocumentScorer, Normalisation, SentenceSet
from .sentence_corpus import SentenceCorpus, sample_of


@dataclass(frozen=True, slots=True, eq=False)
class SentenceRanking:
    """How documents are scored against one: the source, and what its scores are usually like.

    Args:
        source: the sentences of the document that is asked with.
        by: see :func:`~graphdoc.similarity.hierarchical.score_documents`.
        normalisation: see there.
        direction: see there.
        background: what scores are usually like; None where they are not normalised.
    """

    source: SentenceSet
    by: By
    normalisation: Normalisation
    direction: Direction
    background: Background | None

    @classmethod
    def in_corpus(
        cls,
        corpus: SentenceCorpus,
        source: SentenceSet,
        id: str | None,
        by: By,
        normalisation: Normalisation,
        direction: Direction,
    ) -> SentenceRanking:
        """Score as is usual in a corpus: z-scores compare with all of its documents, or a sample of very many.

        Args:
            corpus: the documents.
            source: the sentences of the document that is asked with.
            id: its id; it is no part of what scores are compared with.
            by: see above.
            normalisation: see above.
            direction: see above.
        """
        background = None
        if normalisation == "zscore":
            sample = sample_of(corpus, id)
            if sample is not None:
                background = Background.of_sample(source, sample, by=by, direction=direction)
        return cls(source, by, normalisation, direction, background)

    def scores(self, corpus: SentenceCorpus, ids: Sequence[str] | None = None) -> dict[str, float]:
        """Scores of some documents of a corpus, or of all, a block of them in memory at a time.

        Raises:
            RetrievalError: two documents have one id.
        """
        found: list[str] = []
        scorer = DocumentScorer(
            self.source,
            by=self.by,
            normalisation=self.normalisation,
            direction=self.direction,
            background=self.background,
        )
        for block in corpus.blocks(ids):
            found += block.ids
            scorer.add(block.sentences)
        scores = dict(zip(found, scorer.scores().tolist(), strict=True))
        if len(scores) < len(found):
            twice = Counter(found).most_common(1)[0][0]
            raise RetrievalError(f"two documents have the id {twice!r}; give each its own id and encode them again")
        return scores

    def align(self, candidate: SentenceSet) -> Alignment:
        """Take the score of one document apart."""
        return align(
            self.source,
            candidate,
            by=self.by,
            normalisation=self.normalisation,
            direction=self.direction,
            background=self.background,
        )
