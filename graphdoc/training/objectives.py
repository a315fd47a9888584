"""What a model is trained for: what is in a batch, which outputs of the model a loss looks at, and the loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..graphs.batch import GraphBatch, MiniBatch
from ..graphs.kinds import EdgeKind
from ..losses import (
    Gather,
    InfoNCELoss,
    Loss,
    LossOutput,
    MaskedTokenLoss,
    PairCosineLoss,
    SubtopicLoss,
    SupervisedContrastiveLoss,
)
from ..losses.base import call_loss
from ..losses.clustering import PairedSentences
from ..losses.contrastive import in_groups
from ..modeling import DocumentOutput
from ..similarity.kinds import best_passages, maxsim, packed

# Which documents of a batch play a role: a range of them, or their rows.
Role = slice | Tensor


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """One process's share of a batch.

    Args:
        graphs: the graphs of all documents in all roles, so that no passage is encoded twice.
        ids: ids of the documents that the batch was drawn from; one can give several graphs, such as two views.
        targets: what the objective compares with, by name: the ``group`` or ``class`` of every document, the ``label``
            of every pair, ...
        roles: which graphs play which role, by name: ``anchor``, ``candidate``, ``first``, ``second``, ...; none where
            all play the same.
    """

    graphs: GraphBatch
    ids: tuple[str, ...]
    targets: Mapping[str, Tensor]
    roles: Mapping[str, Role] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """Number of tokens, special tokens included; 0 where passage vectors are given."""
        return sum(len(ids) for ids in self.graphs.token_ids)

    def to(self, device: torch.device | str) -> TrainingBatch:
        """The same batch with its tensors on another device."""
        return replace(
            self,
            graphs=self.graphs.to(device),
            targets={name: target.to(device) for name, target in self.targets.items()},
            roles={name: role.to(device) if isinstance(role, Tensor) else role for name, role in self.roles.items()},
        )


MiniBatchTerm = Callable[[MiniBatch, Tensor], LossOutput]


class Objective(ABC):
    """A loss on something that the model gives for every document alone, so that documents can be taken in slices.

    Attributes:
        reads: what of a model's output the loss looks at: ``documents`` or ``passages``, ``(..., hidden)``,
            ``logits``, ``(documents, classes)``, or ``subtopics``, ``(sentences, columns)``.
        takes: what its loss has to be, or to extend, where it calls more of it than the loss itself.
    """

    reads: ClassVar[str] = "documents"
    takes: ClassVar[type] = object

    def rows(self, output: DocumentOutput) -> Tensor:
        """What the loss looks at, ``(rows, ...)``, document after document."""
        rows: Tensor | None = getattr(output, self.reads)
        assert rows is not None, f"the model gives no {self.reads}"
        return rows

    @abstractmethod
    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss over the rows of all documents of a batch; ``gather`` is how it sees those of other processes."""

    def mini_batch_term(self, batch: TrainingBatch, gather: Gather) -> MiniBatchTerm | None:
        """A term of the loss that every mini-batch of passages has by itself, such as masked language modelling.

        It is made once a step, before the first mini-batch, and this is the place to agree with other processes: they
        have other numbers of mini-batches.

        Returns:
            A function of a mini-batch and the vectors of its tokens, ``(passages, tokens, encoder hidden)``. Losses
            and metrics of the mini-batches are added up, so that a mean has to be taken over the whole batch.
        """
        return None


@dataclass(frozen=True)
class SubDocumentObjective(Objective):
    """Tells the two views of a document from those of other documents.

    Args:
        criterion: the loss between anchors and candidates, called with both and with the group of each pair,
            ``(pairs, hidden)``, ``(pairs, hidden)`` and ``(pairs,)``; pairs of one group are copies of one document.
    """

    criterion: Loss

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss between the vectors of role ``anchor`` and those of role ``candidate``."""
        anchors, candidates = rows[batch.roles["anchor"]], rows[batch.roles["candidate"]]
        output = call_loss(self.criterion, anchors, candidates, batch.targets["group"], gather=gather)
        return LossOutput(output.loss, {**output.metrics, **describe_vectors(rows.detach())})


@dataclass(frozen=True)
class QueryObjective(Objective):
    """Separates the answer of every query from other documents (Graph-RoBERTa, section 3.3).

    Documents of all processes are candidates. Other answers of a query, and copies of them, are none of its negatives;
    a text that is there several times counts once.

    Args:
        criterion: the loss between queries and candidates, called as :class:`~graphdoc.losses.InfoNCELoss` is: with
            both, the groups of the answers of every query, the group of every candidate, and the row of the answer.
        once: whether copies of a text count once; not where each is another view of it, with another vector.
    """

    criterion: Loss
    once: bool = True

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss between the vectors of role ``query`` and those of role ``candidate``.

        The target ``positive`` is the row of every query's answer among the candidates, ``answers`` are the groups of
        all its answers, filled up with -1, and ``group`` is that of every candidate.
        """
        queries, candidates = rows[batch.roles["query"]], rows[batch.roles["candidate"]]
        answers, groups = batch.targets["answers"], batch.targets["group"]
        groups = without_repeats(groups, gather) if self.once else groups
        positive = batch.targets["positive"]
        output = call_loss(self.criterion, queries, candidates, answers, groups, positive, gather=gather)
        return LossOutput(output.loss, {**output.metrics, **describe_vectors(candidates.detach())})


@dataclass(frozen=True)
class BestPassageObjective(Objective):
    """Separates the answer of every query from other documents by their best passages.

    The similarity of a query and a document is the plain mean of those of its three passages that are most similar to
    the query; a search weighs them as 1 : 0.25 : 0.1. All else is as for :class:`QueryObjective`.
    """

    reads: ClassVar[str] = "passages"
    takes: ClassVar[type] = InfoNCELoss
    criterion: InfoNCELoss

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss over the passages of all documents; targets and roles are those of :class:`QueryObjective`."""
        documents = batch.roles["candidate"]
        assert isinstance(documents, slice)
        # A query has one passage.
        queries, passages = rows[batch.roles["query"]], rows[documents]
        counts, start = gather.rows(torch.tensor(batch.graphs.passage_counts[documents], device=rows.device))
        with torch.autocast(rows.device.type, enabled=False):
            queries, passages = queries.float(), passages.float()
            if self.criterion.similarity == "cosine":
                queries, passages = functional.normalize(queries, dim=-1), functional.normalize(passages, dim=-1)
            similarity = best_passages(queries @ gather.rows(passages)[0].T, counts)
        groups = gather.rows(without_repeats(batch.targets["group"], gather))[0]
        left_out, positive = in_groups(batch.targets["answers"], groups), batch.targets["positive"].unsqueeze(1)
        output = self.criterion.of_similarities(similarity, positive, left_out, start=start, gather=gather)
        return LossOutput(output.loss, {**output.metrics, **describe_vectors(passages.detach())})


def without_repeats(groups: Tensor, gather: Gather) -> Tensor:
    """The groups of this process's candidates, ``(candidates,)``, -1 where an earlier one, of any process, has it."""
    everything, start = gather.rows(groups)
    _, numbers = torch.unique(everything, return_inverse=True)
    places = torch.arange(len(everything), device=groups.device)
    first = torch.full_like(places, len(places)).scatter_reduce(0, numbers, places, "amin")
    return torch.where(first[numbers] == places, everything, -1)[start : start + len(groups)]


@dataclass(frozen=True)
class ClassificationObjective(Objective):
    """Tells the classes of documents, by the logits of a model with a head."""

    reads: ClassVar[str] = "logits"
    criterion: Loss

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss of the logits against the target ``class``."""
        return call_loss(self.criterion, rows, batch.targets["class"], gather=gather)


@dataclass(frozen=True)
class SectionObjective(Objective):
    """Draws sections of documents of one group together, and apart from those of others (CoLDE, section 3.3).

    The label of a section is the group of its document.
    """

    criterion: Loss = field(default_factory=SupervisedContrastiveLoss)

    def rows(self, output: DocumentOutput) -> Tensor:
        """Section vectors, ``(sections, hidden)``; document vectors for a readout that gives no others."""
        return super().rows(output) if output.sections is None else output.sections

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss over the sections of all documents, against the target ``group``."""
        labels = batch.targets["group"]
        if len(rows) != len(batch):
            labels = labels[batch.graphs.sections.document_of]
        output = call_loss(self.criterion, rows, labels, gather=gather)
        return LossOutput(output.loss, {**output.metrics, **describe_vectors(rows.detach())})


@dataclass(frozen=True)
class PairObjective(Objective):
    """Makes the two documents of a pair alike or not, by a loss of their vectors and their label."""

    criterion: Loss

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss between the vectors of roles ``first`` and ``second``, against the target ``label``."""
        first, second = rows[batch.roles["first"]], rows[batch.roles["second"]]
        return call_loss(self.criterion, first, second, batch.targets["label"], gather=gather)


@dataclass(frozen=True)
class PairMaxSimObjective(Objective):
    """Makes the two documents of a pair alike or not, passage by passage (MaxSim)."""

    reads: ClassVar[str] = "passages"
    takes: ClassVar[type] = PairCosineLoss
    criterion: PairCosineLoss

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss between the passages of roles ``first`` and ``second``, against the target ``label``."""
        documents = torch.split(rows, list(batch.graphs.passage_counts))
        numbers = torch.arange(len(documents))
        pairs = zip(numbers[batch.roles["first"]].tolist(), numbers[batch.roles["second"]].tolist(), strict=True)
        with torch.autocast(rows.device.type, enabled=False):
            similarities = [
                maxsim(*packed([documents[first]]), *packed([documents[second]]), block=None)[0, 0]
                for first, second in pairs
            ]
        return self.criterion.of_similarities(torch.stack(similarities), batch.targets["label"], gather=gather)


def describe_vectors(documents: Tensor) -> dict[str, Tensor]:
    """Length and spread of document vectors, ``(documents, hidden)``, to see a collapse coming.

    ``embedding_norm`` is the mean length; ``spread`` the standard deviation of a coordinate of the unit vectors times
    the root of their width: 1 where directions are evenly spread, 0 where all are the same.
    """
    unit = functional.normalize(documents.float(), dim=-1)
    return {
        "embedding_norm": documents.float().norm(dim=-1).mean(),
        "spread": unit.std(dim=0, correction=0).mean() * documents.shape[1] ** 0.5,
    }


@dataclass(frozen=True)
class SentencePairObjective(Objective):
    r"""Draws sentences of one paragraph together, keeps those of different documents apart, and guesses masked tokens.

    .. math::
        \ell = w_C \, \ell_C + w_{MLM} \, \ell_{MLM}

    Source: SDR, equations 1 to 3, where both weights are 1.

    Args:
        criterion: the loss of two vectors and their label; PairCosineLoss with margin 1 - m is equation 1. With a
            target ``group`` it is called as :class:`~graphdoc.losses.InfoNCELoss` is: with the groups of both
            sentences, and the own row of every pair of one paragraph.
        contrast_weight: factor of that loss.
        tokens: the loss of masked tokens, with its weight.
        head: gives the logits of masked tokens; None trains without them.
    """

    reads: ClassVar[str] = "passages"
    criterion: Loss = field(default_factory=PairCosineLoss)
    contrast_weight: float = 1.0
    tokens: MaskedTokenLoss = field(default_factory=MaskedTokenLoss)
    head: nn.Module | None = None

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss between the vectors of roles ``first`` and ``second``, against the target ``label``."""
        first, second = rows[batch.roles["first"]], rows[batch.roles["second"]]
        labels, groups = batch.targets["label"], batch.targets.get("group")
        tensors = [labels]
        if groups is not None:
            # A pair of two documents has no positive.
            positive = torch.where(labels == 1, torch.arange(len(labels), device=labels.device), -1)
            tensors = [*(groups[batch.roles[role]] for role in ("first", "second")), positive]
        output = call_loss(self.criterion, first, second, *tensors, gather=gather)
        metrics = {"contrast_loss": output.loss.detach(), **output.metrics, **describe_vectors(first.detach())}
        return LossOutput(self.contrast_weight * output.loss, metrics)

    def mini_batch_term(self, batch: TrainingBatch, gather: Gather) -> MiniBatchTerm | None:
        """The loss of the masked tokens of a mini-batch, whose logits are computed at masked places alone."""
        if self.head is None:
            return None
        head, tokens = self.head, batch.targets["masked_tokens"]
        among = gather.rows(torch.tensor([len(tokens)], device=tokens.device))[0].sum()
        # Once a step; what each mini-batch needs of it is then found without waiting for an accelerator.
        sentences, places = batch.targets["masked_positions"].cpu().unbind(dim=1)
        row_of = torch.full((sum(batch.graphs.passage_counts),), -1)

        def term(mini_batch: MiniBatch, vectors: Tensor) -> LossOutput:
            order = mini_batch.passage_order.cpu()
            row_of[order] = torch.arange(len(order))
            rows = row_of[sentences]
            row_of[order] = -1
            (chosen,) = torch.nonzero(rows >= 0, as_tuple=True)
            row, place, number = torch.stack([rows[chosen], places[chosen], chosen]).to(
                vectors.device, non_blocking=True
            )
            return self.tokens(head(vectors[row, place]), tokens[number], among, gather=gather)

        return term


@dataclass(frozen=True)
class SubtopicObjective(Objective):
    """Finds clusters of sentences that are connected, alike for both documents of a pair that is similar."""

    reads: ClassVar[str] = "subtopics"
    takes: ClassVar[type] = SubtopicLoss
    criterion: SubtopicLoss = field(default_factory=SubtopicLoss)

    def loss(self, rows: Tensor, batch: TrainingBatch, gather: Gather) -> LossOutput:
        """The loss of all pairs, against the target ``label``; ``columns`` is how many clusters each has."""
        pairs = paired_sentences(batch.graphs, batch.targets["columns"])
        return self.criterion(rows, pairs, batch.targets["label"], gather=gather)


def paired_sentences(graphs: GraphBatch, columns: Tensor) -> PairedSentences:
    """The sentences of a batch of pairs as the loss takes them; ``columns`` are ``(pairs,)``, clusters of each."""
    assert graphs.edge_weight is not None, "edges of similar sentences have weights"
    # Every graph has one node that is no sentence, its first; of its only edge, the self-loop, nothing is left.
    edges = (graphs.edge_index - graphs.document_of[graphs.edge_index] - 1).clamp(min=0)
    weights = torch.where(graphs.edge_kind == EdgeKind.SELF_LOOP, 0.0, graphs.edge_weight)
    is_second = graphs.section_of[graphs.rows.passages] == 1
    return PairedSentences(graphs.rows.document_of, is_second, columns, edges, weights)
