"""Turns the published articles of SDR into JSON Lines, and says which titles of the ground truth they have.

The code of the paper reads a CSV with the columns ``Title`` and ``Sections``, the second a Python list of pairs of
section title and text. It is read as a literal; nothing in it is executed. Titles become ids, which the ground truth
has too.

    python benchmarks/sdr_articles.py video_games.csv --output video_games.jsonl --relevant video_games.json
    graphdoc evaluate related video_games.jsonl --relevant video_games.json --as-published
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


def articles_of(path: Path) -> Iterator[dict[str, Any]]:
    """The articles of a file, as rows of a corpus.

    Raises:
        DocumentError: a row is not of this form; the message names the line.
    """
    # An article is one cell.
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", newline="") as file:
        for row in (reader := csv.DictReader(file)):
            by_name = {str(name).strip().lower(): cell for name, cell in row.items()}
            try:
                title = by_name["title"].strip()
                pairs = ast.literal_eval(by_name.get("sections") or by_name["section"])
                if not title or not isinstance(pairs, list | tuple):
                    raise ValueError("no title, or no list of sections")
                sections = [{"heading": str(heading).strip(), "text": text} for heading, text in pairs]
                if not all(isinstance(section["text"], str) for section in sections):
                    raise ValueError("a section is no pair of texts")
            except (KeyError, ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
                raise DocumentError(f"{path}:{reader.line_num}: {one_line(str(error), 120)}") from error
            yield {"id": title, "title": title, "sections": sections}


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
