"""Files that say which documents belong together: pairs with labels, and links such as citations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ...errors import DocumentError
from ...runtime.text import require_one_of
from ..parsing.formats import numbered_lines
from ..section import clean_text

Unknown = Literal["stop", "leave_out"]

# First lines that name the columns of links; of pairs the word "label" in the third column does.
_LINK_COLUMNS = {
    *(("id_a", "id_b"), ("id1", "id2"), ("citing_id", "cited_id"), ("citing", "cited")),
    *(("source_id", "target_id"), ("source", "target"), ("from", "to")),
}
_LABEL_COLUMN = "label"


class LabelledPair(NamedTuple):
    """Ids of two documents, and 1 if they belong together, else 0."""

    a: str
    b: str
    label: int

    @property
    def documents(self) -> tuple[str, str]:
        """Both ids in alphabetical order: the same for a pair and its reverse."""
        return (self.a, self.b) if self.a <= self.b else (self.b, self.a)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of documents that know where they are from.

    Args:
        source: name of their file; empty for pairs made in Python.
        lines: line of every pair in the file.
    """

    pairs: tuple[LabelledPair, ...]
    source: str = ""
    lines: tuple[int, ...] = ()

    @classmethod
    def from_sequence(cls, pairs: Pairs | Sequence[tuple[str, str, int]]) -> Pairs:
        """Pairs as they are, or made of a sequence of them; a DocumentError names one that is none."""
        if isinstance(pairs, Pairs):
            return pairs
        wrong, rows = "a pair is expected as two ids and 0 or 1", enumerate(pairs, start=1)
        made = (one if isinstance(one, LabelledPair) else _pair(one, 3, f"pair {row:,}: {wrong}") for row, one in rows)
        return cls(tuple(made))

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def __iter__(self) -> Iterator[LabelledPair]:
        """The pairs one by one."""
        return iter(self.pairs)

    @property
    def name(self) -> str:
        """What to call them in messages."""
        return self.source or "the pairs"

    def location(self, number: int) -> str:
        """Where a pair is from, for messages."""
        return f"{self.source}:{self.lines[number]}" if self.lines else f"pair {number + 1:,}"

    def select(self, numbers: Sequence[int]) -> Pairs:
        """Some of the pairs, by their positions."""
        lines = tuple(self.lines[number] for number in numbers) if self.lines else ()
        return replace(self, pairs=tuple(self.pairs[number] for number in numbers), lines=lines)

    def among(
        self,
        ids: Collection[str],
        unknown: Unknown = "stop",
        *,
        setting: str = "unknown=leave_out, on the command line --on-error skip",
    ) -> Pairs:
        """The pairs whose documents are both there.

        Args:
            ids: ids of the documents that are there.
            unknown: ``stop`` at a pair of which a document is not there, or ``leave_out`` such pairs.
            setting: what leaves them out, for the message.

        Raises:
            DocumentError: a document is not there; the message says in which line.
        """
        require_one_of("unknown", unknown, get_args(Unknown))
        known = ids if isinstance(ids, set | frozenset | dict) else set(ids)
        missing = [number for number, pair in enumerate(self.pairs) if not (pair.a in known and pair.b in known)]
        if not missing:
            return self
        if unknown == "stop":
            pair = self.pairs[missing[0]]
            id = pair.b if pair.a in known else pair.a
            raise DocumentError(
                f"{self.location(missing[0])}: there is no document {id!r} among those read ({len(missing):,} of "
                f"{len(self):,} pairs lack one); read the corpus that the pairs are from, or leave such pairs out "
                f"({setting})"
            )
        gone = set(missing)
        return self.select([number for number in range(len(self)) if number not in gone])

    @property
    def with_themselves(self) -> int:
        """Number of pairs of a document with itself."""
        return sum(pair.a == pair.b for pair in self.pairs)

    @property
    def repeated(self) -> int:
        """Number of pairs that occur before, in this order or the other."""
        return len(self) - len({pair.documents for pair in self.pairs})

    def require_agreement(self) -> None:
        """Raise DocumentError for pairs that belong together in one line and do not in another."""
        first: dict[tuple[str, str], int] = {}
        for number, pair in enumerate(self.pairs):
            other = first.setdefault(pair.documents, number)
            if self.pairs[other].label != pair.label:
                raise DocumentError(
                    f"{self.location(number)}: {pair.a!r} and {pair.b!r} have the label {pair.label}, but "
                    f"{self.pairs[other].label} in {self.location(other)}; keep one of the two"
                )


def read_pair_file(path: str | Path) -> Pairs:
    r"""Read pairs from a file of three columns separated by tabs: two ids, and 1 if they belong together, else 0.

    A first line whose third column is ``label`` is a heading. A name that ends in ``.gz`` is uncompressed.

    Raises:
        DocumentError: the file cannot be read, has no pairs, or a line is not of this form or contradicts another.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = path.write_text("rice\tsalt\t1\nrice\ttides\t0\n")
    >>> [(pair.a, pair.b, pair.label) for pair in read_pair_file(path)]
    [('rice', 'salt', 1), ('rice', 'tides', 0)]
    """
    pairs = _read(path, 3, "a pair is expected as id_a, id_b and 0 or 1 with tabs between")
    pairs.require_agreement()
    return pairs


def read_link_file(path: str | Path) -> Pairs:
    """Read links, such as citations, from a file of two columns of ids separated by a tab; all have the label 1.

    A first line of two column names, such as ``citing`` and ``cited``, is a heading; errors as for
    :func:`read_pair_file`.
    """
    return _read(path, 2, "a link is expected as two ids with a tab between")


def read_any_pairs(path: str | Path) -> Pairs:
    """Read pairs whose labels do not matter: two ids in a line with a tab between, and a label or none."""
    for _, line in numbered_lines(path):
        return read_link_file(path) if len(line.split("\t")) == 2 else read_pair_file(path)
    return read_pair_file(path)


def _pair(given: Iterable[Any], columns: int, wrong: str) -> LabelledPair:
    """A pair of two cells or three, whose ids are read as those of documents are; DocumentError says what is wrong."""
    cells = [str(cell) for cell in given] if isinstance(given, Iterable) else []
    ids = [clean_text(cell).strip() for cell in cells[:2]]
    if len(cells) != columns or not all(ids) or cells[2:] not in ([], ["0"], ["1"]):
        raise DocumentError(wrong)
    return LabelledPair(ids[0], ids[1], int(cells[2]) if cells[2:] else 1)


def _read(path: str | Path, columns: int, expected: str) -> Pairs:
    if not str(path):
        raise DocumentError("the name of a file of pairs is empty; name a file")
    pairs, lines = [], []
    for number, line in numbered_lines(path):
        cells = tuple(line.split("\t"))
        if number == 1 and (cells in _LINK_COLUMNS or (len(cells) == 3 and cells[2].lower() == _LABEL_COLUMN)):
            continue
        pairs.append(_pair(cells, columns, f"{path}:{number}: {expected}; mend the line"))
        lines.append(number)
    if not pairs:
        raise DocumentError(f"{path}: there is no pair in it; {expected}, one in a line")
    return Pairs(tuple(pairs), str(path), tuple(lines))
