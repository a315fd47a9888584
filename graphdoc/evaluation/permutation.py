"""Whether one system is better than another on the same queries by more than chance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import permutation_test

RESAMPLES = 9_999
# Rows of signs that are held at once.
_BATCH = 500


def paired_p_value(
    values: npt.ArrayLike, others: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """How often a difference of means at least as great would come about if both systems were alike, two-sided.

    If they were alike each query could as well have given its two values the other way round. All ways are tried where
    there are no more of them than resamples; otherwise that many are drawn, and the observed one counts as one of them
    (Fisher 1935, "The Design of Experiments", section 21; Smucker et al. 2007 for retrieval). A query on which both
    are equal says nothing, and is left out.

    Args:
        values: values of the one system, ``(queries,)``.
        others: values of the other, ``(queries,)``.
        resamples: number of ways that are drawn.
        seed: draws them.

    >>> paired_p_value([0.9, 0.8, 0.7, 0.9, 1.0], [0.5, 0.5, 0.5, 0.5, 0.5])
    0.0625
    """
    differences = np.asarray(values, np.float64) - np.asarray(others, np.float64)
    differences = differences[differences != 0]
    if not len(differences):
        return 1.0
    if len(differences) == 1:
        # Either way round the mean is as far from 0; SciPy refuses a single value.
        return 1.0
    found = permutation_test(
        (differences,),
        lambda sample, axis: np.mean(sample, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=_BATCH,
        random_state=np.random.default_rng(seed),
    )
    return float(found.pvalue)
