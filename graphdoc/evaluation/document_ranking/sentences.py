"""Documents ranked by their sentences (SDR, section 3.3)."""

from __future__ import annotations

import numpy as np

from ...similarity.cosine import Floats
from ...similarity.hierarchical import By, DocumentScorer
from .corpus import RankedCorpus
from .row import Scorer


def by_sentences(corpus: RankedCorpus, by: By) -> Scorer:
    """Scores of all documents but the one that is asked with, with which nothing is compared, normalised or not."""
    sentences = corpus.sentences

    def scores(place: int) -> Floats:
        scorer = DocumentScorer(
            sentences.document(place), by=by, normalisation=corpus.normalisation, direction=corpus.direction
        )
        for first, last in ((0, place), (place + 1, len(sentences))):
            if last > first:
                scorer.add(sentences.part(first, last))
        return np.insert(scorer.scores(), place, 0.0)

    return scores
