"""The objective of sentence pairs: contrast between their vectors, and masked language modelling (SDR, eq. 1-3)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..graphs.packing import MiniBatch
from ..losses import Gather, Loss, LossOutput, MaskedTokens, PairCosine
from ..modeling import DocumentOutput
from .batch import TrainingBatch
from .objectives import MiniBatchTerm, Objective, describe_vectors


@dataclass(frozen=True)
class SentencePairContrast(Objective):
    r"""Draws sentences of one paragraph together, keeps those of different documents apart, and guesses masked tokens.

    .. math::
        \ell = w_C \, \ell_C + w_{MLM} \, \ell_{MLM}

    Source: SDR, equations 1 to 3, where both weights are 1.

    Args:
        similarity: the loss of two vectors and their label; PairCosine with margin 1 - m is equation 1. Where there is
            a target ``group``, it is called with those of both sentences, too.
        contrast_weight: factor of that loss.
        tokens: the loss of masked tokens, with its weight.
        head: gives the logits of masked tokens; None trains without them.
    """

    similarity: Loss = field(default_factory=PairCosine)
    contrast_weight: float = 1.0
    tokens: MaskedTokens = field(default_factory=MaskedTokens)
    head: nn.Module | None = None

    def rows(self, output: DocumentOutput) -> Tensor:
        """Sentence vectors, ``(sentences, hidden)``: the passages of queries."""
        assert output.passages is not None
        return output.passages

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss between the vectors of roles ``first`` and ``second``, against the target ``label``."""
        first, second = rows[batch.roles["first"]], rows[batch.roles["second"]]
        groups = batch.targets.get("group")
        both = [groups[batch.roles[role]] for role in ("first", "second")] if groups is not None else []
        output = self.similarity(first, second, batch.targets["label"], *both, gather=gather)
        metrics = {"contrast_loss": output.loss.detach(), **output.metrics, **describe_vectors(first.detach())}
        return LossOutput(self.contrast_weight * output.loss, metrics)

    def mini_batch_term(self, batch: TrainingBatch, gather: Gather) -> MiniBatchTerm | None:
        """The loss of the masked tokens of a mini-batch, whose logits are computed at masked places alone."""
        if self.head is None:
            return None
        head, tokens = self.head, batch.targets["masked_tokens"]
        among = gather.rows(torch.tensor([len(tokens)], device=tokens.device))[0].sum()
        # Once a step; what each mini-batch needs of it is then found without waiting for an accelerator.
        sentences, places = batch.targets["masked_places"].cpu().unbind(dim=1)
        row_of = torch.full((sum(batch.graphs.passage_counts),), -1)

        def term(mini_batch: MiniBatch, vectors: Tensor) -> LossOutput:
            order = mini_batch.passage_order.cpu()
            row_of[order] = torch.arange(len(order))
            rows = row_of[sentences]
            row_of[order] = -1
            (chosen,) = torch.nonzero(rows >= 0, as_tuple=True)
            found = torch.stack([rows[chosen], places[chosen], chosen]).to(vectors.device, non_blocking=True)
            return self.tokens(head(vectors[found[0], found[1]]), tokens[found[2]], among, gather=gather)

        return term
