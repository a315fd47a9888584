from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from graphdoc.errors import SettingsError
from graphdoc.registry import GRAPH_KINDS
from graphdoc.settings.classify import ClassificationSettings
from graphdoc.settings.loading import load_chosen, load_settings
from graphdoc.settings.run import RunSettings
from graphdoc.settings.sentence_pairs import SentencePairSettings
from graphdoc.settings.sub_documents import ContrastSettings, PretrainingSettings
from graphdoc.settings.training import TrainingSettings

RECIPES = sorted((Path(__file__).parents[2] / "configs" / "pretrain").glob("*.yaml"))
CORPUS = "corpus: {source: documents}\n"

Load = Callable[..., PretrainingSettings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Reads settings from a text, by default with a corpus: ``load("split: half", "training.epochs=3")``."""

    def run(text: str = "", *overrides: str, corpus: str = CORPUS) -> PretrainingSettings:
        path = tmp_path / "run.yaml"
        path.write_text(corpus + text, encoding="utf-8")
        return load_settings(PretrainingSettings, path, overrides)

    return run


@pytest.fixture
def refused(load: Load) -> Callable[..., str]:
    """Reads settings, expects that they are refused in one line, and gives it."""

    def run(text: str = "", *overrides: str, corpus: str = CORPUS) -> str:
        with pytest.raises(SettingsError) as caught:
            load(text, *overrides, corpus=corpus)
        message = str(caught.value)
        assert message.isprintable()
        assert len(message) < 600
        # Names of classes are no help to who writes a file.
        assert "<class" not in message
        return message

    return run


def test_what_a_file_leaves_out_has_its_default(load: Load) -> None:
    settings = load("training: {epochs: 3}")
    assert settings.training.as_values() == {**TrainingSettings().as_values(), "epochs": 3.0}
    assert settings.loss == ContrastSettings()
    assert settings.corpus.source == "documents"


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("trainig: {epochs: 3}", "trainig", "training?"),
        ("training: {batchsize: 3}", "training.batchsize", "training.batch_size?"),
        ("model: {lora: {rnk: 3}}", "model.lora.rnk", "model.lora.rank?"),
        ("loss: {zzz: 3}", "loss.zzz", "similarity, temperature, directions"),
        ("batch_size: 3", "batch_size", "training.batch_size?"),
        ("model: {batch_size: 3}", "model.batch_size", "training.batch_size?"),
        ("training: {temperature: 3}", "training.temperature", "loss.temperature?"),
        ("training: {split: half}", "training.split", "corpus.split or split?"),
        ("rank: 3", "rank", "model.lora.rank?"),
        ("1: 3", "1", "output, corpus, model"),
        ("training: {2: 3}", "training.2", "batch_size, epochs"),
        ("model: {settings: {graph_layer: 1}}", "model.settings.graph_layer", "model.settings.graph_layers?"),
        ("model: {settings: {device: cpu}}", "model.settings.device", ""),
        ("model: {settings: {backbone: a}}", "model.settings.backbone", ""),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(
    refused: Callable[..., str], text: str, key: str, nearest: str
) -> None:
    message = refused(text)
    assert "run.yaml: " in message
    assert key in message
    assert nearest in message


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("training: {per_device_train_batch_size: 8}", "training.batch_size"),
        ("per_device_train_batch_size: 8", "training.batch_size"),
        ("training: {gradient_accumulation_steps: 8}", "training.batch_size"),
        ("training: {mini_batch_size: 8}", "training.token_budget"),
        ("training: {num_train_epochs: 8}", "training.epochs"),
        ("training: {lr: 1.0e-3}", "training.learning_rate"),
        ("training: {lr_scheduler_type: cosine}", "training.schedule"),
        ("training: {warmup_ratio: 0.1}", "training.warmup"),
        ("training: {warmup_steps: 100}", "training.warmup"),
        ("training: {max_grad_norm: 1}", "training.clip"),
        ("training: {fp16: true}", "training.precision"),
        ("training: {bf16: true}", "training.precision"),
        ("training: {eval_steps: 10}", "training.evaluation_steps"),
        ("training: {logging_steps: 10}", "training.log_steps"),
        ("training: {save_total_limit: 10}", "training.keep_checkpoints"),
        ("training: {report_to: tensorboard}", "training.trackers"),
        ("training: {dataloader_num_workers: 2}", "training.loading_processes"),
        ("output_dir: there", "output"),
        ("model: {max_seq_length: 512}", "model.settings.passage_tokens"),
        ("model: {model_name_or_path: bert}", "model.start"),
        ("model: {lora: {r: 8}}", "model.lora.rank"),
        ("loss: {scale: 20}", "loss.temperature"),
        # These are called the same.
        ("weight_decay: 0.1", "training.weight_decay"),
        ("save_steps: 10", "training.save_steps"),
        ("learning_rate: 0.1", "training.learning_rate"),
    ],
)
def test_names_of_other_libraries_are_understood(refused: Callable[..., str], text: str, key: str) -> None:
    assert f"did you mean {key}" in refused(text)


def test_a_name_of_another_library_leads_to_no_key_that_the_recipe_lacks(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(CORPUS + "labels: {scale: 20}\nmetric_for_best_model: accuracy", encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings(ClassificationSettings, path)
    assert "loss.temperature" not in str(caught.value)
    path.write_text(CORPUS + "metric_for_best_model: accuracy", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"validation\.best"):
        load_settings(ClassificationSettings, path)


WRONG = [
    # Of another type.
    ("training: {batch_size: many}", "training.batch_size='many'", "a whole number"),
    ("training: {batch_size: '3'}", "training.batch_size='3'", "a whole number"),
    ("training: {batch_size: 2.5}", "training.batch_size=2.5", "a whole number"),
    ("training: {batch_size: yes}", "training.batch_size=true", "a whole number"),
    ("training: {epochs: yes}", "training.epochs=true", "a number"),
    ("training: {trackers: tensorboard}", "training.trackers='tensorboard'", "a list"),
    ("model: {compile: 1}", "model.compile=1", "true or false"),
    ("model: {lora: {alpha: x}}", "model.lora.alpha='x'", "a number"),
    ("model: {settings: {pooling: [mean]}}", "model.settings.pooling=['mean']", "cls or mean"),
    ("training: {max_steps: 1e3}", "training.max_steps=1000.0", "a whole number"),
    ("training: {max_steps: many}", "training.max_steps='many'", "null"),
    ("training: 3", "training=3", "batch_size, epochs"),
    ("training: [3]", "training=[3]", "batch_size, epochs"),
    ("loss: null", "loss has no value", ""),
    ("output:", "output has no value", ""),
    ("loss: {temperature: null}", "loss.temperature has no value", ""),
    # No choice that there is.
    ("split: halves", "split='halves'", "half or one_passage"),
    ("loss: {similarity: euclid}", "loss.similarity='euclid'", "cosine or dot"),
    ("model: {tune: frozn}", "model.tune='frozn'", "full, lora or frozen"),
    ("training: {optimizer: sgd}", "training.optimizer='sgd'", "adam or adamw"),
    ("training: {trackers: [aim]}", "training.trackers=['aim']", "tensorboard, wandb or mlflow"),
    ("training: {precision: float16}", "training.precision='float16'", "float32 or bfloat16"),
    # Out of range.
    ("loss: {temperature: 0}", "loss.temperature=0", "at least 0.0001"),
    ("loss: {temperature: .inf}", "loss.temperature=inf", "finite"),
    ("training: {batch_size: 1}", "training.batch_size=1", "at least 2"),
    ("training: {batch_size: 99999999999999999999}", "training.batch_size=99999999999999999999", "at most"),
    ("training: {learning_rate: .inf}", "training.learning_rate=inf", "finite"),
    ("training: {learning_rate: .nan}", "training.learning_rate=nan", "finite"),
    ("training: {learning_rate: 1.0e+38}", "training.learning_rate=1e+38", "at most 1e+30"),
    ("training: {warmup: -1}", "training.warmup=-1", "at least 0"),
    ("training: {warmup: .nan}", "training.warmup=nan", "finite"),
    ("training: {clip: .inf}", "training.clip=inf", "finite"),
    ("training: {save_steps: 0}", "training.save_steps=0", "at least 1"),
    ("training: {loading_processes: 5000}", "training.loading_processes=5000", "at most 128"),
    ("training: {max_steps: 100000000000}", "training.max_steps=100000000000", "at most 1,000,000,000"),
    ("training: {epochs: 1.0e+300}", "training.epochs=1e+300", "at most 1e+06"),
    ("training: {seed: -1}", "training.seed=-1", "at least 0"),
    ("model: {lora: {rank: 0}}", "model.lora.rank=0", "at least 1"),
    ("model: {lora: {alpha: .nan}}", "model.lora.alpha=nan", "finite"),
    ("evaluation: {held_out: 1}", "evaluation.held_out=1", "below 1"),
    # Not what a name can be.
    ("output: ' '", "output=' '", "blank"),
    ('output: "a\\0b"', "output='a\\x00b'", "NUL"),
    ('evaluation: {data: "a\\0b"}', "evaluation.data='a\\x00b'", "NUL"),
    ('model: {start: "a\\0b"}', "model.start='a\\x00b'", "NUL"),
    # Given by something else, or of no effect.
    ("model: {settings: {graph_layers: 100000000}}", "model.settings.graph_layers=100000000", "at most 100"),
    ("model: {settings: {graph_kind: no_kind}}", "model.settings.graph_kind='no_kind'", list(GRAPH_KINDS)[-1]),
    ("model: {settings: {multi_label: true}}", "model.settings.multi_label=true", "labels.multi_label"),
    ("model: {settings: {labels: a}}", "model.settings.labels='a'", "the labels of the documents"),
    ("training: {weight_decay: 0.1}", "training.weight_decay=0.1", "training.optimizer=adamw"),
    ("training: {schedule: constant, warmup: 0.2}", "training.warmup=0.2", "training.schedule=constant_with_warmup"),
    ("training: {evaluation_steps: 2}", "training.evaluation_steps=2", "evaluation.held_out"),
    ("training: {evaluation_steps: 2}", "training.evaluation_steps=2", "evaluation.held_out"),
    ("evaluation: {best: nmi}", "evaluation.best='nmi'", "evaluation.held_out"),
    ("evaluation: {best: nmi, held_out: 0.1}", "evaluation.best='nmi'", "accuracy, embedding_norm, loss"),
    ("evaluation: {train: a}", "evaluation.train='a'", "evaluation.test"),
    ("evaluation: {test: a}", "evaluation.test='a'", "evaluation.train"),
    ("evaluation: {pairs: a}", "evaluation.pairs='a'", "evaluation.data"),
    ("evaluation: {seeds: 5}", "evaluation.seeds=5", "evaluation.data"),
    ("evaluation: {data: a, train: b, test: c}", "evaluation.train='b'", "evaluation.data='a'"),
    ("model: {lora: {rank: 4}}", "model.lora.rank=4", "model.tune=lora"),
    ("model: {store: updates}", "model.store='updates'", "model.tune=lora or frozen"),
    ("model: {begin: half}", "model.begin='half'", "random or mean"),
    ("model: {tune: frozen}\ntraining: {keep_activations: 9}", "training.keep_activations=9", "model.tune"),
]


@pytest.mark.parametrize(("text", "value", "fix"), WRONG, ids=lambda part: part if ":" in part else "")
def test_a_wrong_value_is_named_with_its_key_and_a_fix(
    refused: Callable[..., str], text: str, value: str, fix: str
) -> None:
    message = refused(text)
    assert "run.yaml: " in message
    assert value in message
    assert fix in message


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("loss.temperature=0", "loss.temperature=0"),
        ("training.precision=fp8", "training.precision='fp8'"),
        ("training.evaluation_steps=2", "training.evaluation_steps=2"),
        ("model.settings.graph_layers=[1]", "model.settings.graph_layers=[1]"),
        ("training.batchsize=2", "training.batchsize"),
    ],
)
def test_values_of_the_command_line_and_of_the_file_are_kept_apart(
    refused: Callable[..., str], override: str, value: str
) -> None:
    assert refused("", "split=half", override).startswith(f"the command line: {value}")
    # What the file says is its own, also where the command line says something of another key.
    key, _, text = override.partition("=")
    for name in reversed(key.split(".")):
        text = f"{{{name}: {text}}}"
    assert f"run.yaml: {value}" in refused(text[1:-1], "split=half")


def test_a_source_that_the_command_line_takes_away_is_its_own(refused: Callable[..., str]) -> None:
    assert refused("", "corpus.source=null").startswith("the command line: corpus.source=null")


@pytest.mark.parametrize(
    ("corpus", "words"),
    [
        ("", ["corpus.source=null", "corpus.dataset"]),
        ("corpus: {source: a, dataset: b}", ["corpus.source='a'", "corpus.dataset='b'"]),
        ("corpus: {source: a, columns: {txt: b}}", ["corpus.columns.txt", "corpus.columns.text?"]),
        ("corpus: {source: a, columns: {text: 3}}", ["corpus.columns.text=3", "text"]),
        ("corpus: {source: 3}", ["corpus.source=3", "a list of text"]),
        ("corpus: {source: [a, '']}", ["corpus.source=''", "blank"]),
        ("corpus: {source: a, revision: b}", ["corpus.revision='b'", "corpus.dataset"]),
        ("corpus: {source: a, least_passages: 1}", ["corpus.least_passages=1", "at least 2"]),
        ("corpus: []", ["corpus=[]", "source, dataset"]),
        ("corpus: null", ["corpus has no value"]),
        ("a: b: c", ["run.yaml is no valid YAML", "mapping values are not allowed here"]),
        ("x\ty", ["run.yaml is no valid YAML"]),
        ("- a", ["run.yaml holds a list", "keys and values"]),
        ("output: a\noutput: b", ["run.yaml is no valid YAML", "output is given twice"]),
        ("? [a, b]\n: c", ["run.yaml is no valid YAML"]),
    ],
)
def test_a_file_that_cannot_be_used_is_named_in_one_line(
    refused: Callable[..., str], corpus: str, words: list[str]
) -> None:
    message = refused(corpus=corpus)
    assert all(word in message for word in words), message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.yaml").write_bytes(b"# a\n" * 2**19)
    for name in ("nowhere.yaml", "pipe.yaml", "binary.yaml", "large.yaml", "NUL\0.yaml", ""):
        with pytest.raises(SettingsError) as caught:
            load_settings(PretrainingSettings, tmp_path / name)
        message = str(caught.value)
        assert message.isprintable()
        assert name.replace("\0", " ") in message
    with pytest.raises(SettingsError, match="/dev/zero"):
        load_settings(PretrainingSettings, "/dev/zero")


def unfolding(first: str, line: str) -> str:
    """A file whose lines each stand for ten of the line before."""
    lines = [line.format(n=n, tens=", ".join([f"*a{n - 1}"] * 10)) for n in range(1, 12)]
    return "\n".join([f"a0: &a0 {first}", *lines])


ALIASES = unfolding("[x, x, x, x, x, x, x, x, x, x]", "a{n}: &a{n} [{tens}]")
MERGES = unfolding("{x: 1, y: 2}", "a{n}: &a{n} {{<<: [{tens}], k{n}: 1}}")
STRINGS = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]"


@pytest.mark.parametrize(
    "text",
    [ALIASES, MERGES, STRINGS, "a: &a [*a]", "a: &a {b: *a}", "a: &a {<<: *a}", "[" * 5000, "a: [" + "b, " * 200_000],
    ids=["aliases", "merges", "strings", "itself", "its own key", "its own merge", "depth", "length"],
)
def test_a_file_that_unfolds_without_end_is_refused(refused: Callable[..., str], text: str) -> None:
    assert "run.yaml is no valid YAML" in refused(corpus=text)
    if "\n" not in text:
        assert "the command line: 'output=" in refused("", f"output={text}")


def test_aliases_within_reason_are_read(load: Load) -> None:
    settings = load("model: &model {start: a}", "model.tune=frozen", corpus=CORPUS)
    assert (settings.model.start, settings.model.tune) == ("a", "frozen")
    columns = "corpus: {source: &name [documents], leave_out_splits: *name}\n"
    assert load("", "corpus.source=papers", corpus=columns).corpus.leave_out_splits == ["documents"]


def test_settings_on_the_command_line_replace_those_of_the_file(load: Load) -> None:
    settings = load(
        "training: {epochs: 3, batch_size: 8}\nloss: {temperature: 0.5}",
        *("training.epochs=7", "loss={similarity: cosine}", "model.settings.pooling=mean", "output=there"),
        *("corpus.source=[a, b]", "training.max_steps=null", "evaluation.held_out=0.1"),
    )
    assert (settings.training.epochs, settings.training.batch_size) == (7, 8)
    assert settings.loss == ContrastSettings(similarity="cosine")
    assert settings.model.settings == {"pooling": "mean"}
    assert settings.corpus.sources == ["a", "b"]
    assert settings.folder == Path("there")
    assert settings.evaluation.held_out == 0.1


def test_numbers_may_be_written_as_they_are_in_papers(load: Load) -> None:
    settings = load(
        "training: {learning_rate: 5e-5}",
        "training.encoder_learning_rate=1e-6",
        "model.settings.attention_dropout=1e-1",
    )
    assert settings.training.learning_rate == 5e-5
    assert settings.training.encoder_learning_rate == 1e-6
    assert settings.model.settings == {"attention_dropout": 0.1}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("epochs", ["'epochs'", "key=value"]),
        ("=3", ["'=3'", "key=value"]),
        ("epochs=3", ["epochs is unknown", "training.epochs?"]),
        ("loss.epochs=3", ["loss.epochs is unknown", "training.epochs?"]),
        ("model.lora={rnk: 4}", ["model.lora.rnk is unknown", "model.lora.rank?"]),
        ("model=roberta-base", ["model='roberta-base'", "start"]),
        ("output=", ["output has no value", "null"]),
        ("corpus.cache= ", ["corpus.cache has no value"]),
        ("output=[a", ["'output=[a'", "no YAML"]),
        ("output=2024-13-45", ["'output=2024-13-45'", "no YAML"]),
        ("output=0x_", ["no YAML"]),
        ("training.seed=" + "9" * 5000, ["training.seed=999", "no YAML"]),
        ("training.seed=!!int x", ["no YAML"]),
        ("output=!!bool x", ["no YAML"]),
        ("output=!!python/object/apply:os.system [ls]", ["no YAML"]),
        ("output=2024-01-01", ["output=datetime.date(2024, 1, 1)", "text"]),
        ("model.settings={1: 2}", ["model.settings.1", "graph_layers"]),
        ("model.settings.graph_layers.x=1", ["model.settings.graph_layers={'x': 1}"]),
        ("evaluation.pairs=x", ["evaluation.pairs='x'", "evaluation.data"]),
        ("output.x=3", ["output={'x': 3}", "text"]),
        ("." * 1000 + "=3", ["key=value"]),
    ],
)  # fmt: skip
def test_a_wrong_setting_on_the_command_line_is_named(
    refused: Callable[..., str], override: str, words: list[str]
) -> None:
    message = refused("", override)
    assert message.startswith("the command line: ")
    assert all(word in message for word in words), message


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_valid_and_survive_being_written(path: Path, tmp_path: Path) -> None:
    import yaml

    kinds: list[type[RunSettings]] = [PretrainingSettings, SentencePairSettings]
    settings = load_chosen(kinds, path)
    written = tmp_path / "written.yaml"
    written.write_text(yaml.safe_dump(settings.as_values()), encoding="utf-8")
    assert load_chosen(kinds, written) == settings
    # The settings of the model are checked against its configuration, which the files cannot see.
    from graphdoc.modeling import DocumentConfig

    assert settings.model.settings
    DocumentConfig(**settings.model.settings)  # type: ignore[arg-type]


def test_the_paper_for_classification_is_a_recipe() -> None:
    """Graph-RoBERTa, sections 2.2 and 3.2."""
    settings = load_settings(PretrainingSettings, next(path for path in RECIPES if path.stem == "graph_roberta"))
    assert settings.split == "half"
    assert (settings.loss.similarity, settings.loss.temperature, settings.loss.directions) == ("dot", 1.0, "both")
    training = settings.training
    assert (training.batch_size, training.epochs, training.max_steps) == (1536, 10, None)
    assert (training.optimizer, training.learning_rate, training.encoder_learning_rate) == ("adam", 5e-5, None)
    assert (training.warmup, training.weight_decay) == (0.1, 0.0)
    assert settings.corpus.max_passages == 50
    assert (settings.corpus.dataset, settings.corpus.revision) == ("Skylion007/openwebtext", "refs/convert/parquet")
    assert settings.evaluation.numbers
    assert (settings.model.start, settings.model.tune) == ("roberta-base", "full")
    model = settings.model.settings
    assert (model["projection_size"], model["graph_layers"], model["graph_heads"]) == (512, 2, 2)
    assert (model["pooling"], model["graph_kind"], model["readout"]) == ("cls", "full", "document_node")


def test_the_paper_for_retrieval_is_a_recipe() -> None:
    """Graph-RoBERTa, section 3.3: the loss is taken over the long sub-documents only."""
    path = next(path for path in RECIPES if path.stem == "graph_roberta_retrieval")
    settings = load_settings(PretrainingSettings, path)
    assert (settings.split, settings.loss.directions, settings.training.batch_size) == ("one_passage", "one", 1024)
