"""Training from Python, and that it is the training of the commands."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_examples import labelled_rows, write_rows
from safetensors.torch import load_file
from training_runs import cut
from transformers import EarlyStoppingCallback, TrainerCallback
from typed import Backbones, Documents, Encoders, Patch

from graphdoc import Document, DocumentEncoder, Trainer
from graphdoc.cli import main
from graphdoc.errors import GraphdocError, OutputError, SettingsError
from graphdoc.evaluation import ClassificationEvaluator
from graphdoc.losses import (
    ClassificationLoss,
    InfoNCELoss,
    MaskedTokenLoss,
    PairCosineLoss,
    SubtopicLoss,
    SupervisedContrastiveLoss,
)
from graphdoc.modeling import DocumentModel
from graphdoc.recipes.views import ViewRecipe
from graphdoc.registry import RECIPES, RecipeTargets
from graphdoc.sampling import Classes, Groups, PairViews, Queries, SentencePairs, SubDocuments, SubtopicPairs, Task
from graphdoc.settings.finetuning import RetrievalSettings
from graphdoc.settings.pretraining import SubDocumentSettings
from graphdoc.trainer import train

PAIRS = [("d0", "d2", 1), ("d0", "d1", 0), ("d3", "d5", 1), ("d3", "d8", 0)]
DUAL = {"view_tokens": 12, "encoder": "dual"}
FEW = {"batch_size": 4, "max_steps": 3, "save_steps": 1, "dataloader_num_workers": 0, "learning_rate": 1e-2}


@pytest.fixture
def rows() -> list[dict[str, str]]:
    return labelled_rows(12)


@pytest.fixture
def documents(rows: list[dict[str, str]]) -> list[Document]:
    return [Document.from_mapping(row) for row in rows]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("GRAPHDOC_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def encoder(backbone_folder: Backbones) -> Encoders:
    """Makes an encoder in hand, always with the same weights."""

    def make(**settings: Any) -> DocumentEncoder:
        torch.manual_seed(0)
        given = {"projection_size": 16, "passage_words": 10, "graph_layers": 0, "readout": "mean", **settings}
        return DocumentEncoder.from_backbone(str(backbone_folder("roberta")), device="cpu", **given)

    return make


FROZEN, UNMEASURED, INITIAL_MEAN = {"tune": "frozen"}, {"evaluator": {"share": 0}}, {"readout": "initial_mean"}
# By the paper's tasks: the task of some documents, its loss, and what the encoder or the trainer needs beside it.
TASKS: dict[str, tuple[Callable[[Any], Task], Any, dict[str, Any], dict[str, Any]]] = {
    "sub-documents": (SubDocuments, InfoNCELoss("cosine", 0.2, "both"), {"graph_layers": 1}, {"tune": "frozen"}),
    "one passage": (
        lambda documents: SubDocuments(documents, split="one_passage"),
        InfoNCELoss(),
        {"graph_layers": 1, "readout": "document_node"},
        {"evaluator": {"share": 0.2}},
    ),
    "sentence pairs": (partial(SentencePairs, contrast_on="clean"), InfoNCELoss("cosine", 0.1, "both"), {}, UNMEASURED),
    "classes": (Classes, ClassificationLoss(label_smoothing=0.1), {}, {"tune": "frozen"}),
    "groups": (Groups, SupervisedContrastiveLoss(0.1), {}, {"tune": "lora"}),
    "pairs": (partial(Groups, pairs=PAIRS), PairCosineLoss(0.1), {}, FROZEN),
    "passages of pairs": (partial(Groups, pairs=PAIRS), PairCosineLoss(0.1), {"similarity": "maxsim"}, FROZEN),
    "queries": (
        lambda documents: Queries(documents, [("rice and steam", "d0"), ("the tide", "d1"), ("marsh", "d3")]),
        InfoNCELoss("cosine", 0.05),
        {},
        UNMEASURED,
    ),
    "views": (lambda documents: PairViews(documents, PAIRS, {"view_tokens": 12}), ClassificationLoss(), {}, {}),
    "two encoders": (lambda documents: PairViews(documents, PAIRS, DUAL), InfoNCELoss("cosine", 0.1), {}, {}),
    "subtopics": (lambda some: SubtopicPairs(some, PAIRS), SubtopicLoss(), {"graph_layers": 1, **INITIAL_MEAN}, {}),
}


@pytest.mark.parametrize("name", TASKS)
def test_an_encoder_in_hand_has_the_trained_weights(
    encoder: Encoders, documents: Documents, tmp_path: Path, name: str
) -> None:
    task, loss, settings, options = TASKS[name]
    if options.get("tune") == "lora":
        pytest.importorskip("peft")
    trained = encoder(**settings)
    before = {key: weight.clone() for key, weight in trained.model.state_dict().items()}
    # Any iterable will do.
    folder = Trainer(trained, task(iter(documents)), loss, output=tmp_path / "run", **options, **FEW).train()

    assert folder == tmp_path / "run" / "model"
    weights = trained.model.state_dict()
    assert any(key not in before or not torch.equal(before[key], weight) for key, weight in weights.items())
    saved = DocumentEncoder.from_pretrained(folder, device="cpu").model.state_dict()
    assert weights.keys() == saved.keys()
    assert all(torch.equal(weight, saved[key]) for key, weight in weights.items())
    again = DocumentEncoder.from_pretrained(trained.save_pretrained(tmp_path / "saved"), device="cpu")
    assert again.model.config.similarity == settings.get("similarity", trained.model.config.similarity)
    if name != "views":
        # Two views that are read together have no vectors of single documents.
        np.testing.assert_array_equal(again.encode(documents[:3]), trained.encode(documents[:3]))


def test_a_run_that_was_cut_off_goes_on_bit_for_bit(encoder: Encoders, documents: Documents, tmp_path: Path) -> None:
    task, loss, settings, options = TASKS["queries"]

    def trained(folder: Path) -> dict[str, torch.Tensor]:
        started = encoder(**settings)
        # Where there is nothing to go on with, it begins.
        Trainer(started, task(documents), loss, output=folder, **options, **FEW).train(resume=True)
        return started.model.state_dict()

    expected = trained(tmp_path / "whole")
    found = trained(cut(tmp_path / "whole", tmp_path / "cut", 2))
    assert all(torch.equal(weight, found[key]) for key, weight in expected.items())
    steps = [json.loads(line)["step"] for line in (tmp_path / "cut" / "log.jsonl").read_text().splitlines()]
    assert sorted(set(steps)) == [1, 2, 3]


def test_documents_in_hand_a_data_set_and_a_path_train_the_model_of_the_command(
    backbone_folder: Backbones, rows: list[dict[str, str]], documents: Documents, tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    path = write_rows(tmp_path / "corpus.jsonl", rows)
    start, settings = str(backbone_folder("roberta")), {"projection_size": 16, "passage_words": 10}
    sources = {"path": path, "documents": documents, "data set": datasets.Dataset.from_list(rows)}
    found = {}
    for name, source in sources.items():
        trainer = Trainer(
            start, SubDocuments(source), InfoNCELoss("cosine", 0.2, "both"), output=tmp_path / name, device="cpu",
            model={"settings": settings}, evaluator={"share": 0.2}, **FEW,
        )  # fmt: skip
        found[name] = load_file(trainer.train() / "model.safetensors")
    config = tmp_path / "config.yaml"
    config.write_text(f"corpus: {{source: {path}}}\n", encoding="utf-8")
    told = ["loss={similarity: cosine, temperature: 0.2}", "validation.share=0.2", f"model.start={start}"]
    told += [f"model.settings.{name}={value}" for name, value in settings.items()]
    told += [f"training.{name}={value}" for name, value in FEW.items()]
    command = ["pretrain", "--config", str(config), "--device", "cpu", *told, f"output={tmp_path / 'command'}"]
    assert main(command) == 0
    expected = load_file(tmp_path / "command" / "model" / "model.safetensors")
    for name, weights in found.items():
        assert all(torch.equal(weight, expected[key]) for key, weight in weights.items()), name


def test_a_loss_and_an_evaluator_of_ones_own(
    encoder: Encoders, documents: Documents, tmp_path: Path, monkeypatch: Patch
) -> None:
    class Far(torch.nn.Module):
        """Draws candidates to a place that moves."""

        seen: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.place, self.still = (torch.nn.Parameter(torch.ones(16), moves) for moves in (True, False))
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, anchors: torch.Tensor, candidates: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
            self.seen += len(groups)
            return (candidates - self.place - self.seen / 100).square().mean()

    def train(folder: Path) -> tuple[Far, DocumentEncoder]:
        loss, trained = Far(), encoder(graph_layers=1, similarity="cosine")
        Trainer(trained, SubDocuments(documents), loss, output=folder, **FEW).train(resume=True)
        return loss, trained

    before = encoder(graph_layers=1).encode(documents[:3])
    loss, trained = train(tmp_path / "own")
    # It does not say how vectors are compared.
    assert trained.model.config.similarity == "cosine"
    assert np.abs(trained.encode(documents[:3]) - 1).mean() < np.abs(before - 1).mean()
    # Its weights are trained, and all that steps change goes on where it was; but they are none of the model's.
    assert (loss.place != 1).all() and (loss.still == 1).all()
    again, model = train(cut(tmp_path / "own", tmp_path / "cut", 2))
    expected = trained.model.state_dict() | loss.state_dict()
    for name, weight in (model.model.state_dict() | again.state_dict()).items():
        assert torch.equal(weight, expected[name]), name
    assert not any("place" in name for name in load_file(tmp_path / "own" / "model" / "model.safetensors"))

    scores, evaluator = iter([math.nan, math.nan, 3.0, 4.0, 5.0]), ClassificationEvaluator(documents)
    monkeypatch.setattr(ClassificationEvaluator, "__call__", lambda *_: {"accuracy": next(scores)})
    options: Any = {"evaluator": evaluator, "output": tmp_path / "measured", **FEW}
    written = (Trainer(encoder(), Classes(documents), **options).train().parent / "results.json").read_text()
    results = json.loads(written, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (results["before"], results["best"]) == ({"accuracy": None}, {"step": 3, "score": 4.0})
    # What is not measured cannot choose; the first measurement tells it.
    options["output"], evaluator.primary_metric = tmp_path / "misspelt", "acuracy"
    with pytest.raises(SettingsError, match=r"'acuracy'.* accuracy"):
        Trainer(encoder(), Classes(documents), **options).train()
    assert not (tmp_path / "misspelt").exists()


class OwnSettings(SubDocumentSettings):
    """Of a recipe of one's own, which is another than that of the settings they extend."""


def test_settings_may_extend_those_of_another_recipe(encoder: Encoders, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setitem(RECIPES, "own", RecipeTargets(f"{__name__}:OwnSettings", "graphdoc.recipes.views:ViewRecipe"))
    monkeypatch.setattr("graphdoc.trainer.run_recipe", lambda context, make, resume: make)
    assert train(OwnSettings(corpus={"source": "a"}, output=str(tmp_path)), encoder=encoder()) == ViewRecipe.from_run


class OwnContrast(InfoNCELoss):
    """Compares as the loss that it extends."""


def test_a_model_compares_as_its_loss_does(encoder: Encoders, documents: Documents, monkeypatch: Patch) -> None:
    monkeypatch.setattr("graphdoc.trainer.run_recipe", lambda *_: None)
    of_dot, of_cosine = encoder(similarity="cosine"), encoder(similarity="dot")
    Trainer(of_dot, SubDocuments(documents), OwnContrast("dot")).train()
    train(SubDocumentSettings(corpus={"source": "a"}), encoder=of_cosine, loss=InfoNCELoss("cosine"))
    assert (of_dot.model.config.similarity, of_cosine.model.config.similarity) == ("dot", "cosine")


def test_defaults_of_a_task_leave_settings_alone(encoder: Encoders, documents: Documents) -> None:
    settings = SubDocumentSettings(corpus={"source": "a"}, split="one_passage")  # type: ignore[arg-type]
    for task, given in ((SubDocuments(documents), settings), (SubDocuments(documents, "one_passage"), None)):
        trainer = Trainer(encoder(), task, settings=given)
        assert isinstance(trainer.settings, SubDocumentSettings) and trainer.settings.split == "one_passage"


def test_texts_are_told_from_paths(encoder: Encoders, documents: Documents) -> None:
    texts = [document.text for document in documents]
    texts += ["Tides.", "蒸米饭要二十分钟。" * 200]
    held = Trainer(encoder(), SubDocuments(iter(texts))).settings.corpus.in_memory
    assert [document.text for document in held] == texts
    for named in (["a.jsonl", "papers/"], [Path("a b.jsonl")]):
        assert Trainer(encoder(), SubDocuments(named)).settings.corpus.sources == list(map(str, named))


@pytest.mark.parametrize("stops", [False, True])
def test_callbacks_are_those_of_transformers(
    encoder: Encoders, documents: Documents, tmp_path: Path, stops: bool
) -> None:
    told: list[Any] = []

    class Telling(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            told.append(state.global_step)
            control.should_training_stop = stops and state.global_step == 2
            control.should_save = stops and state.global_step == 1

        def on_save(self, args: Any, *_: Any, model: Any, **__: Any) -> None:
            told.append(len(list(Path(args.output_dir).glob("checkpoint-*"))))

        def on_train_end(self, *_: Any, **__: Any) -> None:
            told.append("end")

        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            told.append("begins")

        def on_epoch_end(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
            told.append(state.epoch)

    # A learning rate so small that nothing becomes better.
    callbacks: list[Any] = [Telling] if stops else [Telling(), EarlyStoppingCallback(1)]
    options: Any = {**FEW, "save_steps": 2, "max_steps": 9, "learning_rate": 1e-20, "callbacks": callbacks}
    options["evaluator"] = None if stops else ClassificationEvaluator(documents)
    assert (Trainer(encoder(), Classes(documents), output=tmp_path, **options).train() / "model.safetensors").is_file()
    expected = ["begins", 1, 1, 2, 2, "end"], ["begins", 1, 2, 1, 3, 1.0, "begins", 4, 2, "end"]
    assert told == expected[not stops]


def test_sentences_are_trained_on_with_masked_tokens_beside_them(
    language_model_folder: Path, documents: Documents, tmp_path: Path
) -> None:
    trainer = Trainer(
        str(language_model_folder), SentencePairs(documents), [PairCosineLoss(0.25), MaskedTokenLoss(0.5)],
        output=tmp_path / "run", device="cpu", evaluator={"share": 0},
        model={"settings": {"graph_layers": 0, "readout": "mean", "projection_size": None}}, **FEW,
    )  # fmt: skip
    loss: Any = trainer.settings.loss  # type: ignore[attr-defined]
    assert (loss.negatives, loss.margin, loss.mlm_weight) == ("sampled", 0.75, 0.5)
    with pytest.raises(AttributeError, match="callbacks"):
        trainer.add_callback()  # type: ignore[attr-defined]
    assert (trainer.train() / "model.safetensors").is_file()

    assert ViewRecipe.describe_losses([InfoNCELoss("cosine", 0.1)]) == (None, {"kind": "contrast", "temperature": 0.1})
    alone: Any = Trainer(str(language_model_folder), SentencePairs(documents), MaskedTokenLoss(0.5)).settings
    assert (alone.loss.contrast_weight, alone.loss.mlm_weight) == (0, 0.5)


OWN = torch.nn.MSELoss()
BY_PASSAGES = RetrievalSettings(corpus={"source": "a"}, queries={"made_from": ["titles"]}, loss={"level": "passage"})

# What is wrong, the class of the error, and what it must name.
WRONG: dict[str, tuple[Callable[[list[Document]], Task], Any, dict[str, Any], type[Exception], str]] = {
    "unknown setting": (SubDocuments, None, {"batchsize": 3}, SettingsError, "batchsize"),
    "a name of another library": (SubDocuments, None, {"train_dataset": 3}, SettingsError, "task"),
    "a name of encode": (SubDocuments, None, {"precision": "bf16"}, SettingsError, "mixed_precision"),
    "documents and no task": (lambda documents: documents, None, {}, SettingsError, "task"),
    "out of bounds": (SubDocuments, None, {"learning_rate": -1.0}, SettingsError, "learning_rate"),
    "documents of no kind": (lambda documents: SubDocuments(7), None, {}, SettingsError, "int"),
    "no encoder": (SubDocuments, None, {"encoder": 123}, SettingsError, "123 (int)"),
    "the class of a loss": (SubDocuments, InfoNCELoss, {}, SettingsError, "InfoNCELoss()"),
    "no loss": (SubDocuments, "cosine", {}, SettingsError, "'cosine' (str)"),
    "a loss too many": (Groups, [PairCosineLoss(), ClassificationLoss()], {}, SettingsError, "PairCosineLoss"),
    "two losses of a kind": (SubDocuments, [InfoNCELoss()] * 2, {}, SettingsError, "InfoNCELoss"),
    "masked tokens twice": (SentencePairs, [MaskedTokenLoss()] * 2, {}, SettingsError, "MaskedTokenLoss"),
    "two losses of pairs": (SentencePairs, [PairCosineLoss(), InfoNCELoss()], {}, SettingsError, "InfoNCELoss"),
    "both directions of queries": (Queries, InfoNCELoss(directions="both"), {}, SettingsError, "directions"),
    "a loss of pairs": (SubDocuments, PairCosineLoss(), {}, SettingsError, "PairCosineLoss"),
    "a loss of groups": (Classes, SupervisedContrastiveLoss(), {}, SettingsError, "ClassificationLoss"),
    "a dot product of views": (PairViews, InfoNCELoss(), {}, SettingsError, "similarity"),
    "no loss of subtopics": (lambda documents: SubtopicPairs(documents, PAIRS), OWN, {}, SettingsError, "MSE"),
    "no loss of best passages": (Queries, OWN, {"settings": BY_PASSAGES}, SettingsError, "MSE"),
    "one label": (lambda documents: Classes(documents[::2]), None, {}, GraphdocError, "label 0"),
    "an unknown document": (lambda some: Groups(some, [("d0", "d2", 1), ("d0", "x", 0)]), None, {}, GraphdocError, "x"),
    "one document": (lambda documents: SubDocuments(documents[:1]), None, {}, GraphdocError, "2"),
    "unknown queries": (lambda documents: Queries(documents, [("rice", "nobody")]), None, {}, GraphdocError, "corpus"),
    "a tracker that does not start": (SubDocuments, None, {"report_to": ["mlflow"]}, OutputError, "nowhere"),
    "an unknown tracker": (SubDocuments, None, {"report_to": ["aim"]}, SettingsError, "report_to"),
    "several evaluators": (SubDocuments, None, {"evaluator": []}, SettingsError, "evaluator"),
    "a share that is missing": (SubDocuments, None, {"evaluator": {"best": "accuracy"}}, SettingsError, "its share"),
    "pairs that are missing": (Groups, None, {"evaluator": {"best": "f1"}}, SettingsError, "its pairs"),
    "what is never measured": (SubDocuments, None, {"evaluator": {"best": "f1"}}, SettingsError, "best='f1'"),
    "settings of a loaded model": (SubDocuments, None, {"model": {"settings": {}}}, SettingsError, "settings"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_before_a_passage_is_encoded(
    encoder: Encoders, documents: Documents, tmp_path: Path, name: str, monkeypatch: Patch
) -> None:
    task, loss, options, kind, named = WRONG[name]
    monkeypatch.setattr(DocumentModel, "encode_passages", lambda *arguments: pytest.fail("encodes"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://server")
    if kind is OutputError:
        pytest.importorskip("mlflow")
    with pytest.raises(kind) as caught:
        given: dict[str, Any] = {"encoder": encoder(graph_layers=1), **FEW, **options}
        Trainer(task=task(documents), loss=loss, output=tmp_path / "run", tune="frozen", **given).train()
    if name != "unknown queries":
        assert named in str(caught.value)
    assert not (tmp_path / "run").exists()
