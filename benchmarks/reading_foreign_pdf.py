"""PDF files of others, read without their outline and compared with it.

    python benchmarks/reading_foreign_pdf.py FOLDER --half tune --worst 10
    python benchmarks/reading_foreign_pdf.py FOLDER --show PACKAGE/NAME

``FOLDER`` holds a folder for each package, however deep its PDF files lie in it. Packages fall into two halves by a
hash of their name: rules are made with ``tune``, and ``held-out`` only says how good they are. Of a package at most a
few files are read, chosen by a hash as well, and of a file the first pages.

Right are the entries of the outline that stand, without their number, as one line or a few on the page that they name;
entries of an index, or of what is only a picture, are no headings that could be read. Files with few such entries are
left out. What an outline does not say counts neither way: names of front matter (``Contents``, ``Abstract``), letters
of an index, what stands before its first entry, where the title is, headings numbered more deeply than its entries,
and headings much like an entry that stands otherwise on its page, as one with a formula.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import itertools
import json
import re
import statistics
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from reporting import ROOT

from graphdoc.documents.parsing.outline import ParsedDocument
from graphdoc.documents.parsing.pdf import file_process, reader
from graphdoc.documents.parsing.pdf.page import read_page
from graphdoc.errors import GraphdocError

CACHE = ROOT / "cache" / "foreign_pdf"
_MOST_LINES = 4
_FEWEST_ENTRIES, _FEWEST_A_PAGE, _LEAST_FOUND = 5, 0.15, 0.5
_MOST_MEGABYTES = 16
_ALIKE = 0.75
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(
    r"^(?:(?i:chapter|section|part|appendix|kapitel|teil|anhang|chapitre|annexe)\s+)?"
    r"(?:(?:\d{1,3}|[A-Z]|[IVXLC]{1,7})(?:\.\d{1,3})*(?:[.):]+|(?=\s))|\(?(?:\d{1,3}|[a-z])\))\s*[-–—]?\s*(?=\S)"
)
_PARTS = re.compile(r"(?:\d{1,3}|[A-Z])(?:\.\d{1,3})*(?=[.)]?\s)")
_NEUTRAL = re.compile(
    r"(?:table of )?contents|list of (?:figures|tables|examples)|abstract|references|bibliography|index|"
    r"acknowledge?ments?|inhaltsverzeichnis|table des mati[eè]res|preface|summary",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Score:
    """How well the headings of a file were read.

    Args:
        precision: headings found that are right.
        recall: right headings that were found.
        headings: how many are right.
        words: of all that the reader wrote; a change of the reader that drops text shows here.
        seconds: for making sections of the pages, without the library's own time.
    """

    precision: float
    recall: float
    headings: int
    words: int
    seconds: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def key(text: str) -> str:
    """A heading as it is compared: without number, spaces and punctuation."""
    stripped = text.strip()
    return "".join(_WORD.findall(_folded(_NUMBER.sub("", stripped, count=1)))) or "".join(
        _WORD.findall(_folded(stripped))
    )


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text.replace("\xad", "")).casefold()


def half(package: str) -> str:
    """The half that a package belongs to."""
    return "held-out" if hashlib.sha256(package.encode()).digest()[0] % 2 else "tune"


def files(folder: Path, which: str | None, most: int, only: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and contents of at most a few PDF files of each package of a half."""
    for package in sorted(path for path in folder.iterdir() if path.is_dir()):
        if (which and half(package.name) != which) or only.partition("/")[0] not in package.name:
            continue
        found = [path for path in package.rglob("*.pdf") if path.stat().st_size < _MOST_MEGABYTES * 1e6]
        found.sort(key=lambda path: hashlib.sha256(path.name.encode()).digest())
        read = ((f"{package.name}/{path.name}", contents(path)) for path in found)
        yield from itertools.islice(((name, content) for name, content in read if content.get("right")), most)


def contents(path: Path, pages: int = 60) -> dict[str, Any]:
    """What the library says of a file, kept from one run to the next; empty where it cannot be read."""
    name = hashlib.sha256(f"{path.name} {path.stat().st_size} {pages}".encode()).hexdigest()[:24]
    kept = CACHE / f"{name}.json"
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    try:
        with mock.patch.object(file_process, "_opened", lambda content: _opened(content, pages)):
            described, read, _ = file_process.read_pages(path.read_bytes())
        found = {"described": described, "pages": read}
        found["right"] = truth(found)
    except GraphdocError:
        found = {}
    CACHE.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def _opened(content: bytes, pages: int, real: Any = file_process._opened) -> tuple[dict[str, Any], bytes]:
    """Open a file as if it had no more pages."""
    described, content = real(content)
    return {**described, "pages": min(described["pages"], pages)}, content


def truth(content: Mapping[str, Any]) -> list[tuple[int, str, int]]:
    """Level, text and page of the outline's entries that stand on their pages; nothing where those are too few."""
    rows = {number: [row.text for row in read_page(page, number).rows] for number, page in content["pages"]}
    entries = [entry for entry in content["described"]["outline"] if entry[2] in rows]
    found = [(level, text, page) for level, text, page, _ in entries if key(text) and _stands(key(text), rows[page])]
    enough = len(found) >= max(_FEWEST_ENTRIES, _FEWEST_A_PAGE * len(rows)) and len(found) >= _LEAST_FOUND * len(
        entries
    )
    return found if enough else []


def _stands(name: str, rows: Sequence[str]) -> bool:
    for first in range(len(rows)):
        text = ""
        for row in rows[first : first + _MOST_LINES]:
            text = f"{text} {row}"
            # Words that are broken over lines lose their hyphen, as all signs.
            if key(text) == name:
                return True
            if len(key(text)) > len(name) + 12:
                break
    return False


def parse(content: Mapping[str, Any]) -> ParsedDocument:
    """What the reader makes of a file without its outline."""
    described = {**content["described"], "outline": []}
    with mock.patch.object(reader, "read_pages", lambda _: (described, content["pages"], [])):
        return reader.parse_pdf(b"")


def judged(content: Mapping[str, Any], parsed: ParsedDocument) -> tuple[Counter[str], Counter[str]]:
    """Found and right headings as they are compared, without what counts neither way."""
    right = Counter(key(text) for _, text, _ in content["right"] if not _is_neutral(text))
    first = next((key(text) for _, text, _ in content["right"] if not _is_neutral(text)), "")
    names = [parsed.title, *(section.heading for section in parsed.sections)]
    # Where the outline ends at a depth, headings that are numbered more deeply are not in it.
    deepest = max((_depth(name) for name in names if key(name) in right), default=0) or 99
    keys = [
        key(name)
        for name in filter(None, names)
        if key(name) in right or not (_is_neutral(name) or _depth(name) > deepest)
    ]
    # Before the first entry there are the title, authors and the like.
    start = keys.index(first) if first in keys else 1
    found = Counter(name for place, name in enumerate(keys) if place >= start or name in right)
    # An entry that stands otherwise on its page, as with a formula, is no proof against the heading there.
    others = {key(str(entry[1])) for entry in content["described"]["outline"]} - set(right)
    for name in [name for name in found if name not in right]:
        if difflib.get_close_matches(name, others, n=1, cutoff=_ALIKE):
            del found[name]
    return found, right


def _depth(name: str) -> int:
    """How many parts the number of a heading has."""
    number = _PARTS.match(name)
    return number[0].count(".") + 1 if number else 0


def _is_neutral(name: str) -> bool:
    """Whether a name is that of front matter, or a letter of an index."""
    return bool(_NEUTRAL.fullmatch(_NUMBER.sub("", name).strip(" .:"))) or len(key(name)) < 2


def measure(content: Mapping[str, Any]) -> Score:
    """Read a file and compare."""
    start = time.process_time()
    parsed = parse(content)
    seconds = time.process_time() - start
    found, right = judged(content, parsed)
    both = (found & right).total()
    words = sum(len(_WORD.findall(f"{section.heading} {section.text}")) for section in parsed.sections)
    return Score(both / max(found.total(), 1), both / max(right.total(), 1), right.total(), words, seconds)


def show(content: Mapping[str, Any]) -> None:
    """Print what was missed and what was taken for a heading."""
    found, right = judged(content, parsed := parse(content))
    missed, false = right - found, found - right
    print("title:", parsed.title)
    for level, text, page in content["right"]:
        if missed[key(text)]:
            missed[key(text)] -= 1
            print(f"  missed (level {level}, page {page + 1}): {text}")
    for section in parsed.sections:
        if section.heading and false[key(section.heading)]:
            false[key(section.heading)] -= 1
            print(f"  false (level {section.level}): {section.heading[:110]} || {section.text[:60]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("tune", "held-out"), help="only these packages (default: all)")
    parser.add_argument("--most", type=int, default=4, metavar="N", help="files of a package (default: %(default)s)")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="list the N files that were read worst")
    parser.add_argument("--show", metavar="TEXT", help="what was wrong in the files whose path contains this text")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the scores of every file as JSON")
    chosen = parser.parse_args()
    scores: dict[str, Score] = {}
    for name, content in files(chosen.folder, chosen.half, chosen.most, chosen.show or ""):
        if chosen.show and chosen.show not in name:
            continue
        scores[name] = measure(content)
        if chosen.show:
            print(name)
            show(content)
    for name, one in sorted(scores.items(), key=lambda item: item[1].f1)[: chosen.worst]:
        print(f"{one.f1:.2f} (precision {one.precision:.2f}, recall {one.recall:.2f}, of {one.headings}) {name}")
    if chosen.save:
        chosen.save.write_text(json.dumps({name: asdict(one) for name, one in scores.items()}, indent=1))
    if scores:
        means = [statistics.fmean(getattr(one, trait) for one in scores.values()) for trait in ("f1", "precision")]
        recall = statistics.fmean(one.recall for one in scores.values())
        print(
            f"{len(scores)} files, {sum(one.headings for one in scores.values())} headings: F1 {means[0]:.3f}, "
            f"precision {means[1]:.3f}, recall {recall:.3f}; {sum(one.words for one in scores.values()):,} words in "
            f"{sum(one.seconds for one in scores.values()):.1f} s"
        )


if __name__ == "__main__":
    main()
