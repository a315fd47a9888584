"""Training on sentence pairs without labels (SDR, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import torch
from torch.nn import functional

from ..checkpoints.backbones import load_language_model_head
from ..corpus.corpus import TrainingCorpus
from ..corpus.document import TrainingDocument
from ..encoder import DocumentEncoder
from ..errors import DocumentError, ModelError, SettingsError
from ..evaluation.evaluator import greater_is_better, measured_once
from ..evaluation.pair_scores import pair_auc
from ..graphs.batch import GraphBatch
from ..graphs.kinds import JoinedGraphs
from ..losses import InfoNCELoss, Loss, MaskedTokenLoss, PairCosineLoss
from ..runtime.arrays import Rows
from ..runtime.text import counted
from ..sampling.batches import EpochBatches, random_generator
from ..sampling.sentence_pairs import INTRA_PROBABILITY, MaskedSentence, SentencePairSampler, TokenMasks
from ..settings.pretraining import SentencePairSettings
from ..training.objectives import SentencePairObjective, TrainingBatch
from ..training.recipe import RunEvaluation
from ..training.run import begin_training, is_checkpoint_name
from ..training.step import CachedStep
from .base import HELD_OUT_EPOCH, CorpusRecipe, Examples, LossSettings, measuring_step

HEAD = "language_model"


def begin_sentences(encoder: DocumentEncoder, settings: SentencePairSettings) -> None:
    """Give a model a language-model head where tokens are guessed, and mark the weights that are trained.

    Graph and readout come after sentence vectors and stay as they are.

    Raises:
        SettingsError: the model has untrained parts that this does not train.
    """
    model, loss, start = encoder.model, settings.loss, settings.model.start
    config = model.config
    untrained = {
        f"graph_layers={config.graph_layers}": config.graph_layers and not model.reads_initial_nodes,
        f"readout={config.readout}": any(True for _ in model.readout.parameters()),
        f"projection_size={config.projection_size}": model.projection is not None and not loss.contrast_weight,
    }
    if not config.trained and (wrong := next((name for name, is_there in untrained.items() if is_there), None)):
        raise SettingsError(
            f"model.settings.{wrong} on {start} adds weights that sentence pairs do not train; set "
            "model.settings.graph_layers=0, readout=mean and, without loss.contrast_weight, projection_size=null"
        )
    model.remove_head()
    if loss.mlm_weight:
        backbone = config.backbone if is_checkpoint_name(start) else start
        model.training_parts[HEAD] = load_language_model_head(model.passage_encoder.transformer, backbone)
    begin_training(encoder, settings.model)
    model.graph.requires_grad_(False)
    model.readout.requires_grad_(False)


def held_out_scores(step: CachedStep, batch: TrainingBatch) -> dict[str, float]:
    """Measure pairs of documents that are not trained on; the model is in eval mode.

    ``auc`` is the probability that a pair of one paragraph is more similar than another one.
    """
    output = step.measure(batch)
    assert output.rows is not None
    first, second = (output.rows[batch.roles[role]].float().cpu() for role in ("first", "second"))
    labels = batch.targets["label"]
    scores = {name: float(value) for name, value in output.metrics.items()}
    # Of one kind alone there is nothing to rank.
    auc = pair_auc(labels, functional.cosine_similarity(first, second)) if len(torch.unique(labels)) > 1 else 0.5
    return {"loss": float(output.loss), "auc": auc, **scores}


def sentence_pair_batch(
    pairs: Sequence[tuple[TrainingDocument, TrainingDocument]],
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
        clean: whether pairs are compared as they are, before sentences with masked tokens; otherwise with them.
        groups: text groups of both documents of every pair; None where pairs do not see each other.

    Returns:
        The batch, with the roles ``first`` and ``second`` and the targets ``label``, ``group`` (those of first
        sentences before second ones), ``masked_positions``, ``(masked, 2)``, sentence and position of every masked
        token, and ``masked_tokens``, ``(masked,)``, what stood there.
    """
    # All first sentences, then all second ones.
    sentences = list(chain(*zip(*pairs, strict=True)))
    token_ids = [one.token_ids[0] for one in sentences] if clean or masked is None else []
    targets = {"label": torch.tensor(labels, dtype=torch.int64)}
    if groups is not None:
        targets["group"] = torch.tensor(groups, dtype=torch.int64).reshape(-1, 2).T.reshape(-1)
    if masked is not None:
        everything = list(chain(*zip(*masked, strict=True)))
        rows = len(token_ids) + np.repeat(np.arange(len(everything)), [len(one.positions) for one in everything])
        places = np.stack([rows, np.concatenate([one.positions for one in everything])], axis=1)
        targets["masked_positions"] = torch.from_numpy(places)
        targets["masked_tokens"] = torch.from_numpy(np.concatenate([one.tokens for one in everything]))
        token_ids += [one.token_ids for one in everything]
    sections = [int(one.sections[0]) for one in sentences] * (len(token_ids) // len(sentences))
    return TrainingBatch(
        GraphBatch.from_graphs(JoinedGraphs.from_queries(sections), tuple(token_ids)),
        ids=tuple(one.id for one in sentences),
        targets=targets,
        roles={"first": slice(len(pairs)), "second": slice(len(pairs), 2 * len(pairs))},
    )


@dataclass(frozen=True)
class SentencePairCollator:
    """Makes batches of pairs, in the processes that load ahead.

    Partners are drawn from a corpus that was cut into sentences, and tokens are masked, unless there are no masks.
    """

    corpus: TrainingCorpus
    pairs: SentencePairSampler
    masks: TokenMasks | None
    settings: SentencePairSettings

    def __call__(self, places: Sequence[tuple[TrainingDocument, int, int]]) -> TrainingBatch:
        """Make a batch of the pairs of some anchors in an epoch."""
        loss, seed, groups, masked = self.settings.loss, self.settings.training.seed, None, None
        drawn = [self.pairs.sample(epoch, number) for _, epoch, number in places]
        pairs = [(one, self.corpus.passage(*partner)) for (one, *_), (partner, _) in zip(places, drawn, strict=True)]
        if self.masks is not None:
            masked = [
                self.masks.mask([one.token_ids[0] for one in pair], seed, epoch, number)
                for pair, (_, epoch, number) in zip(pairs, places, strict=True)
            ]
        if loss.compares_all:
            groups = [(first.group, second.group) for first, second in pairs]
        labels = [int(is_intra) for _, is_intra in drawn]
        return sentence_pair_batch(pairs, labels, masked, clean=loss.contrast_on == "clean", groups=groups)


class SentencePairRecipe(CorpusRecipe[SentencePairSettings]):
    """Trains sentence vectors on pairs of sentences, and measures pairs of documents that are held out.

    Attributes:
        held_out: pairs that are measured, in one batch; None where none are held out.

    Raises:
        DocumentError: there are no pairs, or too few documents.
        ModelError: tokens are to be masked, and the tokenizer has no mask token.
        SettingsError: the model has untrained parts that this does not train, or batches are too small.
    """

    summary = "Sentence pairs without labels (SDR, section 3.2)"
    batch_unit = "pairs"
    losses: ClassVar = {
        PairCosineLoss: LossSettings(SentencePairObjective, ("margin",), {"negatives": "sampled"}),
        InfoNCELoss: LossSettings(
            SentencePairObjective,
            ("temperature",),
            {"negatives": "in_batch"},
            {"similarity": "cosine", "directions": "both"},
        ),
    }

    @classmethod
    def describe_losses(cls, losses: Sequence[Loss]) -> tuple[Loss | None, dict[str, Any]]:
        """See the same method of the base; masked tokens are added to a loss of pairs, and each can be alone."""
        masked = [loss for loss in losses if isinstance(loss, MaskedTokenLoss)]
        of_pairs = [loss for loss in losses if not isinstance(loss, MaskedTokenLoss)]
        custom, values = super().describe_losses(of_pairs if len(masked) < 2 else losses)
        if "margin" in values:
            # There the setting is the distance of both.
            values["margin"] = round(1 - values["margin"], 12)
        if losses:
            values["mlm_weight"] = masked[0].weight if masked else 0.0
            values |= {} if of_pairs else {"contrast_weight": 0.0}
        return custom, values

    def begin(self) -> None:
        """Give the model its head, make the objective, and mark the weights that are trained."""
        run, settings, loss, encoder = self.run, self.settings, self.settings.loss, self.run.encoder
        begin_sentences(encoder, settings)
        self._masks = None
        if loss.masks:
            try:
                self._masks = TokenMasks(encoder.tokenizer)
            except ModelError as error:
                raise ModelError(f"model.start={settings.model.start}: {error}") from error
        # SDR, eq. 1-3, with drawn pairs.
        both = InfoNCELoss("cosine", loss.temperature, "both")
        usual = both if loss.compares_all else PairCosineLoss(1 - loss.margin)
        masked, head = MaskedTokenLoss(loss.mlm_weight), encoder.model.training_parts[HEAD] if loss.mlm_weight else None
        self.objective = SentencePairObjective(run.loss or usual, loss.contrast_weight, masked, head)

    def divide(self) -> None:
        """Draw the pairs that are trained on and those that are measured, and plan the batches."""
        run, settings, loss = self.run, self.settings, self.settings.loss
        rows, held_out = self.hold_out(settings.validation.share, least=1)
        # Where the batch has the negatives, a pair of two documents would have nothing to find.
        self._pairs = self._pairs_of(rows, 1.0 if loss.compares_all else INTRA_PROBABILITY)
        self._held_out_documents = len(held_out)
        self.plan(EpochBatches, examples=self._anchors(self._pairs), per_epoch=settings.pairs_per_epoch)
        self.held_out = self._measured(held_out) if len(held_out) else None
        if self.held_out is not None:
            best = settings.validation.best
            # A batch that cannot be divided, since the loss looks at all of it.
            measure = partial(held_out_scores, measuring_step(run, self.objective), self.held_out)
            measure = partial(measured_once, run.processes, measure)
            self.evaluation = RunEvaluation(
                measure, best, greater_is_better(best), size=len(self.held_out.targets["label"])
            )

    def _measured(self, rows: Rows) -> TrainingBatch:
        settings, pairs = self.settings, self._pairs_of(rows)
        numbers = random_generator(settings.training.seed, "held-out pairs").permutation(len(pairs))
        chosen, anchors = np.sort(numbers[: settings.validation.most_pairs]).tolist(), self._anchors(pairs)
        batch = self._collator(pairs)([(anchors[number], HELD_OUT_EPOCH, number) for number in chosen])
        if settings.loss.compares_all and not batch.targets["label"].any():
            raise DocumentError(
                f"{settings.corpus.name}: of {counted(len(chosen), 'pair')} that would be measured none is of one "
                "paragraph: there is no partner to find; raise validation.most_pairs or validation.share"
            )
        return batch

    def _pairs_of(self, rows: Rows, intra_probability: float = INTRA_PROBABILITY) -> SentencePairSampler:
        """The pairs of some documents, of which two at least need paragraphs of two sentences."""
        corpus, seed = self.corpus, self.settings.training.seed
        pairs = SentencePairSampler(
            corpus.passage_counts, corpus.paragraphs, corpus.groups, seed, rows=rows,
            intra_probability=intra_probability,
        )  # fmt: skip
        if pairs.groups < 2:
            raise DocumentError(
                f"{self.settings.corpus.name}: {counted(pairs.groups, 'text')} of {counted(len(rows), 'document')} "
                "has paragraphs of two sentences, and pairs are of two texts; give more documents, or longer "
                "paragraphs (model.settings.paragraph)"
            )
        return pairs

    def _anchors(self, pairs: SentencePairSampler) -> Examples:
        documents, places = pairs.anchors.T.astype(np.int64)
        return Examples(self.corpus, documents, places)

    def _collator(self, pairs: SentencePairSampler) -> SentencePairCollator:
        return SentencePairCollator(self.corpus, pairs, self._masks, self.settings)

    def collator(self) -> SentencePairCollator:
        """The collator, which draws partners and masks tokens."""
        return self._collator(self._pairs)

    def counts(self) -> dict[str, Any]:
        """Counts of the training and validation data."""
        return {
            "sentences": len(self._pairs),
            "unpaired_sentences": self._pairs.unpaired,
            "train": len(np.unique(self._pairs.anchors[:, 0])),
            "held_out": self._held_out_documents,
            "held_out_pairs": 0 if self.held_out is None else len(self.held_out.targets["label"]),
        }
