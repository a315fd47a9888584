"""graphdoc compare with three documents or more, and its figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder

Command = Callable[..., Any]


@pytest.fixture
def three(two: tuple[Path, Path], tmp_path: Path) -> list[Path]:
    third = tmp_path / "c.md"
    third.write_text("# Clocks\n\nTwo clocks never agree.\n\n## Tides\n\nThe tide came over the wall.\n")
    return [*two, third]


def test_one_command_draws_three_documents(graphdoc: Command, three: list[Path], model: str, tmp_path: Path) -> None:
    status, out, err = graphdoc("compare", *three, "--model", model, "--figure", "new/levels.png")
    assert (status, err) == (0, "")
    assert (tmp_path / "new" / "levels.png").read_bytes().startswith(b"\x89PNG")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:3] == ["D1 Rice and mould [a]", "D2 Vinegar & air [b]", "D3 Clocks [c]"]
    assert lines[-1] == "wrote new/levels.png"
    encoder = DocumentEncoder.from_pretrained(model, device="cpu")
    for names, i, j in (("D1 D2", 0, 1), ("D1 D3", 0, 2), ("D2 D3", 1, 2)):
        two = encoder.compare(*(Document.from_file(three[k]) for k in (i, j)))
        (line,) = [line for line in lines if line.startswith(f"{names} ")]
        assert line.split()[2] == f"{two.document:.3f}" and line.endswith(f"{two.sections.max():.3f}")
    assert any(line.startswith("D3: 2 passages, ") for line in lines)


def test_two_documents_have_a_figure_beside_their_other_outputs(
    graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path
) -> None:
    status, out, err = graphdoc("compare", *two, "--model", model, "--figure", "f.svg", "--html", "r.html")
    assert (status, err) == (0, "")
    assert out.endswith("wrote r.html\nwrote f.svg\n")
    assert (tmp_path / "f.svg").read_bytes().startswith(b"<?xml")


def test_refusals(refused: Command, three: list[Path], model: str) -> None:
    def line(*arguments: str | Path) -> str:
        return refused("compare", *arguments, "--model", model).removeprefix("graphdoc compare: ")

    a, b, c = three
    assert line(a, "--figure", "f.png") == "--figure shows 2 documents and more, not 1; name another, or use --plot"
    for option in (["--sentences"], ["--level", "section"], ["--subtopics"]):
        assert line(a, b, c, *option) == f"{option[0]} is for two documents, not 3; leave it out, or name two"
    assert "has no image suffix" in line(a, b, c, "--figure", "f.gif")
    assert "is read, and would be replaced" in line(a, b, c, "--figure", c)
    assert "is read, and would be replaced" in line(a, b, "--figure", b)
    assert line(a, b, "--figure", "-").startswith("--figure cannot go to standard output")
    assert "is given for two outputs" in line(a, b, "--figure", "f.png", "--plot", "f.png")
    assert line("-", a, "-").startswith("standard input can be read only once")
