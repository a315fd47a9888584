"""How likely a view is given the words of its document: how much it says of the main things (SST, section 5.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .draws import Rows

Floats = npt.NDArray[np.float64]


class SentenceLikelihoods(NamedTuple):
    r"""How likely the sentences of a document are under its unigram model, :math:`P(w) = n_w / \sum_v n_v`.

    Every word of a sentence is in the document, so that nothing has to be smoothed.

    Args:
        logarithms: ``(sentences,)``, sums of the logarithms of :math:`P` over the terms of every sentence.
        terms: ``(sentences,)``, how many terms it has.
    """

    logarithms: Floats
    terms: Rows

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]]) -> SentenceLikelihoods:
        """Those of a document.

        Args:
            sentences: the terms of every sentence, each as often as it occurs.
        """
        counts = Counter(chain.from_iterable(sentences))
        total = sum(counts.values())
        sums = [sum(np.log(counts[term] / total) for term in terms) for terms in sentences]
        return cls(np.array(sums, np.float64), np.array([len(terms) for terms in sentences], np.int64))

    def of_view(self, sentences: Rows) -> float:
        """The query likelihood of a view: the mean over its terms; below all others where it has none.

        Args:
            sentences: its sentences; one that is in it in part counts whole.
        """
        terms = int(self.terms[sentences].sum())
        return float(self.logarithms[sentences].sum()) / terms if terms else -np.inf
