from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from graphdoc.errors import SettingsError
from graphdoc.losses import SubDocumentContrast
from graphdoc.settings.loading import as_values, load_settings
from graphdoc.settings.sub_documents import PretrainingSettings
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
        assert "<" not in message
        return message

    return run


def test_what_a_file_leaves_out_has_its_default(load: Load) -> None:
    settings = load("training: {epochs: 3}")
    assert settings.training == replace(TrainingSettings(), epochs=3.0)
    assert settings.loss == SubDocumentContrast()
    assert settings.corpus.source == "documents"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trainig: {epochs: 3}", "trainig is unknown; did you mean training?"),
        ("training: {batchsize: 3}", "training.batchsize is unknown; did you mean training.batch_size?"),
        ("model: {lora: {rnk: 3}}", "model.lora.rnk is unknown; did you mean model.lora.rank?"),
        ("loss: {zzz: 3}", "loss.zzz is unknown; there are similarity, temperature, directions"),
        ("batch_size: 3", "batch_size is unknown; did you mean training.batch_size?"),
        ("model: {batch_size: 3}", "model.batch_size is unknown; did you mean training.batch_size?"),
        ("training: {temperature: 3}", "training.temperature is unknown; did you mean loss.temperature?"),
        ("training: {split: half}", "training.split is unknown; did you mean corpus.split or split?"),
        ("rank: 3", "rank is unknown; did you mean model.lora.rank?"),
        ("1: 3", "1 is unknown; there are corpus, model"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(refused: Callable[..., str], text: str, message: str) -> None:
    assert message in refused(text)
    assert "run.yaml: " in refused(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: {batch_size: many}", '"training.batch_size": expected int, not many'),
        ("training: {batch_size: 2.5}", '"training.batch_size": expected int, not 2.5'),
        ("training: {epochs: yes}", '"training.epochs": expected float, not True'),
        ("training: {trackers: tensorboard}", '"training.trackers": expected list, not tensorboard'),
        ("model: {lora: {alpha: x}}", '"model.lora.alpha": expected float, not x'),
        ("model: {settings: {pooling: [mean]}}", "expected one of str, int, float, bool, null, not ['mean']"),
        ("training: {max_steps: 1e3}", '"training.max_steps": expected one of int, null, not 1000.0'),
        ("training: {max_steps: many}", '"training.max_steps": expected one of int, null, not many'),
        ("training: 3", "training is 3; it should hold keys and values (batch_size, epochs"),
        ("loss: null", "loss has no value; give one, or leave the key out"),
        ("output:", "output has no value; give one, or leave the key out"),
        ("loss: {temperature: null}", "loss.temperature has no value"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(refused: Callable[..., str], text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("split: halves", "\"split\": expected one of ['half', 'one_passage'], not halves"),
        ("loss: {similarity: euclid}", "\"loss.similarity\": expected one of ['dot', 'cosine'], not euclid"),
        ("model: {tune: frozn}", "\"model.tune\": expected one of ['full', 'lora', 'frozen'], not frozn"),
        ("training: {optimizer: sgd}", "expected one of ['adam', 'adamw', 'adafactor'], not sgd"),
        ("training: {trackers: [wandb]}", "expected one of ['tensorboard'], not wandb"),
    ],
)
def test_an_unknown_choice_is_refused_with_those_there_are(
    refused: Callable[..., str], text: str, message: str
) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss: {temperature: 0}", ": loss.temperature=0.0 must be at least 0.0001 and finite"),
        ("loss: {temperature: .inf}", ": loss.temperature=inf must be at least 0.0001 and finite"),
        ("training: {batch_size: 1}", "batch_size=1 leaves no other document"),
        ("training: {learning_rate: .inf}", "learning_rate=inf must be a number above 0"),
        ("training: {learning_rate: .nan}", "learning_rate=nan must be a number above 0"),
        ("training: {warmup: -1}", "warmup=-1.0 must be at least 0"),
        ("training: {warmup: .nan}", "warmup=nan must be at least 0"),
        ("training: {warmup: .inf}", ": training.warmup=inf must be at least 0 and finite"),
        ("training: {clip: .inf}", ": training.clip=inf must be at least 0 and finite"),
        ("training: {save_steps: 0}", "save_steps=0 must be at least 1"),
        ("training: {loading_processes: 5000}", "training.loading_processes=5000 must be at most 128"),
        ("training: {max_steps: 100000000000}", "training.max_steps=100000000000 must be at most 1,000,000,000"),
        ("training: {epochs: 1.0e+300}", "training.epochs=1e+300 must be a number above 0 and at most 1e+06"),
        ("training: {learning_rate: 1.0e+38}", "training.learning_rate=1e+38 must be a number above 0 and at most"),
        ("model: {settings: {graph_layer: 1}}", "model.settings.graph_layer is unknown; did you mean graph_layers?"),
        ("model: {settings: {device: cpu}}", "model.settings.device is unknown"),
        ("model: {settings: {backbone: a}}", "model.settings.backbone is unknown"),
        ("training: {seed: -1}", "seed=-1 must be at least 0"),
        ("training: {precision: float16}", "expected one of ['float32', 'bfloat16'], not float16"),
        ("training: {weight_decay: 0.1}", "weight_decay=0.1 has no effect with adam"),
        ("training: {moving_average: 1}", "moving_average=1.0 must be above 0 and below 1"),
        ("training: {patience: 2}", "training.patience=2 needs an evaluation"),
        ("model: {lora: {rank: 0}}", ": model.lora.rank=0 must be at least 1"),
        ("model: {lora: {alpha: .nan}}", ": model.lora.alpha=nan must be above 0 and finite"),
        ("model: {settings: {multi_label: true}}", "model.settings.multi_label is given by labels.multi_label"),
        ("model: {settings: {labels: a}}", "model.settings.labels is given by the labels of the documents"),
        ("evaluation: {held_out: 1}", "held_out=1.0 must be at least 0 and below 1"),
        ("evaluation: {best: nmi}", "evaluation.best=nmi needs an evaluation"),
        ("evaluation: {train: a}", "evaluation.train and evaluation.test belong together"),
        ("evaluation: {pairs: a}", "evaluation.pairs needs the documents"),
        ("evaluation: {data: a, train: a, test: a}", "evaluation.data and evaluation.train are both given"),
    ],
)
def test_a_value_out_of_range_is_named(refused: Callable[..., str], text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("loss.temperature=0", "the command line: loss.temperature=0.0 must be at least 0.0001 and finite"),
        ("training.precision=fp8", 'the command line: "training.precision": expected one of'),
        ("training.patience=2", "the command line: training.patience=2 needs an evaluation"),
        ("model.settings.graph_layers=[1]", 'the command line: "model.settings": expected'),
    ],
)
def test_a_value_of_the_command_line_is_told_from_one_of_the_file(
    refused: Callable[..., str], override: str, message: str
) -> None:
    assert refused("", "split=half", override).startswith(message)
    # What the file says is its own, also where the command line says something of another key.
    key, _, value = override.partition("=")
    for name in reversed(key.split(".")):
        value = f"{{{name}: {value}}}"
    assert "run.yaml: " in refused(value[1:-1], "split=half")


def test_a_source_that_the_command_line_takes_away_is_its_own(refused: Callable[..., str]) -> None:
    message = "corpus.source is missing, and so is corpus.dataset; give source (paths) or dataset (a name)"
    assert refused("", "corpus.source=null") == f"the command line: {message}"


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ("", "corpus.source is missing, and so is corpus.dataset"),
        ("corpus: {source: a, dataset: b}", "both source ('a') and dataset ('b') are given"),
        ("corpus: {source: a, columns: {txt: b}}", "corpus.columns.txt is unknown; did you mean corpus.columns.text?"),
        ("corpus: {source: 3}", '"corpus.source": expected one of list[str], str, null, not 3'),
        ("a: b: c", "run.yaml is no valid YAML: mapping values are not allowed here"),
        ("x\ty", "run.yaml is no valid YAML"),
        ("- a", "run.yaml holds a list; it should hold keys and values"),
        ("output: a\noutput: b", "run.yaml is no valid YAML: output is given twice"),
        ("? [a, b]\n: c", "run.yaml is no valid YAML: while constructing a mapping"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_line(
    refused: Callable[..., str], corpus: str, message: str
) -> None:
    assert message in refused(corpus=corpus)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml cannot be read: No such file.*check the path"):
        load_settings(PretrainingSettings, tmp_path / "nowhere.yaml")
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load_settings(PretrainingSettings, tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"binary\.yaml is no valid YAML"):
        load_settings(PretrainingSettings, tmp_path / "binary.yaml")


def test_settings_on_the_command_line_replace_those_of_the_file(load: Load) -> None:
    settings = load(
        "training: {epochs: 3, batch_size: 8}\nloss: {temperature: 0.5}",
        *("training.epochs=7", "loss={similarity: cosine}", "model.settings.pooling=mean", "output=there"),
        *("corpus.source=[a, b]", "training.max_steps=null", "evaluation.held_out=0.1"),
    )
    assert (settings.training.epochs, settings.training.batch_size) == (7, 8)
    assert settings.loss == SubDocumentContrast("cosine")
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
    ("override", "message"),
    [
        ("epochs", "'epochs' is no setting; write key=value, such as training.epochs=3"),
        ("=3", "'=3' is no setting"),
        ("epochs=3", "the command line: epochs is unknown; did you mean training.epochs?"),
        ("loss.epochs=3", "the command line: loss.epochs is unknown; did you mean training.epochs?"),
        ("model.lora={rnk: 4}", "the command line: model.lora.rnk is unknown; did you mean model.lora.rank?"),
        ("model=roberta-base", "the command line: model is 'roberta-base'; it should hold keys and values (start"),
        ("output=", "the command line: output has no value; give one, or leave the key out (null is none)"),
        ("corpus.cache= ", "the command line: corpus.cache has no value"),
        ("output=[a", "'output=[a': the value is no YAML; put it in quotes"),
        ("output=2024-13-45", "'output=2024-13-45': the value is no YAML; put it in quotes"),
        ("output=0x_", "the value is no YAML"),
        ("training.seed=" + "9" * 5000, "the value is no YAML"),
        ("training.seed=!!int x", "the value is no YAML"),
        ("output=!!bool x", "the value is no YAML"),
        ("output=" + "[" * 3000, "the value is no YAML"),
        ("output=' '", "the command line: output=' ' is no name of a folder; give one"),
        ("model.settings={1: 2}", "the command line: the key 1 of model.settings is no name"),
        ("evaluation.pairs=x", "the command line: evaluation.pairs needs the documents"),
        ("corpus.shuffle_buffer=99999999999999999999", "shuffle_buffer is 99999999999999999999; set it to 9,223,"),
        ("output.x=3", "\"output\": expected str, not {'x': 3}"),
    ],
)
def test_a_wrong_setting_on_the_command_line_is_told(refused: Callable[..., str], override: str, message: str) -> None:
    assert message in refused("", override)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_valid_and_survive_being_written(path: Path, tmp_path: Path) -> None:
    import yaml

    settings = load_settings(PretrainingSettings, path)
    written = tmp_path / "written.yaml"
    written.write_text(yaml.safe_dump(as_values(settings)), encoding="utf-8")
    assert load_settings(PretrainingSettings, written) == settings
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
    assert settings.corpus.dataset == "Skylion007/openwebtext"
    assert (settings.model.start, settings.model.tune) == ("roberta-base", "full")
    model = settings.model.settings
    assert (model["projection_size"], model["graph_layers"], model["graph_heads"]) == (512, 2, 2)
    assert (model["pooling"], model["graph_kind"], model["readout"]) == ("cls", "full", "document_node")


def test_the_paper_for_retrieval_is_a_recipe() -> None:
    """Graph-RoBERTa, section 3.3: the loss is taken over the long sub-documents only."""
    path = next(path for path in RECIPES if path.stem == "graph_roberta_retrieval")
    settings = load_settings(PretrainingSettings, path)
    assert (settings.split, settings.loss.directions, settings.training.batch_size) == ("one_passage", "one", 1024)
