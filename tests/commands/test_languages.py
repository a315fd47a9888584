"""Documents in a language that the model does not know are named in one warning."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.commands import languages
from graphdoc.commands.languages import noting_languages
from graphdoc.documents.document import Document
from graphdoc.documents.language import language_of
from graphdoc.encoder import DocumentEncoder

TEXTS = {
    "en": "A committee met on Monday to speak of the new bridge across the river, and nothing came of it at the end. "
    "Somebody asked what the old one had cost, and nobody at the table knew, though all of them had walked across it.",
    "de": "Der Ausschuss traf sich am Montag, um über die neue Brücke zu sprechen, und nichts kam dabei heraus. "
    "Jemand fragte, was die alte gekostet habe, und niemand am Tisch wusste es, obwohl alle über sie gegangen waren.",
    "fr": "La commission s'est réunie lundi pour parler du nouveau pont sur le fleuve, et rien n'en est sorti. "
    "Quelqu'un demanda ce qu'avait coûté l'ancien, et personne ne le savait, bien que tous l'eussent traversé à pied.",
    "ja": "委員会は月曜日に集まり、川に架かる新しい橋について話し合ったが、結局何も決まらなかった。" * 8,
}


@pytest.mark.parametrize("language", TEXTS)
def test_languages_are_told_apart(language: str) -> None:
    assert language_of(TEXTS[language]) == language


@pytest.mark.parametrize("text", ["", "Der Ausschuss traf sich.", "0 1 2 3 " * 500, "|" * 9000])
def test_nothing_is_said_of_what_is_short_or_no_language(text: str) -> None:
    assert language_of(text) is None


def warned(caplog: pytest.LogCaptureFixture, documents: list[Document], encoder: DocumentEncoder) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="graphdoc"), noting_languages(encoder) as noted:
        assert list(noted(documents)) == documents
        told = len(caplog.records)
    assert not told, "said before the work is done"
    return [record.getMessage() for record in caplog.records]


def test_a_bounded_list_of_names(
    tiny_encoder: Callable[..., DocumentEncoder], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tiny_encoder("bert")
    english = [Document.from_text(TEXTS["en"], id=f"e{number}") for number in range(3)]
    others = [Document.from_text(TEXTS["de"], id=f"d{number}") for number in range(7)]
    assert warned(caplog, english, encoder) == []
    (line,) = warned(caplog, [*english, *others], encoder)
    assert "7 of 10 documents" in line and "d0 (de)" in line and "d4 (de)" in line
    assert "d5" not in line and "2 more" in line
    # A model of another language knows that one, and one with many tokens all.
    (line,) = warned(caplog, [*english, *others], tiny_encoder("bert", language="de"))
    assert "3 of 10 documents" in line and "e0 (en)" in line
    monkeypatch.setattr(languages, "_MOST_WAITING", 3)
    (line,) = warned(caplog, [*english, *others], encoder)
    assert "7 of 10 documents" in line and "d0 (de)" in line
    monkeypatch.setattr(languages, "_MANY_TOKENS", len(encoder.tokenizer) - 1)
    assert warned(caplog, others, encoder) == []


def test_one_process_of_several_speaks(
    tiny_encoder: Callable[..., DocumentEncoder], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [Document.from_text(TEXTS["de"], id="d")]
    for rank, lines in (("0", 1), ("1", 0)):
        monkeypatch.setenv("RANK", rank)
        assert len(warned(caplog, documents, tiny_encoder("bert"))) == lines


def test_work_begins_before_languages_are_told(
    tiny_encoder: Callable[..., DocumentEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tells them takes half a second to load, and long texts do not wait in memory for it."""
    monkeypatch.setattr("graphdoc.documents.language.language_of", lambda part: asked.append(part) or "de")
    monkeypatch.setattr(languages, "_MOST_WAITING", 4)
    asked: list[str] = []
    text = TEXTS["de"] * 100
    with noting_languages(tiny_encoder("bert")) as noted:
        passing = noted(Document.from_text(text, id=str(number)) for number in range(10))
        counts = [len(asked) for _ in passing]
    assert counts == [0, 0, 0, 4, 4, 4, 4, 8, 8, 8] and len(asked) == 10
    assert all(0 < len(part) <= 1500 for part in asked)


@pytest.mark.parametrize(
    "command",
    [
        ("encode", "texts", "--output", "v"),
        ("encode", "texts", "--json", "v.json"),
        ("overview", "texts", "--html", "o.html"),
        ("compare", "texts/de.txt", "texts/en.txt"),
        ("compare", "texts"),
        ("index", "texts", "--output", "i"),
    ],
)
def test_commands_name_them_once(graphdoc: Any, model: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    if command[0] == "index":
        pytest.importorskip("lancedb")
    (tmp_path / "texts").mkdir()
    for name in ("en", "de"):
        (tmp_path / "texts" / f"{name}.txt").write_text(TEXTS[name], encoding="utf-8")
    status, _, err = graphdoc(*command, "--model", model)
    assert status == 0, err
    assert err.count("de (de)") == 1 and "1 of 2 documents is" in err
