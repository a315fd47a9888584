"""How commands read documents: columns, what is skipped, what repeats, and languages."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc import Document, DocumentEncoder
from graphdoc.commands.output import Table, Terminal, names
from graphdoc.commands.sources import noting_languages

Command = Callable[..., Any]
GERMAN = (
    "Die Flut steigt zweimal am Tag, und der Mond zieht das Meer zu sich heran, wie alle an der Küste wissen. " * 3
)
ENGLISH = "The tide rises twice a day, and the moon pulls the sea towards itself, as all on the coast know well. " * 3


def test_what_a_folder_holds_is_skipped_and_what_is_named_is_not(
    graphdoc: Command, refused: Command, tmp_path: Path, model: str
) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    for name, text in {"a.txt": "Rice.", "b.txt": "Tea.", "empty.md": "", "zero.txt": "\u200b"}.items():
        (folder / name).write_text(text, encoding="utf-8")
    status, out, _ = graphdoc("encode", folder, "--model", model)
    assert status == 0 and "2 documents read, 2 skipped" in out and "empty.md" in out and "zero" in out
    assert "empty.md" in refused("encode", folder / "a.txt", folder / "empty.md", "--model", model)
    assert "empty.md" in refused("encode", folder, "--model", model, "--on-error", "stop")
    assert (
        graphdoc("encode", folder / "a.txt", folder / "empty.md", "--model", model, "--on-error", "skip").status == 0
    )


def test_ids_are_made_and_counted(graphdoc: Command, tmp_path: Path, model: str) -> None:
    (tmp_path / "c.jsonl").write_text('{"text": "Rice."}\n{"text": "Tea."}\n')
    status, out, _ = graphdoc("encode", "c.jsonl", "--model", model)
    assert status == 0 and "2 documents had no id" in out and "--column id=" in out


def test_repeated_passages_are_left_out_or_kept(graphdoc: Command, tmp_path: Path, model: str) -> None:
    folder = tmp_path / "manuals"
    folder.mkdir()
    popup = (
        "Press the left or the right arrow to go from chapter to chapter. Press S or the slash to search in the book. "
        "Press the question mark to show this help again, and Escape to hide this help. "
    )
    for number, name in enumerate(("vectors", "strings", "maps", "loops")):
        turns = " ".join(
            f"Of {name}, remark {row} is that {'they ' * number}turn and turn about." for row in range(12)
        )
        (folder / f"{number}.md").write_text(f"# {name}\n\n{turns}\n\n## Keys\n\n{popup}\n", encoding="utf-8")
    for choice, differs in (("leave-out", True), ("keep", False)):
        arguments = ("encode", folder, "--model", model, "--repeats", choice, "--dtype", "float32")
        assert graphdoc(*arguments, "--json", "v.json").status == 0
        vectors = json.loads(Path("v.json").read_text())["vectors"]
        plain = json.loads(
            graphdoc("encode", folder / "0.md", "--model", model, "--dtype", "float32", "--json", "-").out
        )
        assert (max(abs(x - y) for x, y in zip(vectors[0], plain["vectors"][0], strict=True)) > 1e-4) == differs
    assert graphdoc("encode", folder, "--model", model, "--output", "v", "--dtype", "float32").status == 0
    both = ("compare", folder / "0.md", folder / "1.md", "--model", model, "--dtype", "float32", "--json", "-")
    without = json.loads(graphdoc(*both, "--repeats", "v").out)["document"]
    assert without != pytest.approx(json.loads(graphdoc(*both).out)["document"], abs=1e-4)


def test_documents_in_another_language_are_named_once(
    graphdoc: Command, mini: DocumentEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    documents = [Document.from_text(text, id=f"{n}") for n, text in enumerate((ENGLISH, GERMAN, "Tee", GERMAN))]
    with caplog.at_level(logging.WARNING, "graphdoc"):
        assert [one.id for one in noting_languages(mini, documents)] == ["0", "1", "2", "3"]
    (record,) = caplog.records
    assert "1 (de)" in record.message and "3 (de)" in record.message and "0 (" not in record.message


@pytest.mark.parametrize("text", ["[bold]a[/bold]", "=1+1", "a\x1b[31mb", "\u202eabc", "a|b"])
def test_text_from_outside_steers_neither_terminal_nor_spreadsheet(text: str, capsys: Any, tmp_path: Path) -> None:
    table = Table([names("name")], [[text]])
    table.print(Terminal())
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and "\u202e" not in printed
    table.write_csv(tmp_path / "table.csv")
    assert not [line for line in (tmp_path / "table.csv").read_text().splitlines()[1:] if line.startswith("=")]
    assert len(table.markdown().splitlines()) == 3
