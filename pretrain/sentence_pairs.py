"""Train on sentence pairs (SDR, section 3.2), with every part in sight.

    accelerate launch pretrain/sentence_pairs.py --config configs/pretrain/FILE.yaml training.epochs=3

Takes the arguments of ``graphdoc pretrain`` and does the same with ``recipe: sentence_pairs``. Copy it to put a data
set, an objective or an evaluation of your own in the place of one of these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphdoc.cli import main
from graphdoc.losses import MaskedTokens
from graphdoc.recipes.base import Recipe, Start, train
from graphdoc.recipes.sentence_pair_data import SentencePairData
from graphdoc.recipes.sentence_pairs import HEAD, begin_sentences, evaluation_of, pair_loss
from graphdoc.settings.sentence_pairs import SentencePairSettings
from graphdoc.training.sentence_pairs import SentencePairContrast
from graphdoc.training.task import Task


def recipe(start: Start[SentencePairSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, model = start.settings, start.encoder.model
    begin_sentences(start.encoder, settings)

    # 1. Every sentence with a partner, of its paragraph or of another document, and masks on both.
    data = SentencePairData(start)
    # 2. Sentences of one paragraph are drawn together, those of two documents apart, and a head guesses masked tokens.
    loss = settings.loss
    objective = SentencePairContrast(
        pair_loss(loss),
        loss.contrast_weight,
        MaskedTokens(loss.mlm_weight),
        model.training_parts[HEAD] if loss.mlm_weight else None,
    )
    # 3. What is measured while the run goes on: pairs of documents that are held out.
    evaluation = evaluation_of(start, data, objective)

    steps = f"{data.steps:,} steps of {data.batch_size:,} pairs"
    return Recipe(Task("sentence_pairs", data, objective), data, evaluation, [steps], f"Sentence pairs, {steps}.")


def pretrain(settings: SentencePairSettings, **options: Any) -> Path:
    """Train by the settings; the loop takes steps, saves checkpoints and goes on where a run was interrupted."""
    return train(settings, recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["pretrain", *sys.argv[1:], "recipe=sentence_pairs"], train=pretrain))
