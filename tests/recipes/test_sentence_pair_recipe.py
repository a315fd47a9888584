"""Runs on sentence pairs: what they leave, how they go on, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_examples import context_of, write_rows
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM
from typed import Backbones, Patch

from graphdoc import DocumentEncoder
from graphdoc.cli import main
from graphdoc.corpus.corpus import prepare_run_corpus
from graphdoc.errors import GraphdocError
from graphdoc.evaluation.pair_scores import pair_auc
from graphdoc.recipes.sentence_pairs import SentencePairRecipe
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import SentencePairSettings
from graphdoc.training.objectives import TrainingBatch
from graphdoc.training.run import RunContext, load_segmenter

QUICK = Path(__file__).parents[2] / "configs" / "pretrain" / "sdr_quick.yaml"
PARTS = "training_parts."


def text(*words: str) -> str:
    return " ".join(f"The {word} is here." for word in words)


def rows(count: int = 12) -> list[dict[str, Any]]:
    """Documents of two sections of two and three sentences, and one of one; the last two are copies."""
    found = [
        {
            "id": f"d{number}",
            "sections": [text(f"rice{number}", "mould"), text("tide"), text("log", f"clock{number}", "order")],
        }
        for number in range(count)
    ]
    return [*found, {**found[-1], "id": "copy"}]


@pytest.fixture
def overrides(language_model_folder: Path, tmp_path: Path) -> list[str]:
    """Settings of a quick run on twelve documents and a copy."""
    return [
        f"corpus.source={write_rows(tmp_path / 'corpus.jsonl', rows())}", f"corpus.cache={tmp_path / 'cache'}",
        "corpus.preparing_processes=1", "corpus.deduplicate=false", f"model.start={language_model_folder}",
        "training.learning_rate=1.0e-2", "training.warmup_steps=0", "training.epochs=1", "training.logging_steps=1",
        "pairs_per_epoch=24", "loss.mlm_weight=1", "loss.contrast_on=masked", "validation.best=loss",
    ]  # fmt: skip


def start_of(overrides: list[str]) -> RunContext[SentencePairSettings]:
    return context_of(load_settings(SentencePairSettings, QUICK, overrides))


def test_a_run_leaves_a_model_and_what_was_measured(
    overrides: list[str], tmp_path: Path, language_model_folder: Path
) -> None:
    run = tmp_path / "run"
    assert main(["pretrain", "--config", str(QUICK), "--device", "cpu", *overrides, f"output={run}"]) == 0
    results, record = (json.loads((run / f"{name}.json").read_text(encoding="utf-8")) for name in ("results", "record"))
    names = {"loss", "auc", "masked_loss", "masked_accuracy", "positive_similarity", "negative_similarity"}
    assert names <= results["before"].keys() == results["after"].keys()
    assert results["after"]["masked_loss"] < results["before"]["masked_loss"]
    # Copies lie on both sides or on one; sentences alone in a paragraph are left out.
    expected = {
        "documents": 13, "held_out": 3, "train": 10, "sentences": 50, "unpaired_sentences": 10, "held_out_pairs": 15,
    }  # fmt: skip
    assert expected.items() <= record["corpus"].items()

    # The head is that of the language model, trained, in the checkpoints and not in the model.
    parts = load_file(run / "checkpoint-3" / "training" / "parts.safetensors")
    begun = AutoModelForMaskedLM.from_pretrained(language_model_folder).lm_head.dense.weight.detach()
    assert 1e-3 < float((parts[f"{PARTS}language_model.language_model.lm_head.dense.weight"] - begun).abs().max()) < 0.1
    assert not any(name.startswith(PARTS) for name in load_file(run / "model" / "model.safetensors"))
    encoder = DocumentEncoder.from_pretrained(run / "model", device="cpu")
    assert encoder.model.config.unit == "passage" and encoder.encode(["The rice is here."]).shape == (1, 24)


def test_what_is_measured_is_what_the_model_gives(overrides: list[str]) -> None:
    start = start_of([*overrides, "loss.mlm_weight=0.3", "loss.contrast_weight=0.5"])
    recipe = SentencePairRecipe.from_run(start)
    assert recipe.evaluation is not None
    batch, model = recipe.held_out, start.encoder.model.eval()
    assert batch is not None
    with torch.no_grad():
        found = recipe.evaluation.measure()
        vectors, masked = [], {tuple(place): token for place, token in zip(
            batch.targets["masked_positions"].tolist(), batch.targets["masked_tokens"].tolist(), strict=True
        )}  # fmt: skip
        losses, right = [], []
        for row, ids in enumerate(batch.graphs.token_ids):
            tokens = model.passage_encoder.tokens(torch.tensor([list(ids)]), torch.ones(1, len(ids), dtype=torch.int64))
            vectors.append(tokens[0].mean(dim=0).numpy())
            for place, logit in enumerate(model.training_parts["language_model"](tokens[0])):
                if (token := masked.get((row, place))) is not None:
                    losses.append(float(-logit.log_softmax(0)[token]))
                    right.append(int(logit.argmax()) == token)
    labels = batch.targets["label"].numpy()
    pairs = len(labels)
    unit = np.stack([vector / np.linalg.norm(vector) for vector in vectors])
    cosines = (unit[:pairs] * unit[pairs:]).sum(axis=1)
    contrast = np.where(labels == 1, 1 - cosines, np.maximum(0, cosines)).mean()
    expected = {
        "auc": pair_auc(labels, cosines),
        "positive_similarity": cosines[labels == 1].mean(),
        "negative_similarity": cosines[labels == 0].mean(),
        "masked_loss": np.mean(losses),
        "masked_accuracy": np.mean(right),
        "loss": 0.5 * contrast + 0.3 * np.mean(losses),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert {"masked_loss", "masked_accuracy", *start.settings.metric_names} <= found.keys()
    assert len(losses) > 10 and 0 < labels.mean() < 1


BATCH = ("loss.negatives=in_batch", "loss.temperature=0.2", "loss.mlm_weight=0", "loss.contrast_on=clean")


def test_where_a_batch_is_compared_all_pairs_are_of_one_paragraph(overrides: list[str]) -> None:
    recipe = SentencePairRecipe.from_run(start_of([*overrides, *BATCH]))
    assert recipe.evaluation is not None
    recipe.load()
    batches = list(recipe.loader.batches())
    recipe.loader.close()
    assert len(batches) == 3 and all(batch.targets["label"].tolist() == [1] * 8 for batch in batches)
    for batch in batches:
        first, second = (batch.targets["group"][batch.roles[role]] for role in ("first", "second"))
        assert torch.equal(first, second) and len(torch.unique(first)) > 1
    # Pairs that are measured are of both kinds, so that there is something to rank.
    batch = recipe.held_out
    assert batch is not None and 0 < batch.targets["label"].float().mean() < 1
    first, second = (batch.targets["group"][batch.roles[role]] for role in ("first", "second"))
    assert torch.equal(first == second, batch.targets["label"] == 1)
    assert {"accuracy", *recipe.settings.metric_names} <= recipe.evaluation.measure().keys()


def pairs_in(batch: TrainingBatch) -> list[tuple[int, ...]]:
    """The label and the tokens of both sentences of every pair, masks and all."""
    first, second = (batch.graphs.token_ids[batch.roles[role]] for role in ("first", "second"))
    labels = batch.targets["label"].tolist()
    return [(label, *map(int, one), *map(int, other)) for label, one, other in zip(labels, first, second, strict=True)]


def test_batches_do_not_depend_on_workers_or_processes(overrides: list[str], monkeypatch: Patch) -> None:
    def batches(workers: int, *ranks: int) -> list[list[tuple[int, ...]]]:
        """Sentences with their masks and labels, of all ranks together, step by step."""
        shares = []
        for rank in ranks:
            start = start_of([*overrides, f"training.dataloader_num_workers={workers}"])
            monkeypatch.setattr(start.processes, "rank", rank)
            monkeypatch.setattr(start.processes, "count", len(ranks))
            # Every one of them makes the corpus ready, or finds it.
            monkeypatch.setattr(start.processes, "from_first", lambda prepare: prepare())
            monkeypatch.setattr(start.processes, "gather", lambda value: [value])
            data = SentencePairRecipe.from_run(start)
            assert data.steps == 3
            data.load()
            shares.append(list(data.loader.batches()))
            data.loader.close()
        return [sorted(pair for batch in step for pair in pairs_in(batch)) for step in zip(*shares, strict=True)]

    expected = batches(0, 0)
    assert [len(step) for step in expected] == [8, 8, 8]
    assert batches(2, 0) == expected
    assert batches(0, 0, 1) == expected


def test_paragraphs_are_those_of_the_model(overrides: list[str]) -> None:
    settings = load_settings(SentencePairSettings, QUICK, overrides)
    segmenter, config = load_segmenter(settings.model)
    corpus = prepare_run_corpus(settings, segmenter, config.paragraph)
    assert corpus.passage_counts.tolist() == [6] * 13
    assert corpus.paragraphs.tolist() == [0, 0, 1, 2, 2, 2] * 13
    for place in range(6):
        np.testing.assert_array_equal(corpus.passage(4, place).token_ids[0], corpus[4].token_ids[place])
        assert corpus.passage(4, place).sections.tolist() == [corpus[4].sections[place]]
    assert corpus.passage(4, 0).group == corpus[4].group
    assert prepare_run_corpus(settings, segmenter, config.paragraph).folder == corpus.folder
    assert prepare_run_corpus(settings, segmenter, "passage").folder != corpus.folder


@pytest.mark.parametrize(
    ("documents", "options", "named"),
    [
        (rows(1), ["validation.share=0"], "1 text"),
        (rows(1)[:1], [], "validation.share"),
        (rows(2), ["validation.share=0.5"], "1 text"),
        (
            [{"id": str(number), "sections": [text("tide"), text("log")]} for number in range(9)],
            ["validation.share=0"],
            "model.settings.paragraph",
        ),
        (rows(), ["model.settings.graph_layers=2"], "model.settings.graph_layers=2"),
        (rows(), ["model.settings.readout=attention"], "model.settings.readout=attention"),
        (rows(), ["loss.contrast_weight=0", "model.settings.projection_size=8"], "model.settings.projection_size=8"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(
    overrides: list[str], tmp_path: Path, documents: list[dict[str, Any]], options: list[str], named: str
) -> None:
    source = write_rows(tmp_path / "bad.jsonl", documents)
    common = [*overrides, f"corpus.source={source}", "validation.most_pairs=1000", "validation.best=loss"]
    with pytest.raises(GraphdocError) as error:
        SentencePairRecipe.from_run(start_of([*common, *options]))
    assert named in str(error.value)


def test_a_tokenizer_without_mask_token_trains_without_masks(overrides: list[str], backbone_folder: Backbones) -> None:
    start = f"model.start={backbone_folder('roberta')}"
    with pytest.raises(GraphdocError, match=r"model\.start=.*mask token"):
        SentencePairRecipe.from_run(start_of([*overrides, start]))
    context = start_of([*overrides, start, "loss.mlm_weight=0", "loss.contrast_on=clean"])
    assert SentencePairRecipe.from_run(context).objective.head is None  # type: ignore[attr-defined]
    # Graph and readout are left alone.
    trained = {name.partition(".")[0] for name, one in context.encoder.model.named_parameters() if one.requires_grad}
    assert trained == {"passage_encoder"}
