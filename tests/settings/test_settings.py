"""Settings from files and the command line: defaults, what is refused and how it is named, and the papers' configs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typed import Patch

from graphdoc.errors import SettingsError
from graphdoc.modeling import DocumentConfig
from graphdoc.registry import GRAPH_KINDS, READOUTS
from graphdoc.registry import load as load_target
from graphdoc.settings.document import DocumentSettings, setting_names
from graphdoc.settings.finetuning import (
    ClassificationSettings,
    ComparisonSettings,
    RetrievalSettings,
    SubtopicRunSettings,
    ViewRunSettings,
)
from graphdoc.settings.loading import kinds_of, load_chosen, load_settings, shipped_configs
from graphdoc.settings.pretraining import SentencePairSettings, SubDocumentLossSettings, SubDocumentSettings
from graphdoc.settings.run import CorpusSettings, RunSettings

CORPUS = "corpus: {source: documents}\n"
Load = Callable[..., SubDocumentSettings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Reads settings from a text, by default with a corpus: ``load("split: half", "training.epochs=3")``."""

    def run(text: str = "", *overrides: str, corpus: str = CORPUS) -> SubDocumentSettings:
        path = tmp_path / "run.yaml"
        path.write_text(corpus + text, encoding="utf-8")
        return load_settings(SubDocumentSettings, path, overrides)

    return run


def unfolding(first: str, line: str) -> str:
    """A file whose lines each stand for ten of the line before."""
    lines = [line.format(n=n, tens=", ".join([f"*a{n - 1}"] * 10)) for n in range(1, 12)]
    return "\n".join([f"a0: &a0 {first}", *lines])


# Files that cannot be used, and what is named beside the file.
BAD_FILES = [
    ("", "corpus.source"),
    ("corpus: {source: a, dataset: b}", "corpus.source='a'"),
    ("corpus: {source: '-'}", "corpus.source='-'"),
    ("corpus: {source: a, columns: {text: 3}}", "corpus.columns.text=3"),
    ("corpus: []", "corpus=[]"),
    ("a: b: c", ""),
    ("- a", ""),
    ("output: a\noutput: b", "output"),
    ("? [a, b]\n: c", ""),
    (CORPUS + "training: {fp16: true}", "--mixed_precision"),
    (CORPUS + "training: {batchsize: 3}", "training.batch_size?"),
    (CORPUS + "loss: {zzz: 3}", "temperature, similarity"),
    (CORPUS + "model: {settings: {graph_layer: 1}}", "graph_layers?"),
    # They unfold without end.
    (unfolding("[x, x, x, x, x, x, x, x, x, x]", "a{n}: &a{n} [{tens}]"), ""),
    (unfolding("{x: 1, y: 2}", "a{n}: &a{n} {{<<: [{tens}], k{n}: 1}}"), ""),
    (f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]", ""),
    ("a: &a {<<: *a}", ""),
    ("[" * 2000, ""),
]


@pytest.mark.parametrize(("text", "named"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_file_that_cannot_be_used_is_named(load: Load, text: str, named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(corpus=text)
    message = str(caught.value)
    assert "run.yaml" in message and named in message and message.isprintable() and len(message) < 1000


# What the command line gives, and what the message names; most of it could stand in a file as well.
BAD_VALUES = [
    ("training.batch_size='3'", "training.batch_size='3'"),
    ("training.batch_size=1", "training.batch_size=1"),
    ("training.learning_rate=.nan", "training.learning_rate=nan"),
    ("loss=null", "loss=null"),
    ("output='  '", "output="),
    ("model.tune=frozn", "model.tune='frozn'"),
    ("model.settings.graph_kind=star", "model.settings.graph_kind='star'"),
    ("model.settings.labels=[a, b]", "model.settings.labels"),
    ("model.store=updates", "model.store='updates'"),
    ("corpus.columns.txt=b", "corpus.columns.txt"),
    ("corpus.streaming=true", "corpus.streaming=true"),
    ("corpus.least_passages=1", "corpus.least_passages=1"),
    ("validation.best=nmi", "validation.best='nmi'"),
    ("epochs", "'epochs'"),
    ("=3", "'=3'"),
    ("output=", "output"),
    ("output=[a", "'output=[a'"),
    ("output=!!python/object/apply:os.system [ls]", "output"),
]


@pytest.mark.parametrize(("override", "named"), BAD_VALUES, ids=[override for override, _ in BAD_VALUES])
def test_a_wrong_value_is_named_with_its_key_and_its_place(load: Load, override: str, named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load("", override)
    assert named in str(caught.value) and str(caught.value).isprintable()
    key, _, text = override.partition("=")
    first, *inner = key.split(".")
    if first in ("training", "loss", "model"):
        assert str(caught.value).startswith("the command line: ")
        for name in reversed(inner):
            text = f"{{{name}: {text}}}"
        with pytest.raises(SettingsError) as caught:
            load(f"{first}: {text}")
        assert "run.yaml: " in str(caught.value) and named in str(caught.value)


def test_settings_of_tasks_that_would_train_something_else_are_refused() -> None:
    corpus, pairs = {"source": "a"}, {"file": "pairs.tsv"}
    for kind, values, named in [
        (ComparisonSettings, {"loss": {"kind": "cosine"}}, "loss.kind='cosine'"),
        (ComparisonSettings, {"groups": {"by": "links"}}, "groups.by='links'"),
        (RetrievalSettings, {}, "queries.source"),
        (RetrievalSettings, {"queries": {"source": "q", "made_from": ["titles"]}}, "queries.source='q'"),
        (SentencePairSettings, {"model": {"tune": "frozen"}}, "model.tune='frozen'"),
        (SentencePairSettings, {"loss": {"contrast_weight": 0.0, "mlm_weight": 0.0}}, "loss.mlm_weight=0"),
        (SentencePairSettings, {"pairs_per_epoch": 3}, "pairs_per_epoch=3"),
        (SentencePairSettings, {"validation": {"best": "accuracy"}}, "validation.best='accuracy'"),
        (SentencePairSettings, {"validation": {"best": "masked_loss"}, "loss": {"mlm_weight": 0.0}}, "validation.best"),
        (SubtopicRunSettings, {"pairs": pairs, "model": {"tune": "full"}}, "model.tune='full'"),
        (SubtopicRunSettings, {}, "pairs.file"),
        (ViewRunSettings, {}, "pairs.file"),
        (ViewRunSettings, {"pairs": {"qrels": "a"}}, "pairs.run"),
        (ViewRunSettings, {"pairs": pairs, "loss": {"kind": "cosine"}}, "loss.kind='cosine'"),
        (ViewRunSettings, {"pairs": pairs, "pool_range": 3}, "pool_range=3"),
    ]:
        with pytest.raises(SettingsError) as caught:
            kind(corpus=corpus, **values)
        assert str(caught.value).startswith(named), caught.value


def test_defaults_of_a_recipe_lie_below_what_is_given() -> None:
    settings = SentencePairSettings(corpus=CorpusSettings(source="a", max_passages=7), training={"epochs": 3.0})
    assert (settings.corpus.max_passages, settings.corpus.deduplicate) == (7, True)
    assert (settings.training.epochs, settings.training.batch_size) == (3, 8)
    documents = ["in hand"]
    held = settings.replace(corpus=CorpusSettings(source="a").with_documents(documents))
    assert held.corpus.in_memory is documents and held.corpus.max_passages == 1000


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.yaml").write_bytes(b"# a\n" * 2**19)
    for name in ("nowhere.yaml", "pipe.yaml", "binary.yaml", "large.yaml"):
        with pytest.raises(SettingsError) as caught:
            load_settings(SubDocumentSettings, tmp_path / name)
        assert str(caught.value).isprintable() and name in str(caught.value)
    with pytest.raises(SettingsError, match="/dev/zero"):
        load_settings(SubDocumentSettings, "/dev/zero")


def test_settings_on_the_command_line_replace_those_of_the_file(load: Load) -> None:
    settings = load(
        "training: {epochs: 3, batch_size: 8}\nloss: {temperature: 0.5}",
        *("training.epochs=7", "loss={similarity: cosine}", "model.settings.pooling=mean", "output=there"),
        *("corpus.source=[a, b]", "training.max_steps=null", "training.learning_rate=5e-5"),
    )
    assert (settings.training.epochs, settings.training.batch_size, settings.training.learning_rate) == (7, 8, 5e-5)
    assert settings.loss == SubDocumentLossSettings(similarity="cosine")
    assert settings.model.settings == {"pooling": "mean"}
    assert settings.corpus.sources == ["a", "b"]
    assert settings.folder == Path("there")


@pytest.mark.parametrize("name", shipped_configs())
def test_configs_are_valid_and_survive_being_written(name: str, tmp_path: Path) -> None:
    command = "pretrain"
    if name not in shipped_configs("pretrain"):
        text = shipped_configs()[name].read_text(encoding="utf-8")
        (task,) = set(re.findall(r"(?:graphdoc finetune |finetune/)(\w+)(?: |\.py)", text))
        command = f"finetune {task}"
    kinds = kinds_of(command)
    settings = load_chosen(kinds, name)
    written = tmp_path / "written.yaml"
    written.write_text(yaml.safe_dump(settings.as_values()), encoding="utf-8")
    assert load_chosen(kinds, written) == settings
    # The settings of the model are checked against its configuration, which the files cannot see.
    DocumentConfig(**settings.model.settings)  # type: ignore[arg-type]


def test_configs_and_example_documents_are_those_of_the_package(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart").mkdir()
    (source,) = load_settings(SubDocumentSettings, "quickstart").corpus.sources
    assert (Path(source) / "koji.md").is_file()
    # Other folders are the user's own, also where the package has one of that name.
    assert load_settings(SubDocumentSettings, "own_corpus").corpus.sources == ["documents/"]
    with pytest.raises(SettingsError, match="quickstart"):
        load_settings(SubDocumentSettings, "quickstrt")


# What a paper says (Graph-RoBERTa, 2.2 to 3.3, table 6; CoLDE, 3 and 4.1.2; SDR, 3.2 and 4.7; SST, B.1), by config.
PAPERS: dict[str, tuple[type[RunSettings], dict[str, Any]]] = {
    "graph_roberta": (SubDocumentSettings, {
        "split": "half", "loss": {"similarity": "dot", "temperature": 1.0, "directions": "both"},
        "training": {"batch_size": 1536, "epochs": 10, "max_steps": None, "learning_rate": 5e-5,
                     "encoder_learning_rate": None, "warmup_steps": 0.1, "weight_decay": 0.0},
        "corpus": {"max_passages": 50, "dataset": "Skylion007/openwebtext", "revision": "refs/convert/parquet"},
        "model": {"start": "roberta-base", "tune": "full", "settings": {
            "projection_size": 512, "graph_layers": 2, "graph_heads": 2, "pooling": "cls", "graph_kind": "full",
            "readout": "document_node"}},
    }),
    "graph_roberta_retrieval": (SubDocumentSettings, {
        "split": "one_passage", "loss": {"directions": "one"}, "training": {"batch_size": 1024},
    }),
    "colde": (ComparisonSettings, {
        "sections": {"number": 2}, "loss": {"kind": "contrastive", "temperature": 0.5},
        "corpus": {"leave_out_sections": ["Abstract", "References"]},
        "training": {"batch_size": 50, "epochs": 25, "learning_rate": 5e-5,
                     "weight_decay": 0.01},
        "model": {"start": "bert-base-uncased", "tune": "full", "settings": {
            "unit": "chunk", "passage_tokens": 512, "pooling": "cls", "structural_embeddings": True,
            "projection_size": None, "graph_layers": 0, "readout_settings": {
                "chunk_attention_heads": 4, "section_aggregation": "lstm",
                "section_lstm_size": 256, "section_projection_size": 256}}},
    }),
    "robust04": (RetrievalSettings, {
        "negatives": {"per_query": 8, "kind": "random"}, "folds": {"number": 5}, "similarity": "dot",
        "training": {"batch_size": 32, "epochs": 10, "warmup_steps": 0.1},
    }),
    "msmarco_doc": (RetrievalSettings, {
        "negatives": {"per_query": 1, "kind": "words", "depth": 100, "refresh": 0.5}, "similarity": "dot",
        "training": {"batch_size": 128, "epochs": 10}, "validation": {"most_queries": 100},
    }),
    **{f"wikir_{form}": (RetrievalSettings, {
        "queries": {"text_column": form}, "negatives": {"per_query": 1, "kind": "words", "depth": 100},
        "training": {"batch_size": 128, "epochs": 5, "learning_rate": 2e-5}, "similarity": "dot",
    }) for form in ("title", "first_sentence")},
    **{name: (ClassificationSettings, {"training": {
        "batch_size": 32, "epochs": epochs, "learning_rate": rate, "warmup_steps": 0.1, "weight_decay": 0.01,
    }}) for name, epochs, rate in (("arxiv", 20, 1e-4), ("newsgroups20", 20, 5e-5), ("imdb", 20, 5e-5),
                                   ("hyperpartisan", 15, 3e-5))},
    **{f"sst_{name}": (ViewRunSettings, {
        "training": {"learning_rate": 1e-5, "weight_decay": 0.0, "lr_scheduler_type": "linear"},
        "pairs": {"depth": depth, "qrels": qrels},
        "views": {"receptive_field": 40, "cluster_size": 6, "views": 3, "view_tokens": tokens, "encoder": encoder},
    }) for name, encoder, tokens, depth, qrels in (("cnse", "cross", 256, 40, None), ("cnss", "cross", 256, 40, None),
        ("lecardv2", "dual", 512, 40, "lecardv2/train.tsv"), ("coliee", "dual", 512, 20, "coliee/qrels.tsv"))},
    "sdr": (SentencePairSettings, {
        "loss": {"margin": 1.0, "mlm_weight": 1.0, "contrast_weight": 1.0, "contrast_on": "masked"},
        "training": {"batch_size": 8, "epochs": 50, "learning_rate": 2e-5},
        "pairs_per_epoch": 10_000 * 8, "validation": {"share": 0.1},
        "model": {"start": "roberta-large", "tune": "full", "settings": {
            "pooling": "mean", "projection_size": None, "graph_layers": 0}},
    }),
    "sdr_published": (SentencePairSettings, {
        "loss": {"contrast_weight": 0.1, "contrast_on": "clean"}, "pairs_per_epoch": 10_000 * 16,
        "model": {"settings": {"passage_tokens": 64}},
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_is_a_config(name: str) -> None:
    kind, wanted = PAPERS[name]

    def compare(settings: Any, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            found = settings[key] if isinstance(settings, dict) else getattr(settings, key)
            if isinstance(value, dict):
                compare(found, value)
            else:
                assert found == value, key

    compare(load_settings(kind, name), wanted)


def test_the_key_chooses_the_settings() -> None:
    kinds = kinds_of("pretrain")
    given = ("corpus.source=papers/", "recipe=sentence_pairs")
    assert type(load_chosen(kinds, overrides=given)) is SentencePairSettings
    for overrides in (given[:1], [given[0], "recipe=sub_documents"]):
        assert type(load_chosen(kinds, overrides=overrides)) is SubDocumentSettings
    for overrides in ([*given, "split=half"], [given[0], "recipe=distil"]):
        with pytest.raises(SettingsError, match=r"split|distil"):
            load_chosen(kinds, overrides=overrides)


@pytest.mark.parametrize(
    ("output", "cache", "key"), [("documents/run", "cache", "output"), ("run", "documents/cache", "corpus.cache")]
)
def test_a_run_writes_nothing_among_its_documents(tmp_path: Path, output: str, cache: str, key: str) -> None:
    (tmp_path / "documents").mkdir()
    corpus = {"source": str(tmp_path / "documents"), "cache": str(tmp_path / cache)}
    with pytest.raises(SettingsError) as caught:
        SubDocumentSettings(corpus=corpus, output=str(tmp_path / output))
    assert str(caught.value).startswith(f"{key}=") and str(tmp_path / "documents") in str(caught.value)


def test_what_a_setting_brings_with_it(monkeypatch: Patch) -> None:
    # First sentences that are queries leave their documents.
    for made_from in ("first_sentences", "titles"):
        settings = RetrievalSettings(corpus={"source": "papers"}, queries={"made_from": [made_from]})
        assert settings.leaves_out_first_sentence == (made_from == "first_sentences")
    # Processes that stream share the cores of a machine.
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert CorpusSettings(source="a").processes == 8
    assert CorpusSettings(source="a", streaming=True).processes == 2
    assert CorpusSettings(source="a", streaming=True, preparing_processes=5).processes == 5


def test_settings_of_a_model_are_checked_one_by_one() -> None:
    for key, value in (
        *(("pooling", "max"), ("unit", "word"), ("passage_words", 0), ("passage_words", 2.0), ("graph_layers", True)),
        *(("projection_size", 10**8), ("lexical_weight", float("nan")), ("graph_layer", 2)),
    ):
        with pytest.raises(SettingsError) as error:
            DocumentSettings(**{key: value})
        assert str(error.value).startswith(key)


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


def test_a_library_that_a_part_needs_is_not_taken_for_it(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "own_part.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as raised:
        load_target("own_part:train")
    assert raised.value.name == "no_such_library"
