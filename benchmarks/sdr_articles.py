"""Turns the published articles of SDR into JSON Lines, and says which titles of the ground truth they have.

The code of the paper reads a CSV with the columns ``Title`` and ``Sections``, the second a Python list of pairs of
section title and text. It is read as a literal; nothing in it is executed. Titles become ids, which the ground truth
has too.

    python benchmarks/sdr_articles.py video_games.csv --output video_games.jsonl --relevant video_games.json
    graphdoc evaluate search --relevant video_games.json --corpus video_games.jsonl --as-published
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reporting import DATA

from graphdoc.errors import DocumentError, GraphdocError
from graphdoc.evaluation import read_relevant
from graphdoc.runtime.files import write_atomically
from graphdoc.runtime.progress import progress_bar
from graphdoc.runtime.text import one_line

TITLES, SECTIONS = ("title",), ("sections", "section")


def articles_of(path: Path) -> Iterator[dict[str, Any]]:
    """The articles of a file, as rows of a corpus.

    Args:
        path: the CSV.

    Raises:
        DocumentError: the file has no such columns, or a row is not of this form; the message names the line.
    """
    # An article is one cell.
    csv.field_size_limit(sys.maxsize)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            title, sections = (_column(path, rows.fieldnames or (), names) for names in (TITLES, SECTIONS))
            for row in rows:
                yield _article(f"{path}:{rows.line_num}", row[title], row[sections])
    except (OSError, UnicodeError, csv.Error) as error:
        raise DocumentError(f"{path}: cannot be read ({one_line(str(error), 120)})") from error


def _column(path: Path, columns: Sequence[str], names: Sequence[str]) -> str:
    for column in columns:
        if column.strip().lower() in names:
            return column
    raise DocumentError(f"{path}: there is no column {names[0]!r}, only {', '.join(map(repr, columns)) or 'none'}")


def _article(place: str, title: str | None, cell: str | None) -> dict[str, Any]:
    if not (title or "").strip():
        raise DocumentError(f"{place}: the article has no title")
    try:
        value = ast.literal_eval(cell or "")
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise DocumentError(f"{place}: its sections are no Python list ({one_line(str(error), 80)})") from error
    if not isinstance(value, list | tuple):
        raise DocumentError(f"{place}: its sections are {type(value).__name__}; a list of pairs is expected")
    sections = []
    for pair in value:
        is_pair = isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
        if not is_pair:
            raise DocumentError(f"{place}: a section is {one_line(repr(pair), 60)}; a pair of texts is expected")
        sections.append({"heading": pair[0].strip(), "text": pair[1]})
    return {"id": str(title).strip(), "title": str(title).strip(), "sections": sections}


def found_titles(relevant: Mapping[str, Mapping[str, int]], titles: set[str]) -> list[str]:
    """What of the ground truth is there, as lines."""
    sources = [title for title in relevant if title in titles]
    pairs = [(source, title) for source, others in relevant.items() for title in others]
    both = [pair for pair in pairs if pair[0] in titles and pair[1] in titles]
    missing = sorted({title for pair in pairs for title in pair} - titles)
    lines = [
        f"{len(titles):,} articles",
        f"{len(sources):,} of {len(relevant):,} sources and {len(both):,} of {len(pairs):,} pairs are among them",
    ]
    return lines + ([f"missing: {', '.join(missing[:20])}" + (" ..." if len(missing) > 20 else "")] if missing else [])


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, write and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("articles", type=Path, metavar="CSV")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSON Lines to write")
    parser.add_argument(
        "--relevant",
        type=Path,
        action="append",
        metavar="FILE",
        help="ground truth to look for (default: that of the shared data)",
    )
    options = parser.parse_args(arguments)
    ground_truth = options.relevant or sorted((DATA / "sdr_ground_truth").glob("*.json"))
    titles: set[str] = set()

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file, progress_bar(None, None, "Reading", "articles") as bar:
            for article in articles_of(options.articles):
                if article["id"] in titles:
                    raise DocumentError(f"{options.articles}: the title {article['id']!r} occurs twice")
                titles.add(article["id"])
                file.write(json.dumps(article, ensure_ascii=False) + "\n")
                bar.update(1)

    try:
        relevant = {path: read_relevant(path) for path in ground_truth}
        write_atomically(options.output, write)
    except GraphdocError as error:
        parser.exit(2, f"{parser.prog}: {one_line(str(error))}\n")
    print(f"wrote {options.output}")
    for path, lists in relevant.items():
        print(f"{path.name}: {'; '.join(found_titles(lists, titles))}")


if __name__ == "__main__":
    main()
