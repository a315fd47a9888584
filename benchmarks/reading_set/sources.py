"""Documents whose structure is known, from which files of every kind are made.

The examples of the project are read by pandoc; inline code (in running text and in a heading), footnotes, lists and
blocks of code are added to them, always in the same places. What pandoc then writes as HTML, LaTeX, Word and so on has
the structure and the text that are listed beside it.
"""

from __future__ import annotations

import copy
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "documents"
_NOTES = (
    "The figures in older reports differ, since they were rounded twice.",
    "Local names vary; the spelling here follows the survey of 1911.",
    "A second account gives a later date but names no source.",
    "Measured at the surface, on a day without wind.",
)
_CODE = ("read_gauge", "level += step", "config.yaml", "--dry-run")
_BLOCK = "for hour in range(24):\n    level = gauge.read(hour)\n    print(hour, level)"


@dataclass(frozen=True)
class Source:
    """A document as blocks of pandoc.

    Args:
        name: name of the file that it comes from.
        title: its title, as inlines of pandoc.
        blocks: everything after the title.
        version: pandoc's version of the format.
    """

    name: str
    title: list[Any]
    blocks: list[Any]
    version: list[int]

    def json(self, *, title: bool = True) -> str:
        """The document as pandoc's JSON; with the title as metadata, or as the first heading."""
        meta: dict[str, Any] = {"lang": {"t": "MetaString", "c": "en"}}
        if self.title:
            meta["title"] = {"t": "MetaInlines", "c": self.title}
        blocks = self.blocks if title else [_heading(1, self.title), *_deeper(self.blocks)]
        return json.dumps({"pandoc-api-version": self.version, "meta": meta if title else {}, "blocks": blocks})

    def known(self, furniture: str = "") -> dict[str, Any]:
        """What the benchmark compares with: title, headings with levels, running text, furniture."""
        headings = [[block["c"][0], plain(block["c"][2])] for block in self.blocks if block["t"] == "Header"]
        body = "\n\n".join(text for block in self.blocks if block["t"] != "Header" for text in texts(block) if text)
        return {"title": plain(self.title), "headings": headings, "body": body, "furniture": furniture}


def sources() -> list[Source]:
    """All examples with the additions, by name."""
    return [_enriched(_read(path)) for path in sorted(EXAMPLES.iterdir())]


def _read(path: Path) -> Source:
    kind = "html" if path.suffix == ".html" else "markdown"
    read = subprocess.run(["pandoc", "-f", kind, "-t", "json", str(path)], capture_output=True, check=True, text=True)
    tree = json.loads(read.stdout)
    blocks = [block for block in _flat(tree["blocks"]) if block["t"] != "HorizontalRule"]
    for block in blocks:
        if block["t"] == "Header":
            block["c"][0] = max(block["c"][0] - 1, 1)
    assert blocks[0]["t"] == "Header"
    return Source(path.stem, blocks[0]["c"][2], blocks[1:], tree["pandoc-api-version"])


def _flat(blocks: list[Any]) -> Iterator[Any]:
    for block in blocks:
        if block["t"] == "Div":
            yield from _flat(block["c"][1])
        else:
            yield block


def _enriched(source: Source) -> Source:
    chance = random.Random(source.name)
    blocks = copy.deepcopy(source.blocks)
    paragraphs = [block for block in blocks if block["t"] == "Para" and len(block["c"]) > 40]
    for number, paragraph in enumerate(chance.sample(paragraphs, min(4, len(paragraphs)))):
        spaces = [place for place, inline in enumerate(paragraph["c"]) if inline["t"] == "Space"]
        at = chance.choice(spaces[5:-5])
        paragraph["c"][at:at] = [{"t": "Space"}, _code(_CODE[number])]
        note = {"t": "Note", "c": [{"t": "Para", "c": _inlines(_NOTES[number])}]}
        if number < 2:
            paragraph["c"].insert(at + 2, note)
    headings = [block for block in blocks if block["t"] == "Header"]
    chance.choice(headings)["c"][2][1:1] = [{"t": "Space"}, _code("gauge.read()")]
    places = [place for place, block in enumerate(blocks) if block["t"] == "Para"]
    first, second = chance.sample(places[1:], 2)
    items = [[{"t": "Plain", "c": _inlines(text)}] for text in ("Tools of the first day", "Tools of the second day")]
    for place in sorted((first, second), reverse=True):
        added = {"t": "BulletList", "c": items} if place == first else {"t": "CodeBlock", "c": [["", [], []], _BLOCK]}
        blocks.insert(place + 1, added)
    return replace(source, blocks=blocks)


def shortened(source: Source, blocks: int) -> Source:
    """The first blocks of a document, for small files."""
    return replace(source, blocks=source.blocks[:blocks])


def numbered(source: Source) -> Source:
    """The document with numbers written before its headings."""
    blocks, counts = copy.deepcopy(source.blocks), [0] * 6
    for block in blocks:
        if block["t"] == "Header":
            level = block["c"][0]
            counts[level - 1] += 1
            counts[level:] = [0] * (6 - level)
            number = ".".join(map(str, counts[:level]))
            block["c"][2][:0] = [{"t": "Str", "c": number if level > 1 else f"{number}."}, {"t": "Space"}]
    return replace(source, blocks=blocks)


def with_bold_headings(source: Source) -> Source:
    """The document with bold paragraphs in place of headings, for writing; what is known stays that of the source."""
    strong = [
        {"t": "Para", "c": [{"t": "Strong", "c": block["c"][2]}]} if block["t"] == "Header" else block
        for block in copy.deepcopy(source.blocks)
    ]
    return replace(source, title=[], blocks=[{"t": "Para", "c": [{"t": "Strong", "c": source.title}]}, *strong])


def changed_headings(source: Source, change: Callable[[int, list[Any]], list[Any]]) -> Source:
    """The document with other headings: what ``change`` makes of level and inlines."""
    blocks = copy.deepcopy(source.blocks)
    for block in blocks:
        if block["t"] == "Header":
            block["c"][2] = change(block["c"][0], block["c"][2])
    return replace(source, blocks=blocks)


def joined(parts: list[Source], name: str, title: str) -> Source:
    """Several documents as the chapters of one."""
    blocks: list[Any] = []
    for part in parts:
        blocks += [_heading(1, part.title), *_deeper(part.blocks)]
    return replace(parts[0], name=name, title=_inlines(title), blocks=blocks)


def _deeper(blocks: list[Any]) -> list[Any]:
    blocks = copy.deepcopy(blocks)
    for block in blocks:
        if block["t"] == "Header":
            block["c"][0] += 1
    return blocks


def _heading(level: int, inlines: list[Any]) -> dict[str, Any]:
    return {"t": "Header", "c": [level, ["", [], []], inlines]}


def _code(text: str) -> dict[str, Any]:
    return {"t": "Code", "c": [["", [], []], text]}


def _inlines(text: str) -> list[Any]:
    inlines: list[Any] = []
    for word in text.split():
        inlines += [{"t": "Str", "c": word}, {"t": "Space"}]
    return inlines[:-1]


def plain(inlines: list[Any]) -> str:
    """The text of inlines without notes."""
    return "".join(_plain(inline) for inline in inlines)


def _plain(inline: Any) -> str:
    match inline["t"]:
        case "Str":
            return str(inline["c"])
        case "Code" | "Math" | "RawInline":
            return str(inline["c"][1])
        case "Space" | "SoftBreak" | "LineBreak":
            return " "
        case "Note":
            return ""
        case "Link" | "Image" | "Quoted" | "Span" | "Cite":
            return plain(inline["c"][1])
        case _:
            return plain(inline["c"])


def texts(block: Any) -> Iterator[str]:
    """The texts of a block in reading order; notes follow their paragraph."""
    match block["t"]:
        case "Para" | "Plain" | "Header":
            inlines = block["c"][2] if block["t"] == "Header" else block["c"]
            yield plain(inlines)
            for note in _notes(inlines):
                for inner in note["c"]:
                    yield from texts(inner)
        case "CodeBlock":
            yield block["c"][1]
        case "BulletList" | "OrderedList":
            for item in block["c"] if block["t"] == "BulletList" else block["c"][1]:
                for inner in item:
                    yield from texts(inner)
        case "BlockQuote":
            for inner in block["c"]:
                yield from texts(inner)
        case "Table":
            _, _, _, head, bodies, foot = block["c"]
            rows = [*head[1], *(row for body in bodies for row in (*body[2], *body[3])), *foot[1]]
            for row in rows:
                for cell in row[1]:
                    for inner in cell[4]:
                        yield from texts(inner)
        case "DefinitionList":
            for term, definitions in block["c"]:
                yield plain(term)
                for definition in definitions:
                    for inner in definition:
                        yield from texts(inner)
        case other:
            raise ValueError(f"no text is known of {other}")


def _notes(inlines: list[Any]) -> Iterator[Any]:
    for inline in inlines:
        if inline["t"] == "Note":
            yield inline
        elif isinstance(inline.get("c"), list):
            inner = inline["c"][1] if inline["t"] in ("Link", "Image", "Quoted", "Span", "Cite") else inline["c"]
            if inner and isinstance(inner[0], dict):
                yield from _notes(inner)


def written(source: Source, to: str, *options: str, title: bool = True) -> str:
    """The document as pandoc writes it."""
    command = ["pandoc", "-f", "json", "-t", to, *options]
    done = subprocess.run(command, input=source.json(title=title), capture_output=True, check=True, text=True)
    return done.stdout


def write(source: Source, path: Path, to: str, *options: str, title: bool = True) -> None:
    """Let pandoc write the document to a file."""
    command = ["pandoc", "-f", "json", "-t", to, "-o", str(path), *options]
    subprocess.run(command, input=source.json(title=title), check=True, text=True)
