from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typed import Encoders, Folders, Output, Patch

from graphdoc.cli import main


class Run(NamedTuple):
    """What a run of the command line gave."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def model(tiny_encoder: Encoders, tmp_path_factory: Folders) -> str:
    """Folder of a tiny checkpoint with two graph layers of two heads and attention readout."""
    encoder = tiny_encoder("bert", graph_kind="section", readout="attention", trained=True, max_passages=30)
    return str(encoder.save_pretrained(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture
def graphdoc(capsys: Output, monkeypatch: Patch, tmp_path: Path) -> Callable[..., Run]:
    """Runs the command line in a folder of its own: ``graphdoc("compare", "a.md", stdin=b"text")``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    def run(*arguments: str | Path, stdin: bytes = b"") -> Run:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        try:
            status: int | str | None = main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code
        assert isinstance(status, int | None)
        return Run(status or 0, *capsys.readouterr())

    return run


@pytest.fixture
def refused(graphdoc: Callable[..., Run], tmp_path: Path) -> Callable[..., str]:
    """Runs the command line, expects that it refuses in one line and writes nothing, and gives the line."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> str:
        before = sorted(tmp_path.rglob("*"))
        status, out, err = graphdoc(*arguments, stdin=stdin)
        assert status == 2, (out, err)
        assert out == ""
        assert err.startswith("graphdoc")
        assert err.endswith("\n")
        assert len(err.splitlines()) == 1, err
        assert "Traceback" not in err
        assert err[:-1].isprintable()
        assert sorted(tmp_path.rglob("*")) == before
        return err[:-1]

    return run


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two small documents with nested sections."""
    a, b = tmp_path / "a.md", tmp_path / "b.html"
    a.write_text(
        "# Rice and mould\n\nRice is polished, soaked and steamed.\n\n## Steaming\n\nThe grains must stay whole. "
        "They are spread on a table in a warm room.\n\n### By night\n\nSomebody turns the grains by hand until "
        "morning comes.\n",
        encoding="utf-8",
    )
    b.write_text(
        "<html><head><title>Vinegar &amp; air</title></head><body><h1>Vinegar &amp; air</h1><p>Vinegar needs air.</p>"
        "<h2>Casks</h2><p>Bacteria form a skin in the barrel. Nobody may disturb it for weeks.</p></body></html>",
        encoding="utf-8",
    )
    return a, b


@pytest.fixture(scope="session")
def classifiers(tiny_classifier: Encoders, tmp_path_factory: Folders) -> Callable[..., str]:
    """Makes folders of tiny checkpoints with a head: ``classifiers(multi_label=True)``."""

    @cache
    def make(**settings: Any) -> str:
        encoder = tiny_classifier(**{"readout": "mean", **settings})
        return str(encoder.save_pretrained(tmp_path_factory.mktemp("classifiers") / "topics"))

    return make
