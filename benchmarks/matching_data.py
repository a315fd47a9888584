"""Turns the published data sets that SST is measured on into documents and pairs, or documents and judgements.

    python benchmarks/matching_data.py cnse same_event_doc_pair.txt --output cnse/
    python benchmarks/matching_data.py cnss same_story_doc_pair.txt --output cnss/
    python benchmarks/matching_data.py lecardv2 --queries query.json --cases candidate/ --qrels relevance.trec --output lecardv2/
    python benchmarks/matching_data.py coliee --cases task1_train_files/ --labels task1_train_labels.json --output coliee/

CNSE and CNSS give documents.jsonl and train.tsv, dev.tsv and test.tsv: 60, 20 and 20 % of the lines in order, as in the
paper. LeCaRDv2 gives queries.jsonl, corpus.jsonl and qrels.tsv, its queries with q- before their ids, which are those of
other cases; COLIEE gives corpus.jsonl, whose cases are the queries too, and qrels.tsv. Nothing in the files is executed.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from graphdoc.documents.parsing.formats import numbered_lines
from graphdoc.errors import GraphdocError
from graphdoc.evaluation.trec import read_qrels, write_qrels
from graphdoc.runtime.files import write_atomically, write_text
from graphdoc.runtime.progress import progress_bar
from graphdoc.runtime.text import one_line

# Parts of the lines of a file of pairs, and where each ends.
PARTS = {"train": 0.6, "dev": 0.8, "test": 1.0}
# What the columns of the pairs of news are called.
LABEL, SIDES = "label", ({"id": "doc_id1", "title": "title1", "text": "content1"},
                         {"id": "doc_id2", "title": "title2", "text": "content2"})  # fmt: skip
# Parts of a case of LeCaRDv2, in the order of the case.
CASE_PARTS = ("fact", "reason", "charge", "article")
# A space between words of a script that has none: one that does not stand between two Latin words or numbers.
_SPACE = re.compile(r"(?<![A-Za-z0-9])[ \t]+|[ \t]+(?![A-Za-z0-9])")

Row = dict[str, Any]


def joined(words: str) -> str:
    """A text of words that were set apart, as it is written in Chinese.

    >>> joined("三星 Galaxy S8 的 屏幕")
    '三星Galaxy S8的屏幕'
    """
    return _SPACE.sub("", words.strip())


def news_pairs(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """CNSE and CNSS: documents once, and pairs in three parts."""
    lines = numbered_lines(options.pairs)
    names = [name.strip().lstrip("\ufeff") for name in next(lines)[1].split("|")]
    texts: dict[str, str] = {}
    pairs: list[str] = []
    others = 0

    def documents() -> Iterator[Row]:
        nonlocal others
        for number, line in lines:
            cells = [cell.strip() for cell in line.split("|")]
            row = dict(zip(names, cells, strict=False))
            sides = [{key: row.get(name, "") for key, name in side.items()} for side in SIDES]
            is_whole = len(cells) == len(names) and all(side["id"] and joined(side["text"]) for side in sides)
            if not is_whole or (label := row[LABEL]) not in ("0", "1"):
                skipped.append(f"{options.pairs}:{number}")
                continue
            for side in sides:
                text = joined(side["text"])
                if side["id"] not in texts:
                    texts[side["id"]] = text
                    yield {"id": side["id"], "title": joined(side["title"]), "text": text}
                others += texts[side["id"]] != text
            pairs.append(f"{sides[0]['id']}\t{sides[1]['id']}\t{label}\n")

    count = write_rows(options.output / "documents.jsonl", documents())
    ends = [0, *(math.ceil(share * len(pairs)) for share in PARTS.values())]
    for name, first, last in zip(PARTS, ends, ends[1:], strict=False):
        write_text(options.output / f"{name}.tsv", "".join(pairs[first:last]))
    sizes = ", ".join(f"{last - first:,} {name}" for name, first, last in zip(PARTS, ends, ends[1:], strict=False))
    lines = [f"{count:,} documents and {len(pairs):,} pairs: {sizes}"]
    return lines + ([f"an id came {others:,} times with another text; the first was kept"] if others else [])


def lecardv2(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """LeCaRDv2: queries, cases and grades 0 to 3."""

    def queries() -> Iterator[Row]:
        for number, line in numbered_lines(options.queries):
            row = parsed(line, f"{options.queries}:{number}", ("id", "query"), skipped)
            if row is not None:
                yield {"id": f"q-{row['id']}", "text": row["query"]}

    def cases() -> Iterator[Row]:
        for path in sorted(options.cases.rglob("*.json")):
            row = parsed(path.read_text(encoding="utf-8"), str(path), ("pid", "fact"), skipped)
            if row is not None:
                parts = [(name, row.get(name)) for name in CASE_PARTS]
                sections = [
                    {"heading": name, "text": text if isinstance(text, str) else ", ".join(map(str, text))}
                    for name, text in parts
                    if text
                ]
                yield {"id": str(row["pid"]), "sections": sections}

    asked = write_rows(options.output / "queries.jsonl", queries())
    count = write_rows(options.output / "corpus.jsonl", cases())
    qrels = {f"q-{query}": grades for query, grades in read_qrels(options.qrels).items()}
    write_qrels(options.output / "qrels.tsv", qrels)
    judged = sum(map(len, qrels.values()))
    return [f"{asked:,} queries, {count:,} cases and {judged:,} judgements of {len(qrels):,} queries"]


def coliee(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """COLIEE, task 1: texts, and for every query the cases that it cites."""
    ids: set[str] = set()

    def cases() -> Iterator[Row]:
        for path in sorted(options.cases.glob("*.txt")):
            text = path.read_text(encoding="utf-8", errors="replace").strip()
            if not text:
                skipped.append(str(path))
                continue
            ids.add(path.stem)
            yield {"id": path.stem, "text": text}

    labels = json.loads(options.labels.read_text(encoding="utf-8"))
    count = write_rows(options.output / "corpus.jsonl", cases())
    qrels: dict[str, dict[str, int]] = {}
    gone = 0
    for query, cited in labels.items():
        names = [Path(str(name)).stem for name in cited]
        known = {name: 1 for name in names if name in ids and Path(query).stem in ids}
        gone += len(names) - len(known)
        if known:
            qrels[Path(query).stem] = known
    write_qrels(options.output / "qrels.tsv", qrels)
    lines = [f"{count:,} cases and {sum(map(len, qrels.values())):,} citations of {len(qrels):,} queries"]
    return lines + ([f"{gone:,} citations of cases that are not there were left out"] if gone else [])


def parsed(text: str, place: str, needed: Sequence[str], skipped: list[str]) -> Row | None:
    """A JSON object with some keys; None for one that is skipped."""
    try:
        row: Row = json.loads(text)
        if all(row[key] for key in needed):
            return row
    except (ValueError, RecursionError, TypeError, KeyError):
        pass
    skipped.append(place)
    return None


def write_rows(path: Path, rows: Iterator[Row]) -> int:
    """Write JSON Lines one by one; how many there are."""
    count = 0

    def write(temporary: Path) -> None:
        nonlocal count
        with temporary.open("w", encoding="utf-8") as file, progress_bar(None, None, "Reading", "documents") as bar:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
                bar.update(1)

    write_atomically(path, write)
    return count


# Name of a data set, what converts it, and the files it needs.
SETS: dict[str, tuple[Callable[[argparse.Namespace, list[str]], list[str]], dict[str, str]]] = {
    "cnse": (news_pairs, {"pairs": "same_event_doc_pair.txt"}),
    "cnss": (news_pairs, {"pairs": "same_story_doc_pair.txt"}),
    "lecardv2": (
        lecardv2,
        {
            "--queries": "queries, one JSON in a line",
            "--cases": "folder of cases",
            "--qrels": "grades of TREC",
        },
    ),
    "coliee": (coliee, {"--cases": "folder of texts", "--labels": "JSON of queries and the cases they cite"}),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Convert, and say what was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets = parser.add_subparsers(dest="set", required=True, metavar="SET")
    for name, (convert, files) in SETS.items():
        one = sets.add_parser(name, help=(convert.__doc__ or "").strip())
        for argument, help in files.items():
            options = {"required": True} if argument.startswith("--") else {}
            one.add_argument(argument, type=Path, metavar="PATH", help=help, **options)
        one.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(arguments)
    skipped: list[str] = []
    try:
        lines = SETS[options.set][0](options, skipped)
    except GraphdocError as error:
        parser.exit(2, f"{parser.prog}: {one_line(str(error))}\n")
    except OSError as error:
        parser.exit(2, f"{parser.prog}: {error.filename}: {error.strerror}; check the path\n")
    if skipped:
        lines.append(f"skipped {len(skipped):,} that are not of this form, the first: {skipped[0]}")
    print("\n".join([*lines, f"wrote {options.output}"]))


if __name__ == "__main__":
    main(sys.argv[1:])
