"""Pairs of sentences, from one paragraph or from two documents, and masks on their tokens (SDR, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerBase

from ..errors import ModelError
from ..runtime.arrays import Rows
from .batches import random_generator

INTRA_PROBABILITY = 0.5
MASKED_SHARE = 0.15

Tokens = npt.NDArray[np.integer[Any]]
# The row of a document, and the place of the sentence in it.
Sentence = tuple[int, int]


class SentencePairSampler:
    """Pairs every sentence of a paragraph of two or more with a partner, another in every epoch.

    The partner is another sentence of the same paragraph with probability 0.5, or that which is given, each with the
    same probability, and otherwise a sentence of another document, which is no copy of its text. Sentences that are
    alone in their paragraph are neither anchors nor partners, so that both kinds of pairs are of the same sentences.
    What is drawn depends on the seed, the epoch and the number of the anchor alone.

    Args:
        counts: ``(documents,)``, sentences of every document.
        paragraphs: ``(sentences,)``, paragraph of every sentence within its document, document after document.
        groups: ``(documents,)``, equal numbers for copies of one text.
        seed: seed of the run.
        rows: documents that sentences are taken of; None for all.
        intra_probability: how probable a partner of the same paragraph is.

    Attributes:
        anchors: ``(anchors, 2)``, row of the document of every anchor and its place in it.
        unpaired: sentences that are left out, since they are alone in their paragraph.
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
        chosen = np.arange(len(counts)) if rows is None else rows
        # Copies of a text follow each other, so that what is not of a text is all but one range.
        chosen = chosen[np.argsort(groups[chosen], kind="stable")]
        lengths = counts[chosen]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        paragraph = np.asarray(paragraphs)[np.repeat(np.cumsum(counts)[chosen] - lengths, lengths) + within]
        begins = (within == 0) | (np.diff(paragraph, prepend=-1) != 0)
        sizes = np.diff(np.flatnonzero(np.append(begins, True)))
        kept = np.repeat(sizes >= 2, sizes)
        self.anchors = np.stack([np.repeat(chosen, lengths)[kept], within[kept]], axis=1).astype(np.int32)
        self.unpaired = int((~kept).sum())
        group = groups[self.anchors[:, 0]]
        # Where the paragraph of an anchor ends, and where its text does.
        self._ends = {
            True: np.cumsum(sizes[sizes >= 2]),
            False: np.flatnonzero(np.append(np.diff(group) != 0, True)[: len(group)]) + 1,
        }
        self.groups = len(self._ends[False])
        self._seed, self._intra_probability = seed, intra_probability

    def __len__(self) -> int:
        return len(self.anchors)

    def anchor(self, number: int) -> Sentence:
        """An anchor by its number."""
        document, place = self.anchors[number].tolist()
        return document, place

    def sample(self, epoch: int, number: int) -> tuple[Sentence, bool]:
        """Draw the partner of an anchor, and whether it is of the same paragraph."""
        draw = random_generator(self._seed, "sentence pair", epoch, number)
        is_intra = bool(draw.random() < self._intra_probability)
        ends = self._ends[is_intra]
        place = int(np.searchsorted(ends, number, side="right"))
        begin, end = int(ends[place - 1]) if place else 0, int(ends[place])
        if is_intra:
            # All of the paragraph but the anchor itself.
            partner = begin + int(draw.integers(end - begin - 1))
            partner += partner >= number
        else:
            if end - begin == len(self):
                raise ValueError("all sentences are of one text, and there is no other document to draw from")
            partner = int(draw.integers(len(self) - (end - begin)))
            partner += (end - begin) * (partner >= begin)
        return self.anchor(partner), is_intra


class MaskedSentence(NamedTuple):
    """A sentence, some of whose tokens are masked.

    Args:
        token_ids: ``(tokens,)``, as the transformer sees them.
        positions: ``(masked,)``, which of them are to be guessed.
        tokens: ``(masked,)``, the tokens that stood there.
    """

    token_ids: Tokens
    positions: Rows
    tokens: Rows


class TokenMasks:
    """Masks tokens as BERT and RoBERTa do (Devlin et al. 2019, section 3.1), by the collator of transformers.

    Of all tokens but the special ones, 15 % are chosen; of these 80 % become the mask token, 10 % any token, and 10 %
    stay. What is drawn depends on the key alone.

    Raises:
        ModelError: the tokenizer has no mask token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        if tokenizer.mask_token is None:
            raise ModelError(
                "its tokenizer has no mask token; start from an encoder trained by masked language modelling, such as "
                "roberta-base, or train without masks (loss.mlm_weight=0 and loss.contrast_on=clean)"
            )
        self._special = np.array(tokenizer.all_special_ids)
        self._collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=MASKED_SHARE)

    def mask(self, sentences: Sequence[Tokens], *key: int | str) -> list[MaskedSentence]:
        """Mask sentences that belong together, given with their special tokens; the draw depends on the key."""
        together = torch.from_numpy(np.concatenate(sentences).astype(np.int64)).unsqueeze(0)
        special = torch.from_numpy(np.isin(together.numpy(), self._special))
        self._collator.generator = torch.Generator().manual_seed(int(random_generator("masks", *key).integers(2**63)))
        inputs, labels = self._collator.torch_mask_tokens(together, special_tokens_mask=special)
        ends = np.cumsum([len(one) for one in sentences])[:-1]
        # What is left as it is has a negative label.
        return [
            MaskedSentence(ids, np.flatnonzero(label >= 0), label[label >= 0])
            for ids, label in zip(*(np.split(part[0].numpy(), ends) for part in (inputs, labels)), strict=True)
        ]
