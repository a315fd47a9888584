"""Pairs of sentences, from one paragraph or from two documents, and masks on their tokens (SDR, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerBase

from ..errors import ModelError
from .batches import EpochBatches, Rows, random_generator

INTRA_PROBABILITY = 0.5


class Sentence(NamedTuple):
    """A sentence of a corpus.

    Args:
        document: row of its document.
        number: its place in the document.
    """

    document: int
    number: int


class SentencePair(NamedTuple):
    """Two sentences.

    Args:
        first: the anchor.
        second: its partner.
        is_intra: whether both are of one paragraph; otherwise they are of different documents.
    """

    first: Sentence
    second: Sentence
    is_intra: bool


class SentencePairDraws:
    """Pairs every sentence of a paragraph of two or more with a partner, anew in every epoch.

    The partner is another sentence of the same paragraph with probability 0.5, or that which is given, each with the
    same probability, and otherwise a sentence of another document, which is no copy of its text. Sentences that are
    alone in their paragraph are neither anchors nor partners, so that both kinds of pairs are of the same sentences.
    What is drawn depends on the seed, the epoch and the number of the anchor alone: not on other draws, or on the
    process that draws. Source: SDR, section 3.2.

    Args:
        counts: ``(documents,)``, sentences of every document.
        paragraphs: ``(sentences,)``, paragraph of every sentence within its document, document after document; equal
            numbers follow each other.
        groups: ``(documents,)``, equal numbers for copies of one text.
        seed: seed of the run.
        rows: documents that sentences are taken of; None for all.
        intra_probability: how probable a partner of the same paragraph is.

    Attributes:
        alone: sentences that are left out, since they are alone in their paragraph.
        groups: number of different texts that the sentences are of.
    """

    def __init__(
        self,
        counts: Rows,
        paragraphs: npt.NDArray[np.integer[Any]],
        groups: Rows,
        seed: int = 0,
        *,
        rows: Rows | None = None,
        intra_probability: float = INTRA_PROBABILITY,
    ) -> None:
        counts = np.asarray(counts, np.int64)
        chosen = np.arange(len(counts)) if rows is None else np.asarray(rows, np.int64)
        # Copies of a text follow each other, so that what is not of a text is all but one range.
        chosen = chosen[np.argsort(groups[chosen], kind="stable")]
        lengths = counts[chosen]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        documents = np.repeat(chosen, lengths)
        paragraph = np.asarray(paragraphs)[np.repeat(np.cumsum(counts)[chosen] - lengths, lengths) + within]
        begins = (within == 0) | (np.diff(paragraph, prepend=-1) != 0)
        sizes = np.diff(np.flatnonzero(np.append(begins, True)))
        kept = np.repeat(sizes >= 2, sizes)
        self._documents, self._numbers = documents[kept].astype(np.int32), within[kept].astype(np.int32)
        self._paragraph_ends = np.cumsum(sizes[sizes >= 2])
        group = groups[self._documents] if len(self._documents) else np.empty(0, np.int64)
        self._group_ends = np.flatnonzero(np.append(group[1:] != group[:-1], True)[: len(group)]) + 1
        self.alone = int((~kept).sum())
        self.groups = len(self._group_ends)
        self._seed, self._intra_probability = seed, intra_probability

    def __len__(self) -> int:
        """Number of anchors."""
        return len(self._documents)

    @property
    def documents(self) -> Rows:
        """Rows of the documents that have anchors, ascending."""
        return np.unique(self._documents).astype(np.int64)

    @property
    def documents_of_anchors(self) -> Rows:
        """Row of the document of every anchor, ``(anchors,)``."""
        return self._documents.astype(np.int64)

    @property
    def numbers_of_anchors(self) -> Rows:
        """Place of every anchor in its document, ``(anchors,)``."""
        return self._numbers.astype(np.int64)

    def anchor(self, number: int) -> Sentence:
        """An anchor by its number."""
        return Sentence(int(self._documents[number]), int(self._numbers[number]))

    def draw(self, epoch: int, number: int) -> SentencePair:
        """Draw the partner of an anchor.

        Args:
            epoch: number of the epoch.
            number: number of the anchor.

        Returns:
            The pair.

        Raises:
            ValueError: there is no other text to draw from.
        """
        draw = random_generator(self._seed, "sentence pair", epoch, number)
        is_intra = bool(draw.random() < self._intra_probability)
        begin, end = _range_of(self._paragraph_ends if is_intra else self._group_ends, number)
        if is_intra:
            # All of the paragraph but the anchor itself.
            partner = begin + int(draw.integers(end - begin - 1))
            partner += partner >= number
        else:
            others = len(self) - (end - begin)
            if not others:
                raise ValueError("all sentences are of one text, and there is no other document to draw from")
            partner = int(draw.integers(others))
            partner += (end - begin) * (partner >= begin)
        return SentencePair(self.anchor(number), self.anchor(partner), is_intra)


class SentencePairBatches(EpochBatches):
    """Batches of anchors in an order of its own for every epoch, of all of them or of a part.

    Args:
        sentences: ``(anchors,)``, 1 for each.
        batch_size: pairs of a batch, over all processes.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.
        pairs_per_epoch: most pairs of an epoch, other ones in every epoch; None for all.

    Raises:
        ValueError: a process would have no pair of a batch.
    """

    def __init__(
        self,
        sentences: Rows,
        batch_size: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        *,
        pairs_per_epoch: int | None = None,
    ) -> None:
        self._most = min(len(sentences), pairs_per_epoch or len(sentences))
        super().__init__(sentences, min(batch_size, self._most), seed, rank, processes)

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return self._most // self.batch_size


def _range_of(ends: Rows, number: int) -> tuple[int, int]:
    """First member of the range that a number is in, and one past its last."""
    place = int(np.searchsorted(ends, number, side="right"))
    return int(ends[place - 1]) if place else 0, int(ends[place])


MASKED_SHARE = 0.15

Tokens = npt.NDArray[np.integer[Any]]


class MaskedSentence(NamedTuple):
    """A sentence, some of whose tokens are masked.

    Args:
        token_ids: ``(tokens,)``, as the transformer sees them.
        places: ``(masked,)``, which of them are to be guessed.
        tokens: ``(masked,)``, the tokens that stood there.
    """

    token_ids: Tokens
    places: Rows
    tokens: Rows


class TokenMasks:
    """Masks tokens as BERT and RoBERTa do (Devlin et al. 2019, section 3.1), by the collator of transformers.

    Of all tokens but the special ones, 15 % are chosen; of these 80 % become the mask token, 10 % any token, and 10 %
    stay. What is drawn depends on the key alone.

    Args:
        tokenizer: knows the special tokens.
        share: share of tokens that are chosen.

    Raises:
        ModelError: the tokenizer has no mask token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, share: float = MASKED_SHARE) -> None:
        if tokenizer.mask_token is None:
            raise ModelError(
                "its tokenizer has no mask token; start from an encoder trained by masked language modelling, such as "
                "roberta-base, or train without masks (loss.mlm_weight=0 and loss.contrast_on=clean)"
            )
        self._special = np.array(tokenizer.all_special_ids)
        self._collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=share)

    def draw(self, sentences: Sequence[Tokens], *key: int | str) -> list[MaskedSentence]:
        """Mask sentences that belong together.

        Args:
            sentences: token ids of every sentence, special tokens included.
            key: what the draw depends on.
        """
        together = torch.from_numpy(np.concatenate(sentences).astype(np.int64)).unsqueeze(0)
        special = torch.from_numpy(np.isin(together.numpy(), self._special))
        seed = int(random_generator("masks", *key).integers(2**63))
        self._collator.generator = torch.Generator().manual_seed(seed)
        inputs, labels = self._collator.torch_mask_tokens(together, special_tokens_mask=special)
        # What is left as it is has a negative label.
        chosen = [part.numpy() for part in (inputs[0], labels[0])]
        ends = np.cumsum([len(one) for one in sentences])[:-1]
        return [
            MaskedSentence(ids, np.flatnonzero(label >= 0), label[label >= 0])
            for ids, label in zip(*(np.split(part, ends) for part in chosen), strict=True)
        ]
