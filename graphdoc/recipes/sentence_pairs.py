"""Training on sentence pairs without labels (SDR, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch.nn import functional

from ..checkpoints.backbones import load_language_model_head
from ..corpus.corpus import TrainingCorpus
from ..encoder import DocumentEncoder
from ..errors import DocumentError, ModelError, SettingsError
from ..evaluation.pair_scores import pair_auc
from ..graphs.batch import GraphBatch
from ..graphs.kinds import JoinedGraphs
from ..losses import MaskedTokens, PairContrast, PairCosine
from ..modeling import DocumentModel
from ..runtime.text import counted
from ..sampling.batches import Rows, random_generator
from ..sampling.sentence_pairs import (
    INTRA_PROBABILITY,
    MaskedSentence,
    Sentence,
    SentencePairBatches,
    SentencePairDraws,
    TokenMasks,
)
from ..settings.pretraining import SentencePairSettings
from ..training.data import TrainingBatch, TrainingExample
from ..training.loop import RunEvaluation
from ..training.objectives import SentencePairContrast
from ..training.run import Recipe, RunContext, begin_training, is_checkpoint
from ..training.step import CachedStep
from .base import CorpusData, Examples, RunOptions, measuring_step, train

HEAD = "language_model"


def pretrain(settings: SentencePairSettings, **options: Unpack[RunOptions]) -> Path:
    """Train sentence vectors without labels (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(run: RunContext[SentencePairSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, loss = run.settings, run.settings.loss
    begin_sentences(run.encoder, settings)
    data = SentencePairData(run)
    # SDR, eq. 1-3, with drawn pairs.
    objective = SentencePairContrast(
        run.loss or (PairContrast(loss.temperature) if loss.compares_all else PairCosine(1 - loss.margin)),
        loss.contrast_weight,
        MaskedTokens(loss.mlm_weight),
        run.encoder.model.training_parts[HEAD] if loss.mlm_weight else None,
    )
    evaluation = None
    if data.held_out is not None:
        best = settings.validation.best
        measure = partial(held_out_scores, measuring_step(run, objective), data.held_out)
        evaluation = RunEvaluation(measure, best, not best.endswith("loss"))
    return Recipe(data, objective, evaluation, "Sentence pairs without labels (SDR, section 3.2)")


def begin_sentences(encoder: DocumentEncoder, settings: SentencePairSettings) -> None:
    """Give the model a language-model head where tokens are guessed, and mark the weights that are trained.

    Graph and readout come after sentence vectors and stay as they are.

    Args:
        encoder: the encoder around the model.
        settings: the settings of the run.

    Raises:
        SettingsError: the model has untrained parts that this does not train.
    """
    model = encoder.model
    _require_trained_parts(model, settings)
    # A head for classes would read other vectors than those it was trained on.
    model.remove_head()
    if settings.loss.mlm_weight:
        start = settings.model.start
        backbone = model.config.backbone if is_checkpoint(start) else start
        model.training_parts[HEAD] = load_language_model_head(model.passage_encoder.transformer, backbone)
    begin_training(encoder, settings.model)
    model.graph.requires_grad_(False)
    model.readout.requires_grad_(False)


def _require_trained_parts(model: DocumentModel, settings: SentencePairSettings) -> None:
    """Refuse untrained layers whose vectors the result would then give.

    Raises:
        SettingsError: there are such layers.
    """
    if model.config.trained:
        return
    advice = "which sentence pairs do not train"
    if model.config.graph_layers and not model.reads_initial_nodes:
        raise SettingsError(
            f"model.settings.graph_layers={model.config.graph_layers} on {settings.model.start} are new layers, "
            f"{advice}; set model.settings.graph_layers=0, or start from a model whose graph is trained"
        )
    if any(True for _ in model.readout.parameters()):
        raise SettingsError(
            f"model.settings.readout={model.config.readout} on {settings.model.start} has new weights, {advice}; set "
            "model.settings.readout=mean"
        )
    if model.projection is not None and not settings.loss.contrast_weight:
        raise SettingsError(
            f"model.settings.projection_size={model.config.projection_size} on {settings.model.start} is a new layer, "
            "which masked tokens do not train; set model.settings.projection_size=null"
        )


def held_out_scores(step: CachedStep, batch: TrainingBatch) -> dict[str, float]:
    """Measure pairs of documents that are not trained on; the model is in eval mode.

    Returns:
        The loss and its terms, the mean cosine of pairs of one paragraph and of others, ``auc``, the probability that
        one of the former is more similar than one of the latter, and how many masked tokens are guessed.
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


# The draw of pairs that are held out belongs to no epoch of training.
HELD_OUT_EPOCH = -1


@dataclass(frozen=True)
class SentencePairCollator:
    """Makes batches of pairs, in the processes that load ahead.

    Args:
        corpus: a corpus that was cut into sentences.
        pairs: draws the partners.
        masks: masks tokens; None for none.
        clean: whether pairs are compared as they are; otherwise with masked tokens.
        compares_all: whether the loss compares sentences with those of other pairs.
        seed: seed of the masks.
    """

    corpus: TrainingCorpus
    pairs: SentencePairDraws
    masks: TokenMasks | None
    clean: bool
    compares_all: bool
    seed: int

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of the pairs of some anchors in an epoch."""
        drawn = [self.pairs.draw(epoch, number) for _, epoch, number in places]
        pairs = [(place[0], self._read(pair.second)) for place, pair in zip(places, drawn, strict=True)]
        masked = None
        if self.masks is not None:
            masked = [
                self.masks.draw([one.token_ids[0] for one in pair], self.seed, epoch, number)
                for pair, (_, epoch, number) in zip(pairs, places, strict=True)
            ]
        groups = None
        if self.compares_all:
            of = self.corpus.groups
            groups = [(int(of[pair.first.document]), int(of[pair.second.document])) for pair in drawn]
        labels = [int(pair.is_intra) for pair in drawn]
        return sentence_pair_batch(pairs, labels, masked, clean=self.clean, groups=groups)

    def _read(self, sentence: Sentence) -> TrainingExample:
        return self.corpus.passage(*sentence)


class SentencePairData(CorpusData):
    """Batches of sentence pairs, and pairs of documents that are held out.

    Args:
        run: settings, model and processes.

    Attributes:
        held_out: pairs that are measured, in one batch; None where none are held out.

    Raises:
        DocumentError: there are no pairs, or too few documents.
        ModelError: tokens are to be masked, and the tokenizer has no mask token.
        SettingsError: batches are too small for the processes.
    """

    unit = "pairs"

    def __init__(self, run: RunContext[SentencePairSettings]) -> None:
        settings, seed = run.settings, run.settings.training.seed
        self._masks = None
        if settings.loss.masks:
            # Before a corpus is made ready in vain.
            try:
                self._masks = TokenMasks(run.encoder.tokenizer)
            except ModelError as error:
                raise ModelError(f"model.start={settings.model.start}: {error}") from error
        super().__init__(run)
        count, share = len(self.corpus), settings.validation.share
        order = random_generator(seed, "held out").permutation(count)
        held_out = np.sort(order[: max(2, round(count * share)) if share else 0])
        if len(held_out) >= count:
            raise DocumentError(
                f"{settings.corpus.name}: {counted(count, 'document')} {'is' if count == 1 else 'are'} held out "
                "(validation.share), none is left to train on; give more documents, or set validation.share=0"
            )
        # Where the batch has the negatives, a pair of two documents would have nothing to find.
        intra = 1.0 if settings.loss.compares_all else INTRA_PROBABILITY
        self._pairs = self._pairs_of(np.sort(order[len(held_out) :]), intra, len(held_out))
        self.documents, self._held_out_documents = len(self._pairs.documents), len(held_out)
        anchors = self._anchors(self._pairs)
        self.plan(SentencePairBatches, examples=anchors, pairs_per_epoch=settings.pairs_per_epoch)
        self.held_out = self._measured(held_out) if share else None

    def _measured(self, rows: Rows) -> TrainingBatch:
        """Pairs of documents that are held out."""
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

    def _pairs_of(self, rows: Rows, intra: float = INTRA_PROBABILITY, held_out: int = 0) -> SentencePairDraws:
        """The pairs of some documents.

        Raises:
            DocumentError: documents are too few for pairs of both kinds, or have no paragraphs of two sentences.
        """
        corpus = self.corpus
        pairs = SentencePairDraws(
            corpus.passage_counts, corpus.paragraphs, corpus.groups, self.settings.training.seed, rows=rows,
            intra_probability=intra,
        )  # fmt: skip
        aside = f", and {held_out:,} more held out (validation.share)" if held_out else ""
        what = f"{self.settings.corpus.name}: {counted(len(rows), 'document')}{aside}"
        if not len(pairs):
            raise DocumentError(
                f"{what} with no paragraph of two sentences, so that nothing belongs together; give documents of "
                "longer paragraphs, or set model.settings.paragraph"
            )
        if pairs.groups < 2:
            raise DocumentError(
                f"{what} with paragraphs of two sentences in only {counted(pairs.groups, 'text')}, so that there is "
                "no other document to draw pairs from; give more documents"
            )
        return pairs

    def _anchors(self, pairs: SentencePairDraws) -> Examples:
        """The anchors of pairs, each as a document of one passage."""
        counts = np.ones(len(pairs), np.int64)
        return Examples(self.corpus, pairs.documents_of_anchors, counts, pairs.numbers_of_anchors)

    def _collator(self, pairs: SentencePairDraws) -> SentencePairCollator:
        loss, seed = self.settings.loss, self.settings.training.seed
        return SentencePairCollator(
            self.corpus, pairs, self._masks, loss.contrast_on == "clean", loss.compares_all, seed
        )

    def collator(self) -> SentencePairCollator:
        """What draws partners and masks tokens."""
        return self._collator(self._pairs)

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        most = self.settings.pairs_per_epoch
        epoch = "" if most is None else f", {most:,} of them in an epoch"
        lines = [
            self.report.summary(),
            f"{len(self._pairs):,} sentences of {self.documents:,} documents to train on{epoch}, "
            f"{self._held_out_documents:,} documents held out",
        ]
        if self._pairs.alone:
            lines.append(f"left out: {counted(self._pairs.alone, 'sentence')} alone in a paragraph")
        return lines

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {
            **self.corpus.record(),
            "sentences": len(self._pairs),
            "sentences_alone": self._pairs.alone,
            "train": self.documents,
            "held_out": self._held_out_documents,
            "held_out_pairs": 0 if self.held_out is None else len(self.held_out.targets["label"]),
        }
