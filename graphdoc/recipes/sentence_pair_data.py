"""Where the batches of sentence pairs come from: a corpus that was cut into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..corpus.prepare import TrainingCorpus
from ..corpus.report import CorpusReport
from ..errors import DocumentError, ModelError
from ..runtime.text import counted
from ..sampling.draws import Rows, random_generator
from ..sampling.sentence_pairs import INTRA_PROBABILITY, Sentence, SentencePairBatches, SentencePairs
from ..sampling.token_masks import TokenMasks
from ..settings.sentence_pairs import SentencePairSettings
from ..training.batch import TrainingBatch, TrainingExample
from .base import Start
from .corpus_data import CorpusData
from .sentence_pair_batch import sentence_pair_batch

# The draw of pairs that are held out belongs to no epoch of training.
HELD_OUT_EPOCH = -1


class AnchorSentences:
    """The anchors of pairs, each as a document of one passage.

    Args:
        corpus: a corpus that was cut into sentences.
        pairs: the pairs.
    """

    def __init__(self, corpus: TrainingCorpus, pairs: SentencePairs) -> None:
        self._corpus, self._pairs = corpus, pairs

    def __len__(self) -> int:
        """Number of anchors."""
        return len(self._pairs)

    def __getitem__(self, number: int) -> TrainingExample:
        """An anchor."""
        return self._corpus.passage(*self._pairs.anchor(number))

    @property
    def passage_counts(self) -> Rows:
        """1 for every anchor."""
        return np.ones(len(self), np.int64)


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
    pairs: SentencePairs
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
                self.masks.draw([one.token_ids[0] for one in pair], self.seed, epoch, number)  # type: ignore[misc]
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
        start: what the recipe begins with.

    Attributes:
        held_out: pairs that are measured, in one batch; None where none are held out.

    Raises:
        DocumentError: there are no pairs, or too few documents.
        ModelError: tokens are to be masked, and the tokenizer has no mask token.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, start: Start[SentencePairSettings]) -> None:
        settings, processes = start.settings, start.processes
        self._masks = _masks(start)
        super().__init__(start)
        corpus, training, loss = self._corpus, self._training, settings.loss
        counts, groups, paragraphs = corpus.passage_counts, corpus.groups, corpus.paragraphs
        order = random_generator(training.seed, "held out").permutation(len(corpus))
        share = settings.evaluation.held_out
        held_out = np.sort(order[: max(2, round(len(corpus) * share)) if share else 0])
        trained = np.sort(order[len(held_out) :])

        def pairs_of(rows: Rows, intra: float = INTRA_PROBABILITY) -> SentencePairs:
            return SentencePairs(counts, paragraphs, groups, training.seed, rows=rows, intra_probability=intra)

        def collator_of(pairs: SentencePairs) -> SentencePairCollator:
            masks = self._masks if loss.masks else None
            clean = loss.contrast_on == "clean"
            return SentencePairCollator(corpus, pairs, masks, clean, loss.compares_all, training.seed)

        # Where the batch has the negatives, a pair of two documents would have nothing to find.
        pairs = pairs_of(trained, 1.0 if loss.compares_all else INTRA_PROBABILITY)
        self._require(settings, pairs, len(trained), len(held_out))
        self._pairs, self._per_epoch = pairs, settings.pairs_per_epoch
        self.documents = len(pairs.documents)
        self._held_out_documents = len(held_out)

        def batches_of() -> SentencePairBatches:
            return SentencePairBatches(
                pairs,
                training.batch_size,
                training.seed,
                processes.rank,
                processes.count,
                pairs_per_epoch=settings.pairs_per_epoch,
            )

        self._load(batches_of, collator_of(pairs), AnchorSentences(corpus, pairs))
        self.held_out: TrainingBatch | None = None
        if share:
            measured = pairs_of(held_out)
            self._require(settings, measured, len(held_out), 0)
            numbers = random_generator(training.seed, "held-out pairs").permutation(len(measured))
            anchors = AnchorSentences(corpus, measured)
            chosen = np.sort(numbers[: settings.evaluation.most_pairs]).tolist()
            self.held_out = collator_of(measured)([(anchors[number], HELD_OUT_EPOCH, number) for number in chosen])
            if loss.compares_all and not self.held_out.targets["label"].any():
                raise DocumentError(
                    f"{settings.corpus.name}: of {counted(len(chosen), 'pair')} that would be measured none is of one "
                    "paragraph: there is no partner to find; raise evaluation.most_pairs or evaluation.held_out"
                )

    def _require(self, settings: SentencePairSettings, pairs: SentencePairs, documents: int, held_out: int) -> None:
        """Refuse documents of which no pairs of both kinds can be made.

        Raises:
            DocumentError: they are too few, or have no paragraphs of two sentences.
        """
        aside = f", and {held_out:,} more held out (evaluation.held_out)" if held_out else ""
        what = f"{settings.corpus.name}: {counted(documents, 'document')}{aside}"
        if not documents:
            raise DocumentError(
                f"{settings.corpus.name}: {counted(held_out, 'document')} {'is' if held_out == 1 else 'are'} held out "
                "(evaluation.held_out), none is left to train on; give more documents, or set evaluation.held_out=0"
            )
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

    @property
    def report(self) -> CorpusReport:
        """What was read, kept and left out."""
        return self._corpus.report

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        epoch = "" if self._per_epoch is None else f", {self._per_epoch:,} of them in an epoch"
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
            **self._corpus.record(),
            "sentences": len(self._pairs),
            "sentences_alone": self._pairs.alone,
            "train": self.documents,
            "held_out": self._held_out_documents,
            "held_out_pairs": 0 if self.held_out is None else len(self.held_out.targets["label"]),
        }


def _masks(start: Start[SentencePairSettings]) -> TokenMasks | None:
    """What masks tokens, before a corpus is made ready in vain."""
    if not start.settings.loss.masks:
        return None
    try:
        return TokenMasks(start.encoder.tokenizer)
    except ModelError as error:
        raise ModelError(f"model.start={start.settings.model.start}: {error}") from error
