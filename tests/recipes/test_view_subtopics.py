"""Models by which the subtopics of views are found: read in training, and part of what a run leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from view_examples import data_of, documents, finetune_views, pool_of, view_overrides

from graphdoc import DocumentEncoder
from graphdoc.checkpoints.contents import SUBTOPIC_FOLDER
from graphdoc.corpus import view_pool
from graphdoc.errors import ModelError, OutputError
from graphdoc.inference.learned_subtopics import AdaptiveSubtopics
from graphdoc.settings.document import ClusteringSettings

EncoderFactory = Callable[..., DocumentEncoder]


@pytest.fixture
def overrides(backbone_folder: Callable[[str], Path], tmp_path: Path) -> list[str]:
    """Settings of a quick run."""
    return view_overrides(tmp_path, backbone_folder("bert"))


@pytest.fixture
def finetune(overrides: list[str], tmp_path: Path) -> Callable[..., int]:
    """Runs the command."""
    return finetune_views(tmp_path, overrides)


@pytest.fixture
def learned(tmp_path: Path, tiny_encoder: EncoderFactory) -> Path:
    """A folder of a model with a head for subtopics."""
    source = tiny_encoder("roberta", projection_size=None, graph_layers=1, readout="initial_mean", pooling="mean")
    source.model.add_subtopic_head(ClusteringSettings(columns=6, neighbours=5, receptive_field=12, cluster_size=4))
    return source.save_pretrained(tmp_path / "learned")


def texts() -> list[str]:
    """Two documents."""
    return [" ".join(row["sections"]) for row in documents()[:2]]


def test_views_are_drawn_by_learned_subtopics(
    overrides: list[str], learned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Many pairs are drawn by forked processes, into which no model goes.
    monkeypatch.setattr(view_pool, "MANY_PAIRS", 1)
    options = ("views.subtopics=adaptive", f"views.subtopic_model={learned}", "corpus.preparing_processes=2")
    data = data_of(overrides, *options)
    pool, rows = pool_of(data), data.pairs.rows
    found = dict(data._texts_of(np.unique(rows)))
    finder = AdaptiveSubtopics.make("en", learned)
    for pair in (0, 9):
        first, second = (finder.features(found[row][:12]) for row in rows[pair].tolist())
        expected = finder.find(first, second, cluster_size=4)
        np.testing.assert_array_equal(pool.subtopics(pair).clusters, expected.clusters)
    assert len({pool.subtopics(pair).number for pair in range(28)} | {2}) > 1


def test_another_model_of_subtopics_has_another_pool(
    overrides: list[str], learned: Path, tmp_path: Path, tiny_encoder: EncoderFactory
) -> None:
    other = tiny_encoder(
        "roberta", projection_size=None, graph_layers=1, readout="initial_mean", pooling="mean", seed=3
    )
    other.model.add_subtopic_head(ClusteringSettings(columns=6, neighbours=5, receptive_field=12, cluster_size=4))
    moved = shutil.copytree(learned, tmp_path / "moved")
    folders = [
        pool_of(data_of(overrides, "views.subtopics=adaptive", f"views.subtopic_model={one}")).folder
        for one in (learned, moved, other.save_pretrained(tmp_path / "other"))
    ]
    assert folders[0] == folders[1] != folders[2]


@pytest.mark.parametrize("way", ["adaptive", "vectors"])
def test_the_model_of_subtopics_is_in_the_checkpoint(
    finetune: Callable[..., int], learned: Path, tmp_path: Path, way: str
) -> None:
    assert finetune("run", f"views.subtopics={way}", f"views.subtopic_model={learned}", "training.save_steps=4") == 0
    folder = tmp_path / "run" / "model"
    encoder = DocumentEncoder.from_pretrained(folder, device="cpu")
    first, second = texts()
    expected = encoder.match(first, second)
    assert expected.subtopics.number > 1
    # Nothing outside the checkpoint is read.
    shutil.rmtree(learned)
    moved = folder.rename(tmp_path / "moved")
    again = DocumentEncoder.from_pretrained(moved, device="cpu")
    assert again.match(first, second).to_dict()["views"] == expected.to_dict()["views"]
    # It goes along where the model is saved again, over itself too.
    saved = again.save_pretrained(tmp_path / "saved")
    shutil.rmtree(moved)
    saved_again = DocumentEncoder.from_pretrained(saved, device="cpu")
    saved_again.save_pretrained(saved)
    assert DocumentEncoder.from_pretrained(saved, device="cpu").match(first, second).score == expected.score
    assert sorted((saved / SUBTOPIC_FOLDER).glob("*.safetensors"))
    # Checkpoints of a run are checkpoints like others.
    (last,) = (tmp_path / "run").glob("checkpoint-8")
    assert DocumentEncoder.from_pretrained(last, device="cpu").match(first, second).score == expected.score


def test_a_model_saved_over_one_leaves_no_model_of_subtopics_behind(
    finetune: Callable[..., int], learned: Path, tmp_path: Path, tiny_encoder: EncoderFactory
) -> None:
    assert finetune("run", "views.subtopics=adaptive", f"views.subtopic_model={learned}") == 0
    folder = tmp_path / "run" / "model"
    tiny_encoder("roberta").save_pretrained(folder)
    assert not (folder / SUBTOPIC_FOLDER).exists()
    # A folder of that name which holds something else stays.
    (folder / SUBTOPIC_FOLDER).mkdir()
    (folder / SUBTOPIC_FOLDER / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=SUBTOPIC_FOLDER):
        tiny_encoder("roberta").save_pretrained(folder)
    assert (folder / SUBTOPIC_FOLDER / "notes.txt").read_text() == "mine"


def test_a_checkpoint_of_an_earlier_version_names_its_model(
    finetune: Callable[..., int], learned: Path, tmp_path: Path
) -> None:
    assert finetune("run", "views.subtopics=vectors", f"views.subtopic_model={learned}") == 0
    folder = tmp_path / "run" / "model"
    expected = DocumentEncoder.from_pretrained(folder, device="cpu").match(*texts()).score
    shutil.rmtree(folder / SUBTOPIC_FOLDER)
    assert DocumentEncoder.from_pretrained(folder, device="cpu").match(*texts()).score == expected
    shutil.rmtree(learned)
    with pytest.raises(ModelError, match="learned"):
        DocumentEncoder.from_pretrained(folder, device="cpu").match(*texts())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["views.subtopics=adaptive"], ["subtopics='adaptive'", "graphdoc finetune subtopics"]),
        (["views.subtopics=adaptive", "views.subtopic_model=mini"], ["mini", "graphdoc finetune subtopics"]),
        (["views.subtopics=adaptive", "views.subtopic_model=nowhere/"], ["nowhere"]),
    ],
)
def test_what_knows_no_subtopics_is_refused(
    finetune: Callable[..., int], capsys: pytest.CaptureFixture[str], options: list[str], words: list[str]
) -> None:
    assert finetune("run", *options) == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert all(word in message for word in words), message
