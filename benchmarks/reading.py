"""How well are files read: headings, body text, its order, and what does not belong to it?

A set is a folder of files, ``KIND/GENERATOR/NAME``, each with what is known of it beside it in ``NAME.json``:

- ``title``: the title, empty where there is none;
- ``headings``: ``[level, text]`` in reading order, without the title;
- ``body``: the running text in reading order, without headings;
- ``also_titled``: other titles that are right, such as that in the head of a page; they count neither way;
- ``furniture``: text that is in the file and does not belong to the document (menus, running heads, page numbers).

Text is compared by words, without case and punctuation. Title and headings are one list, so that it makes no
difference whether a reader takes the first heading for the title.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import re
import statistics
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil
from reporting import ROOT, describe_machine, write_result

from graphdoc import Document
from graphdoc.errors import GraphdocError

SET = ROOT / "cache" / "reading_set"
_WORD = re.compile(r"\w+")
_SHINGLE = 4


@dataclass(frozen=True)
class Reading:
    """What a reader makes of a file, or what is known of it.

    Args:
        title: the title.
        headings: levels and texts in reading order, without the title.
        body: the running text without headings.
        furniture: text of the file that does not belong to the document; readers leave it empty.
        also_titled: other titles that are right; readers leave it empty.
    """

    title: str
    headings: Sequence[tuple[int, str]]
    body: str
    furniture: str = ""
    also_titled: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """Title and headings as they are compared; a heading that repeats the title at the start counts once."""
        names = [" ".join(words(name)) for name in (self.title, *(text for _, text in self.headings))]
        if len(names) > 1 and names[0] == names[1]:
            del names[0]
        return [name for name in names if name]

    @property
    def words(self) -> list[str]:
        """All words: of the title, the headings and the body."""
        return words("\n".join((*self.names, self.body)))


@dataclass(frozen=True)
class Score:
    """How well one file was read; all but the seconds are shares.

    Args:
        precision: headings found that are right.
        recall: right headings that were found.
        nesting: of neighbouring right headings, those whose levels rise, fall or stay as they should.
        coverage: words of the body that were read.
        order: groups of four words that stand once in the body and were read, which were read in its order.
        furniture: words read that belong to furniture.
        surplus: words read beyond the body and headings, furniture or not.
        seconds: processor time of the reading.
        megabytes: size of the file.
        error: why it was not read.
    """

    precision: float
    recall: float
    nesting: float
    coverage: float
    order: float
    furniture: float
    surplus: float
    seconds: float
    megabytes: float
    error: str = ""

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall of headings."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def words(text: str) -> list[str]:
    """The words of a text, in one form of Unicode and without case."""
    return _WORD.findall(unicodedata.normalize("NFKC", text.replace("\xad", "")).casefold())


def known(path: Path) -> Reading:
    """Read what is known of a file of the set."""
    row = json.loads(path.with_name(f"{path.name}.json").read_text(encoding="utf-8"))
    headings = [(int(level), str(text)) for level, text in row["headings"]]
    furniture = row.get("furniture", "")
    furniture = furniture if isinstance(furniture, str) else "\n".join(furniture)
    return Reading(row["title"], headings, row["body"], furniture, row.get("also_titled", ()))


def score(found: Reading, right: Reading, seconds: float = 0.0, megabytes: float = 0.0) -> Score:
    """Compare what a reader found with what is known."""
    known = [words(name) for name in (right.title, *(text for _, text in right.headings))]
    if words(found.title) not in known and words(found.title) in [words(title) for title in right.also_titled]:
        found = replace(found, title=right.title)
    found_names, right_names = Counter(found.names), Counter(right.names)
    matched = (found_names & right_names).total()
    found_words, right_words = Counter(found.words), Counter(right.words)
    body = Counter(words(right.body))
    beyond = found_words - right_words
    read = max(found_words.total(), 1)
    return Score(
        precision=matched / found_names.total() if found_names else float(not right_names),
        recall=matched / right_names.total() if right_names else float(not found_names),
        nesting=_nesting(found.headings, right.headings),
        # Words of headings may stand in for words of the body where headings are not known as such.
        coverage=1 - (right_words - found_words).total() / max(right_words.total(), 1) if body else 1.0,
        order=_order(words(found.body), words(right.body)),
        furniture=(beyond & Counter(words(right.furniture))).total() / read,
        surplus=beyond.total() / read,
        seconds=seconds,
        megabytes=megabytes,
    )


def _nesting(found: Sequence[tuple[int, str]], right: Sequence[tuple[int, str]]) -> float:
    levels: dict[str, list[int]] = defaultdict(list)
    for level, text in reversed(found):
        levels[" ".join(words(text))].append(level)
    pairs = [(level, levels[name].pop()) for level, text in right if levels[name := " ".join(words(text))]]
    if len(pairs) < 2:
        return 1.0
    steps = [(_sign(b[0] - a[0]), _sign(b[1] - a[1])) for a, b in itertools.pairwise(pairs)]
    return sum(known == read for known, read in steps) / len(steps)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _shingles(text: Sequence[str]) -> dict[tuple[str, ...], int]:
    """Groups of neighbouring words that occur once, with their place."""
    places: dict[tuple[str, ...], int] = {}
    counts: Counter[tuple[str, ...]] = Counter()
    for place in range(len(text) - _SHINGLE + 1):
        group = tuple(text[place : place + _SHINGLE])
        counts[group] += 1
        places[group] = place
    return {group: place for group, place in places.items() if counts[group] == 1}


def _order(found: Sequence[str], right: Sequence[str]) -> float:
    """Share of the common groups of words that form the longest run in the right order."""
    there = _shingles(found)
    places = [there[group] for group in _shingles(right) if group in there]
    ends: list[int] = []
    for place in places:
        at = bisect.bisect_left(ends, place)
        ends[at : at + 1] = [place]
    return len(ends) / len(places) if places else 1.0


def read_with_graphdoc(path: Path) -> Reading:
    """Read a file as ``Document.from_file`` does."""
    return _from_document(Document.from_file(path))


def read_with_trafilatura(path: Path) -> Reading:
    """Read HTML with trafilatura."""
    import trafilatura

    text = trafilatura.extract(
        path.read_bytes(), output_format="markdown", include_tables=True, include_comments=False, favor_recall=True
    )
    return _from_document(Document.from_markdown(text or ""))


def read_with_readability(path: Path) -> Reading:
    """Read HTML with readability-lxml; its summary is HTML again."""
    from readability import Document as Page

    page = Page(path.read_text(encoding="utf-8", errors="replace"))
    return _from_document(Document.from_html(page.summary(), title=page.short_title()))


def _from_document(document: Document) -> Reading:
    headings = [(section.level, section.heading) for section in document.sections if section.heading]
    return Reading(document.title, headings, document.text)


# Readers by name, with the kinds of files they read; None for all.
READERS: dict[str, tuple[Callable[[Path], Reading], frozenset[str] | None]] = {
    "graphdoc": (read_with_graphdoc, None),
    "trafilatura": (read_with_trafilatura, frozenset({"html"})),
    "readability": (read_with_readability, frozenset({"html"})),
}


def files(folder: Path) -> list[Path]:
    """The files of a set that have their known structure beside them, sorted."""
    return sorted(
        path.with_name(path.name.removesuffix(".json"))
        for path in folder.glob("*/*/*.json")
        if path.with_name(path.name.removesuffix(".json")).is_file()
    )


def measure(read: Callable[[Path], Reading], path: Path, attempts: int = 2) -> Score:
    """Read a file and score it; the best time of a few attempts counts."""
    right, megabytes = known(path), path.stat().st_size / 1e6
    seconds = []
    try:
        for _ in range(attempts):
            start = _processor_seconds()
            found = read(path)
            seconds.append(_processor_seconds() - start)
    except GraphdocError as error:
        return Score(0, 0, 0, 0, 0, 0, 0, 0, megabytes, str(error))
    return score(found, right, min(seconds), megabytes)


def _processor_seconds() -> float:
    """Time of this process and of those that it started and that still run, whatever else the machine does."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def table(scores: Mapping[str, Mapping[str, Score]]) -> str:
    """Markdown: a row for each reader, kind and generator, and one for all of a kind."""
    lines = [
        "| kind | generator | reader | files | heading F1 | nesting | lost % "
        "| order | furniture % | surplus % | CPU s/MB |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    groups: dict[tuple[str, str], dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for reader, found in scores.items():
        for name, one in found.items():
            kind, generator, _ = name.split("/", 2)
            groups[kind, generator][reader].append(one)
            groups[kind, "~"][reader].append(one)
    for (kind, generator), readers in sorted(groups.items()):
        for reader, found in readers.items():
            lines.append(f"| {kind} | {'**all**' if generator == '~' else generator} | {reader} | {_row(found)} |")
    return "\n".join(lines)


def _row(scores: Sequence[Score]) -> str:
    def mean(values: Iterable[float]) -> float:
        return statistics.fmean(values)

    megabytes = sum(one.megabytes for one in scores)
    seconds = sum(one.seconds for one in scores)
    failed = sum(bool(one.error) for one in scores)
    return " | ".join(
        (
            f"{len(scores)}" + (f" ({failed} not read)" if failed else ""),
            f"{mean(one.f1 for one in scores):.3f}",
            f"{mean(one.nesting for one in scores):.3f}",
            f"{100 * mean(1 - one.coverage for one in scores):.2f}",
            f"{mean(one.order for one in scores):.3f}",
            f"{100 * mean(one.furniture for one in scores):.2f}",
            f"{100 * mean(one.surplus for one in scores):.2f}",
            f"{seconds / megabytes:.2f}" if megabytes else "",
        )
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=SET, help="the set (default: %(default)s)")
    parser.add_argument("--readers", nargs="+", default=["graphdoc"], choices=sorted(READERS))
    parser.add_argument("--kinds", nargs="+", help="read only these kinds")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the scores of every file as JSON")
    parser.add_argument("--beside", nargs="+", default=[], metavar="NAME=FILE", help="show saved scores, too")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="list the N files that were read worst")
    parser.add_argument("--name", help="write benchmarks/results/NAME.md")
    chosen = parser.parse_args(arguments)
    paths = [path for path in files(chosen.folder) if not chosen.kinds or path.parts[-3] in chosen.kinds]
    if not paths:
        parser.error(f"{chosen.folder} holds no set; make one with the scripts of benchmarks/reading_set")
    scores: dict[str, dict[str, Score]] = {}
    for entry in chosen.beside:
        name, _, file = entry.partition("=")
        rows = json.loads(Path(file).read_text(encoding="utf-8"))["graphdoc"]
        scores[name] = {key: Score(**row) for key, row in rows.items()}
    for name in chosen.readers:
        read, kinds = READERS[name]
        fitting = [path for path in paths if kinds is None or path.parts[-3] in kinds]
        scores[name] = {"/".join(path.parts[-3:]): measure(read, path) for path in fitting}
        for key, one in sorted(scores[name].items(), key=lambda item: (item[1].f1, item[1].coverage))[: chosen.worst]:
            print(
                f"{name} {key}: F1 {one.f1:.2f}, lost {1 - one.coverage:.4f}, order {one.order:.2f}, "
                f"furniture {one.furniture:.4f}, surplus {one.surplus:.4f} {one.error}"
            )
    shown = table(scores)
    print(shown)
    if chosen.save:
        rows_by_reader = {name: {key: asdict(one) for key, one in found.items()} for name, found in scores.items()}
        chosen.save.write_text(json.dumps(rows_by_reader, indent=1), encoding="utf-8")
    if chosen.name:
        text = f"# {chosen.name.replace('_', ' ').capitalize()}\n\n{shown}\n\n{describe_machine()}\n"
        write_result(chosen.name, text)


if __name__ == "__main__":
    main()
