"""Settings from files and the command line: defaults, what is refused and how it is named, and the papers' recipes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from graphdoc.errors import SettingsError
from graphdoc.modeling import DocumentConfig
from graphdoc.registry import GRAPH_KINDS, READOUTS
from graphdoc.settings.base import output_folder
from graphdoc.settings.document import DocumentSettings, setting_names
from graphdoc.settings.finetuning import ComparisonSettings, RetrievalSettings
from graphdoc.settings.loading import kinds_of, load_chosen, load_settings, shipped_recipes
from graphdoc.settings.pretraining import ContrastSettings, PretrainingSettings, SentencePairSettings
from graphdoc.settings.run import CorpusSettings, TrainingSettings

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
        assert message.isprintable() and len(message) < 1000
        return message

    return run


def test_what_a_file_leaves_out_has_its_default(load: Load) -> None:
    settings = load("training: {epochs: 3}")
    assert settings.training.as_values() == {
        **TrainingSettings().as_values(),
        "epochs": 3.0,
        "batch_size": settings.training.batch_size,
    }
    assert settings.loss == ContrastSettings()


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("trainig: {epochs: 3}", "trainig", "training?"),
        ("training: {batchsize: 3}", "training.batchsize", "training.batch_size?"),
        ("model: {lora: {rnk: 3}}", "model.lora.rnk", "model.lora.rank?"),
        ("loss: {zzz: 3}", "loss.zzz", "similarity, temperature"),
        ("batch_size: 3", "batch_size", "training.batch_size?"),
        ("1: 3", "1", "output, corpus, model"),
        ("model: {settings: {graph_layer: 1}}", "model.settings.graph_layer", "model.settings.graph_layers?"),
        ("model: {settings: {device: cpu}}", "model.settings.device", ""),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(
    refused: Callable[..., str], text: str, key: str, nearest: str
) -> None:
    message = refused(text)
    assert "run.yaml: " in message and key in message and nearest in message


# What a file or the command line gives, and the key and value that the message names.
BAD_VALUES = [
    ("training.batch_size=many", "training.batch_size='many'"),
    ("training.batch_size='3'", "training.batch_size='3'"),
    ("training.batch_size=2.5", "training.batch_size=2.5"),
    ("training.batch_size=true", "training.batch_size=true"),
    ("training.batch_size=1", "training.batch_size=1"),
    ("training.batch_size=99999999999999999999", "training.batch_size=99999999999999999999"),
    ("training=3", "training=3"),
    ("training.learning_rate=.inf", "training.learning_rate=inf"),
    ("training.learning_rate=.nan", "training.learning_rate=nan"),
    ("training.optimizer=sgd", "training.optimizer='sgd'"),
    ("training.trackers=[aim]", "'aim'"),
    ("training.seed=-1", "training.seed=-1"),
    ("loss=null", "loss=null"),
    ("loss.temperature=0", "loss.temperature=0"),
    ("split=halves", "split='halves'"),
    ("output='  '", "output="),
    ("model.tune=frozn", "model.tune='frozn'"),
    ("model.lora.rank=0", "model.lora.rank=0"),
    ("model=roberta-base", "model='roberta-base'"),
    ("model.settings.graph_layers=100000000", "model.settings.graph_layers=100000000"),
    ("model.settings.graph_kind=star", "model.settings.graph_kind='star'"),
    ("model.settings.labels=[a, b]", "model.settings.labels"),
    ("model.store=updates", "model.store='updates'"),
    ("corpus.streaming=true", "corpus.streaming=true"),
    ("corpus.max_passages=1", "corpus.max_passages=1"),
    ("corpus.columns.txt=b", "corpus.columns.txt"),
    ("evaluation.best=nmi", "evaluation.best='nmi'"),
    ("evaluation.train=a", "evaluation.train='a'"),
    ("output.x=3", "output={'x': 3}"),
]


@pytest.mark.parametrize(("override", "named"), BAD_VALUES, ids=[override for override, _ in BAD_VALUES])
def test_a_wrong_value_is_named_with_its_key_and_its_place(
    refused: Callable[..., str], override: str, named: str
) -> None:
    message = refused("", "split=half", override) if not override.startswith("split") else refused("", override)
    assert message.startswith("the command line: ") and named in message
    key, _, text = override.partition("=")
    first, *inner = key.split(".")
    for name in reversed(inner):
        text = f"{{{name}: {text}}}"
    text = f"{first}: {text}"
    if first != "corpus":
        message = refused(text)
        assert "run.yaml: " in message and named in message


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("epochs", "'epochs'"),
        ("=3", "'=3'"),
        ("epochs=3", "training.epochs?"),
        ("output=", "output"),
        ("output=[a", "'output=[a'"),
        ("output=2024-13-45", "'output=2024-13-45'"),
        ("training.seed=" + "9" * 5000, "training.seed=999"),
        ("output=!!python/object/apply:os.system [ls]", "output"),
        ("output=2024-01-01", "output="),
        ("." * 1000 + "=3", "..."),
    ],
    ids=range(10),
)
def test_a_setting_of_the_command_line_that_is_none_is_named(
    refused: Callable[..., str], override: str, named: str
) -> None:
    message = refused("", override)
    assert message.startswith("the command line: ") and named in message


@pytest.mark.parametrize(
    ("corpus", "named"),
    [
        ("", "corpus.source"),
        ("corpus: {source: a, columns: {text: 3}}", "corpus.columns.text=3"),
        ("corpus: {source: 3}", "corpus.source=3"),
        ("corpus: {source: [a, '']}", "corpus.source=''"),
        ("corpus: []", "corpus=[]"),
        ("a: b: c", "run.yaml"),
        ("- a", "run.yaml"),
        ("output: a\noutput: b", "output"),
        ("? [a, b]\n: c", "run.yaml"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(refused: Callable[..., str], corpus: str, named: str) -> None:
    assert named in refused(corpus=corpus)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.yaml").write_bytes(b"# a\n" * 2**19)
    for name in ("nowhere.yaml", "pipe.yaml", "binary.yaml", "large.yaml", "NUL\0.yaml", ""):
        with pytest.raises(SettingsError) as caught:
            load_settings(PretrainingSettings, tmp_path / name)
        assert str(caught.value).isprintable() and name.replace("\0", " ") in str(caught.value)
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
    assert "run.yaml" in refused(corpus=text)
    if "\n" not in text:
        assert "the command line: 'output=" in refused("", f"output={text}")


def test_aliases_within_reason_are_read(load: Load) -> None:
    columns = "corpus: {source: &name [documents], leave_out_splits: *name}\n"
    assert load("", "corpus.source=papers", corpus=columns).corpus.leave_out_splits == ["documents"]


def test_settings_on_the_command_line_replace_those_of_the_file(load: Load) -> None:
    settings = load(
        "training: {epochs: 3, batch_size: 8}\nloss: {temperature: 0.5}",
        *("training.epochs=7", "loss={similarity: cosine}", "model.settings.pooling=mean", "output=there"),
        *("corpus.source=[a, b]", "training.max_steps=null", "training.learning_rate=5e-5"),
    )
    assert (settings.training.epochs, settings.training.batch_size, settings.training.learning_rate) == (7, 8, 5e-5)
    assert settings.loss == ContrastSettings(similarity="cosine")
    assert settings.model.settings == {"pooling": "mean"}
    assert settings.corpus.sources == ["a", "b"]
    assert settings.folder == Path("there")


@pytest.mark.parametrize("name", shipped_recipes())
def test_recipes_are_valid_and_survive_being_written(name: str, tmp_path: Path) -> None:
    command = "pretrain"
    if name not in shipped_recipes("pretrain"):
        text = shipped_recipes()[name].read_text(encoding="utf-8")
        (task,) = set(re.findall(r"(?:graphdoc finetune |finetune/)(\w+)(?: |\.py)", text))
        command = f"finetune {task}"
    kinds = kinds_of(command)
    settings = load_chosen(kinds, name)
    written = tmp_path / "written.yaml"
    written.write_text(yaml.safe_dump(settings.as_values()), encoding="utf-8")
    assert load_chosen(kinds, written) == settings
    # The settings of the model are checked against its configuration, which the files cannot see.
    DocumentConfig(**settings.model.settings)  # type: ignore[arg-type]


def test_recipes_and_example_documents_are_those_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = load_settings(PretrainingSettings, "quickstart").corpus.sources
    assert (Path(source) / "koji.md").is_file()
    with pytest.raises(SettingsError, match="quickstart"):
        load_settings(PretrainingSettings, "quickstrt")


def test_the_paper_for_classification_is_a_recipe() -> None:
    """Graph-RoBERTa, sections 2.2 and 3.2."""
    settings = load_settings(PretrainingSettings, "graph_roberta")
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
    settings = load_settings(PretrainingSettings, "graph_roberta_retrieval")
    assert (settings.split, settings.loss.directions, settings.training.batch_size) == ("one_passage", "one", 1024)


def test_the_paper_for_comparison_is_a_recipe() -> None:
    """CoLDE, sections 3 and 4.1.2."""
    settings = load_settings(ComparisonSettings, "colde")
    assert (settings.sections.number, settings.loss.kind, settings.loss.temperature) == (2, "contrastive", 0.5)
    assert (settings.model.start, settings.model.tune) == ("bert-base-uncased", "full")
    training = settings.training
    assert (training.batch_size, training.epochs, training.learning_rate) == (50, 25, 5e-5)
    assert (training.optimizer, training.weight_decay) == ("adamw", 0.01)
    config = DocumentConfig(**settings.model.settings)  # type: ignore[arg-type]
    assert (config.unit, config.passage_tokens, config.pooling) == ("chunk", 512, "cls")
    assert (config.structural_embeddings, config.projection_size, config.graph_layers) == (True, None, 0)
    assert (config.chunk_attention_heads, config.section_aggregation) == (4, "lstm")
    assert (2 * config.section_lstm_size, config.section_projection_size) == (512, 256)
    assert settings.corpus.leave_out_sections == ["Abstract"]


def test_the_papers_for_trained_retrieval_are_recipes() -> None:
    """Graph-RoBERTa, section 3.3."""
    names = ("robust04", "msmarco_doc", "wikir_title", "wikir_first_sentence")
    robust, msmarco, *wikir = (load_settings(RetrievalSettings, name) for name in names)
    assert (robust.negatives.per_query, robust.negatives.kind, robust.folds.number) == (8, "judged", 5)
    assert (robust.training.batch_size, robust.training.epochs) == (32, 10)
    assert (msmarco.training.batch_size, msmarco.training.epochs, msmarco.negatives.refresh) == (128, 10, 0.5)
    assert msmarco.validation.most_queries == 100
    assert {one.queries.text_column for one in wikir} == {"title", "first_sentence"}
    for one in wikir:
        assert (one.training.batch_size, one.training.epochs, one.training.learning_rate) == (128, 5, 2e-5)
    for one in (msmarco, *wikir):
        negatives = one.negatives
        assert (negatives.per_query, negatives.kind, negatives.lists, negatives.depth) == (1, "lists", "words", 100)
    for one in (robust, msmarco, *wikir):
        assert (one.loss.similarity, one.loss.temperature, one.similarity) == ("dot", 1.0, "dot")
        assert (one.training.optimizer, one.training.warmup, one.model.tune) == ("adam", 0.1, "full")


def test_the_paper_for_sentence_pairs_is_a_recipe() -> None:
    """SDR, sections 3.2 and 4.7."""
    settings = load_settings(SentencePairSettings, "sdr")
    assert (settings.model.start, settings.model.tune) == ("roberta-large", "full")
    loss = settings.loss
    assert (loss.margin, loss.mlm_weight, loss.contrast_weight, loss.contrast_on) == (1.0, 1.0, 1.0, "masked")
    training = settings.training
    assert (training.batch_size, training.epochs, training.optimizer, training.learning_rate) == (8, 50, "adamw", 2e-5)
    assert settings.pairs_per_epoch is None
    assert settings.evaluation.held_out == 0.1
    model = settings.model.settings
    assert (model["pooling"], model["projection_size"], model["graph_layers"]) == ("mean", None, 0)


def test_the_published_code_for_sentence_pairs_is_a_recipe() -> None:
    settings = load_settings(SentencePairSettings, "sdr_published")
    assert (settings.loss.contrast_weight, settings.loss.contrast_on) == (0.1, "clean")
    assert settings.pairs_per_epoch == 10_000 * 16
    assert settings.model.settings["passage_tokens"] == 64


def test_the_key_chooses_the_settings() -> None:
    kinds = kinds_of("pretrain")
    given = ("corpus.source=papers/", "recipe=sentence_pairs")
    assert type(load_chosen(kinds, overrides=given)) is SentencePairSettings
    for overrides in (given[:1], [given[0], "recipe=sub_documents"]):
        assert type(load_chosen(kinds, overrides=overrides)) is PretrainingSettings
    for overrides in ([*given, "split=half"], [given[0], "recipe=distil"]):
        with pytest.raises(SettingsError, match=r"split|distil"):
            load_chosen(kinds, overrides=overrides)


def test_first_sentences_that_are_queries_leave_their_documents() -> None:
    made = RetrievalSettings(corpus={"source": "papers"}, queries={"made_from": ["first_sentences"]})
    assert made.corpus.leave_out_first_sentence
    made = RetrievalSettings(corpus={"source": "papers"}, queries={"made_from": ["titles"]})
    assert not made.corpus.leave_out_first_sentence


@pytest.mark.parametrize(
    ("output", "cache", "key"), [("documents/run", "cache", "output"), ("run", "documents/cache", "corpus.cache")]
)
def test_a_run_writes_nothing_among_its_documents(tmp_path: Path, output: str, cache: str, key: str) -> None:
    (tmp_path / "documents").mkdir()
    corpus = {"source": str(tmp_path / "documents"), "cache": str(tmp_path / cache)}
    with pytest.raises(SettingsError) as caught:
        PretrainingSettings(corpus=corpus, output=str(tmp_path / output))
    assert str(caught.value).startswith(f"{key}=") and str(tmp_path / "documents") in str(caught.value)


def test_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("GRAPHDOC_CACHE", raising=False)
    assert output_folder("~/runs/1") == Path("/home/somebody/runs/1")
    assert output_folder("~nobody-of-that-name/run") == Path("~nobody-of-that-name/run")
    assert CorpusSettings(source="a").corpora_folder == Path("/home/somebody/.cache/graphdoc/corpora")
    monkeypatch.setenv("GRAPHDOC_CACHE", "/large")
    assert CorpusSettings(source="a").corpora_folder == Path("/large/corpora")
    assert CorpusSettings(source="a", cache="~/own").corpora_folder == Path("/home/somebody/own/corpora")


def test_processes_that_stream_share_the_cores_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert CorpusSettings(source="a").processes == 8
    assert CorpusSettings(source="a", streaming=True).processes == 2
    assert CorpusSettings(source="a", streaming=True, preparing_processes=5).processes == 5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("graph_kind", "star"), ("pooling", "max"), ("similarity", 3), ("unit", "word")),
        *(("passage_words", 0), ("passage_words", "3"), ("passage_words", 2.0), ("passage_words", 10**12)),
        *(("graph_layers", True), ("graph_heads", None), ("projection_size", 10**8), ("max_passages", 0)),
        *(("attention_dropout", 1.0), ("attention_dropout", float("nan")), ("normalize_passages", "no")),
        *(("labels", "rice"), ("labels", ["rice"]), ("labels", ["a", " a"]), ("language", 3), ("graph_layer", 2)),
    ],
)
def test_settings_of_a_model_are_checked_one_by_one(key: str, value: Any) -> None:
    with pytest.raises(SettingsError) as error:
        DocumentSettings(**{key: value})
    assert str(error.value).startswith(key) and "\n" not in str(error.value)


def test_labels_are_put_on_one_line() -> None:
    assert DocumentSettings(labels=["a\nb", " c "]).labels == ["a b", "c"]
    assert DocumentSettings(labels=["spam"], multi_label=True).labels == ["spam"]


def test_the_schema_names_bounds_and_choices() -> None:
    properties = DocumentSettings.model_json_schema()["properties"]
    assert set(properties) == set(setting_names())
    assert properties["graph_layers"]["maximum"] == 100
    assert properties["readout"]["enum"] == list(READOUTS)
    assert properties["graph_kind"]["enum"] == list(GRAPH_KINDS)
    # Descriptions are those of the docstring.
    for name, described in properties.items():
        for choice in described.get("enum", []):
            assert f"``{choice}``" in described["description"], f"{name} does not explain {choice}"


def test_settings_import_no_torch() -> None:
    check = "import sys, graphdoc.settings.views; print({'torch', 'transformers'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout
    assert shown == "set()\n"
