"""graphdoc compare with subtopics that a model has learned."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphdoc import DocumentEncoder
from graphdoc.cli import main
from graphdoc.settings.clustering import ClusteringSettings


@pytest.fixture
def model(backbone_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A folder with a model whose head for subtopics is drawn."""
    encoder = DocumentEncoder.from_backbone(
        backbone_folder("bert"), device="cpu", pooling="mean", projection_size=None, graph_layers=1,
        readout="initial_mean", unit="sentence",
    )  # fmt: skip
    torch.manual_seed(0)
    encoder.model.add_subtopic_head(ClusteringSettings(columns=4, receptive_field=6, cluster_size=3))
    return encoder.save_pretrained(tmp_path / "model")


@pytest.fixture
def compare(model: Path, tmp_path: Path) -> Callable[..., int]:
    """Compares two short documents by the drawn model itself: ``compare("--maps", "x.png")``."""
    (tmp_path / "a.md").write_text(
        "Rice is steamed. Koji grows on it. Malt is sweet. Brine is salt.", encoding="utf-8"
    )
    (tmp_path / "b.md").write_text("Tides rise. The sea floods. A dike holds.", encoding="utf-8")

    def run(*options: str, names: tuple[str, ...] = ("a.md", "b.md")) -> int:
        documents = [str(tmp_path / name) for name in names]
        return main(["compare", *documents, "--model", str(model), "--device", "cpu", *options])

    return run


def test_subtopics_of_a_model_in_table_data_report_and_maps(
    compare: Callable[..., int], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("maps.png", "out.json", "report.html")]
    options = [
        value
        for file, option in zip(files, ("--maps", "--json", "--html"), strict=True)
        for value in (option, str(file))
    ]
    assert compare("--subtopics", "adaptive", "--subtopic-model", str(model), "--cluster-size", "2", *options) == 0
    assert "subtopics (adaptive)" in capsys.readouterr().out
    assert files[0].read_bytes().startswith(b"\x89PNG")
    found = json.loads(files[1].read_text(encoding="utf-8"))["subtopics"]
    assert (found["by"], len(found["a"]), len(found["b"])) == ("adaptive", 4, 3)
    assert "what a model has learned" in files[2].read_text(encoding="utf-8")


def test_one_document_has_subtopics_too(compare: Callable[..., int], model: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    options = ("--subtopics", "adaptive", "--subtopic-model", str(model), "--json", str(path))
    assert compare(*options, names=("a.md",)) == 0
    assert len(json.loads(path.read_text(encoding="utf-8"))["subtopics"]["a"]) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--subtopics", "adaptive"], ["--subtopic-model", "finetune subtopics"]),
        (["--subtopic-model", "{model}"], ["--subtopic-model", "--subtopics"]),
        (["--subtopics", "words", "--subtopic-model", "{model}"], ["subtopic_model", "subtopics='words'"]),
        (["--subtopics", "adaptive", "--subtopic-model", "nowhere"], ["nowhere"]),
        (["--maps", "maps.png"], ["--maps", "--subtopic-model"]),
        (["--subtopics", "adaptive", "--subtopic-model", "{model}", "--maps", "maps.txt"], ["maps.txt"]),
        (["--subtopics", "adaptive", "--subtopic-model", "mini"], ["mini", "finetune subtopics"]),
    ],
)
def test_what_has_no_subtopics_is_refused(
    compare: Callable[..., int], model: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: list[str]
) -> None:
    assert compare(*(option.format(model=model) for option in options)) == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert all(word in message for word in words), message
