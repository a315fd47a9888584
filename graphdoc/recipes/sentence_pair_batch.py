"""Batches of sentence pairs: every sentence as it is, with masked tokens, or both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch

from ..graphs.batch import GraphBatch
from ..graphs.joined_graphs import JoinedGraphs
from ..sampling.token_masks import MaskedSentence
from ..training.batch import TrainingBatch, TrainingExample


def sentence_pair_batch(
    pairs: Sequence[tuple[TrainingExample, TrainingExample]],
    labels: Sequence[int],
    masked: Sequence[Sequence[MaskedSentence]] | None,
    *,
    clean: bool,
    groups: Sequence[tuple[int, int]] | None = None,
) -> TrainingBatch:
    """Put pairs of sentences together; a sentence is encoded as a query is.

    Args:
        pairs: both sentences of every pair, each a document of one passage.
        labels: 1 for pairs of one paragraph, else 0.
        masked: both sentences of every pair with masked tokens; None for none.
        clean: whether pairs are compared as they are; otherwise with masked tokens.
        groups: text groups of both documents of every pair; None where pairs do not see each other.

    Returns:
        The batch, with the roles ``first`` and ``second`` and the target ``label``; where there are groups, the
        target ``group``, ``(2 pairs,)``, those of first sentences before second ones; and where tokens are masked, the
        targets ``masked_places``, ``(masked, 2)``, sentence and place of every masked token, and ``masked_tokens``,
        ``(masked,)``, what stood there. Where pairs are compared as they are, sentences with masked tokens come after
        those of all pairs.
    """
    # All first sentences, then all second ones.
    sentences = list(chain(*zip(*pairs, strict=True)))
    token_ids = [one.token_ids[0] for one in sentences] if clean or masked is None else []
    targets = {"label": torch.tensor(labels, dtype=torch.int64)}
    if groups is not None:
        targets["group"] = torch.tensor(groups, dtype=torch.int64).reshape(-1, 2).T.reshape(-1)
    if masked is not None:
        everything = list(chain(*zip(*masked, strict=True)))
        rows = len(token_ids) + np.repeat(np.arange(len(everything)), [len(one.places) for one in everything])
        places = np.stack([rows, np.concatenate([one.places for one in everything])], axis=1)
        targets["masked_places"] = torch.from_numpy(places)
        targets["masked_tokens"] = torch.from_numpy(np.concatenate([one.tokens for one in everything]))
        token_ids += [one.token_ids for one in everything]
    sections = [int(one.sections[0]) for one in sentences] * (len(token_ids) // len(sentences))
    return TrainingBatch(
        GraphBatch.from_graphs(JoinedGraphs.of_queries(sections), tuple(token_ids)),
        ids=tuple(one.id for one in sentences),
        targets=targets,
        roles={"first": slice(len(pairs)), "second": slice(len(pairs), 2 * len(pairs))},
    )
