"""Plain text to sections: headings by underlines, numbers, capitals and indentation; words at line ends joined."""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from .outline import CONTENTS, PARTS, Outline, ParsedDocument, parsed_document, words

_UNDERLINE = re.compile(r"\s*([=\-~^\"'`#*+.:_])\1{2,}\s*")
_NUMBERED = re.compile(
    rf"(?:(?P<word>{PARTS}|book|article|annex|schedule|title|canto|act|scene|letter|volume)\s+|第\s*)?"
    r"(?P<number>(?:\d{1,3}|[A-Z]|[IVXLC]{1,7})(?:\.\d{1,3})*)(?P<end>[.):\u2014-]|\s*章|)"
    r"(?:(?:\s+|(?<=章))(?P<name>\S.*))?",
    re.IGNORECASE,
)
_MARKED = re.compile(r"(#{1,6}|={1,6})\s+(\S.*?)(?:\s+[#=]+)?\s*")
# What lines of code begin with, and those of text do not.
_CODE = re.compile(r"[a-z$</._(]")
_LEADERS = re.compile(r"(?:\. ?){4,}\s*\w*\s*$|\t\d+\s*$|_{4,}|\s{3,}\d{1,4}\s*$")
_PAGE_LINE = re.compile(
    r"(?i)\s*.*\[Page \w+\]\s*|(?:RFC \d+|Internet-Draft)\s{2,}.+\s{2,}\w+ \d{4}\s*|File: [\w.+-]+,  Node: .+,  .*"
)
# Directives of reStructuredText and the marks of a version control system, before anything else.
_IN_FRONT = re.compile(r"\.\. [\w-]+::.*|\$[A-Z]\w+(?:: .*)?\$\s*")
_MANUAL_LINE = re.compile(r"\s*(?P<name>[\w.:+@\[-]+\(\d\w*\))\s{2,}.*|.*\s{2,}[\w.:+@\[-]+\(\d\w*\)\s*")
# A line that ends in a letter and a hyphen, and one that goes on with a small letter.
_HYPHEN = re.compile(r"(?<![^\W\d_])([^\W\d_]{2,})[-\u2010]\n[ \t]*(?=([^\W\d_]+))")
_SOFT_HYPHEN = re.compile(r"\xad\n[ \t]*")
_WORD = re.compile(r"[^\W\d_]+")
_LONGEST_HEADING, _MOST_INDENTED, _LEAST_INDENTED, _FEWEST_LINES, _MOST_HEADING_LINES = 100, 8, 0.7, 8, 3
# Where man puts the headings of subsections; text stands at seven.
_SUBHEADING_INDENT = 4
_COLUMNS = re.compile(r"\S\s{2,}\S.*\S\s{2,}\S")
# An entry of a table of contents: the dots that lead to its page, and the sign of a list before it.
_PAGE = re.compile(r"[ \t]*(?:\. ?){4,}[ \t]*(\d{1,4}|[ivxlc]{1,7})$")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")
_BULLET = re.compile(r"[*+•\u2013-][ \t]+")
_ITEM = re.compile(r"(?:[*+-]|\d{1,3}[.)])[ \t]")
_MOST_ENTRY_LINES, _FEWEST_ENTRIES, _LONGEST_NUMBER, _LONGEST_KEY = 4, 3, 12, 24


@dataclass(slots=True, order=True)
class _Heading:
    line: int
    text: str
    kind: str
    depth: int = 1
    # How many lines it takes, its underline included.
    lines: int = 1


def parse_plain_text(text: str, *, headings: bool = True) -> ParsedDocument:
    """Parse plain text, such as manual pages, RFCs and books, into sections.

    Headings are lines of their own that are underlined, are marked with ``#`` or ``=``, are numbered in order, stand
    further to the left than the text, or are in capitals. Words that are hyphenated at the end of a line are joined
    where the text has them elsewhere without a hyphen. Running heads and tables of contents are left out and counted.
    """
    outline = Outline()
    if not headings:
        outline.write(text)
        return outline.finish()
    lines, dropped, title = _without_running_heads(text.split("\n"))
    lines, entries = without_contents(lines)
    found = _headings(lines, manual=bool(title))
    levels = _levels(found)
    underlined, start = _underlined(lines), 0
    if not title and underlined and not any(map(str.strip, lines[: underlined[0].line])):
        opening, top = underlined[0], [heading.line for heading in found if levels[heading.line] == 1]
        if len(underlined) == 1 or top == [opening.line]:
            title, start = opening.text, opening.line + opening.lines
            found = [heading for heading in found if heading.line != opening.line]
    joined = _joiner(text)
    for heading in found:
        outline.write(joined("\n".join(lines[start : heading.line])))
        outline.start_section(heading.text, levels[heading.line])
        start = heading.line + heading.lines
    outline.write(joined("\n".join(lines[start:])))
    left_out = Counter({"page-header": dropped, "table of contents": entries})
    return parsed_document(outline.finish(opening_title=False).sections, title, left_out)


def _without_running_heads(lines: list[str]) -> tuple[list[str], int, str]:
    """Lines without those at the edges of pages and of a manual page, how many these were, and the manual's name."""
    kept: list[str] = []
    dropped = 0
    for line in lines:
        bare = line.replace("\f", "").replace("\b", "")
        shapes = [_PAGE_LINE] if any(kept) else [_PAGE_LINE, _IN_FRONT]
        if len(bare) <= 2 * _LONGEST_HEADING and any(shape.fullmatch(bare) for shape in shapes):
            dropped += 1
            # The page break stands in the middle of a paragraph, or between two.
            while kept and not kept[-1].strip():
                kept.pop()
            kept.append("")
            continue
        if not bare.strip() and ("\f" in line or not (kept and kept[-1].strip())):
            continue
        kept.append(bare)
    filled = [number for number, line in enumerate(kept) if line.strip()]
    title = ""
    if len(filled) > _FEWEST_LINES and (name := _manual_line(kept[filled[0]])) and name["name"]:
        title = name["name"]
        for number in (filled[0], filled[-1]):
            if _manual_line(kept[number]):
                kept[number] = ""
                dropped += 1
    return kept, dropped, title


def without_contents(lines: list[str], *, in_lists: bool = False) -> tuple[list[str], int]:
    """Lines without tables of contents, and the number of their entries, each of which stands alone further down."""
    filled = [number for number, line in enumerate(lines) if any(map(str.isalnum, line))]
    places = _short_paragraphs(lines)
    taken: set[int] = set()
    at = count = 0
    while at < len(filled):
        is_called = at > 0 and CONTENTS.fullmatch(lines[filled[at - 1]].strip(" \t:*_=#")) is not None
        entries, last, once, bare = [at - 1], filled[at], 0, 0
        # Without a heading they stand near the beginning, and what they say once more, to the end.
        for place in range(at, len(filled) if is_called or 3 * at < len(filled) else at):
            line = lines[filled[place]].strip()[: 2 * _LONGEST_HEADING]
            # An entry may take several lines.
            most = _MOST_ENTRY_LINES if is_called or len(entries) > _FEWEST_ENTRIES else 1
            if place - entries[-1] > most or (in_lists and not _ITEM.match(line)):
                break
            page = _PAGE.search(line)
            there = places.get(_words(_BULLET.sub("", line[: page.start()] if page else line, count=1)), [])
            later = bisect.bisect_right(there, max(last, filled[place]))
            if later < len(there):
                once += later + 1 == len(there)
                bare += there[later] == last + 2
                last = there[later]
            if later < len(there) or page:
                entries.append(place)
        opens = 2 * once > len(entries) and 3 * last > 2 * len(lines)
        if len(entries) > _FEWEST_ENTRIES and 2 * bare < len(entries) and (is_called or opens):
            taken.update(range(filled[at - is_called], filled[entries[-1]] + 1))
            count += len(entries) - 1
        at = max(entries[-1], at) + 1
    return [line for number, line in enumerate(lines) if number not in taken], count


def _short_paragraphs(lines: list[str]) -> dict[str, list[int]]:
    """Where paragraphs of a few lines stand that may be headings, by their words."""
    places: dict[str, list[int]] = {}
    # A heading of Markdown needs no empty line below it.
    kinds = ((any(map(str.isalnum, line)), line.startswith("#")) for line in lines)
    for (is_text, _), block in itertools.groupby(enumerate(lines), lambda _: next(kinds)):
        part = list(itertools.islice(block, _MOST_ENTRY_LINES + 1))
        text = " ".join(line.strip() for _, line in part)
        is_sentence = text.endswith(".") and not any(map(str.isdigit, text[:_LONGEST_NUMBER]))
        if is_text and len(part) <= _MOST_ENTRY_LINES and not (is_sentence or text[-1] in ",;:" or _BULLET.match(text)):
            places.setdefault(_words(text), []).append(part[0][0])
    return places


def _words(heading: str) -> str:
    """The first words of a heading, since lines break elsewhere in a table of contents, without its number."""
    heading = _LINK.sub(r"\1", heading[: 2 * _LONGEST_HEADING]).lstrip("# ")
    while (found := _NUMBERED.fullmatch(heading)) and found["name"]:
        heading = found["name"]
    return words(heading)[:_LONGEST_KEY]


def _manual_line(line: str) -> re.Match[str] | None:
    return _MANUAL_LINE.fullmatch(line) if len(line) <= 2 * _LONGEST_HEADING else None


def _headings(lines: list[str], *, manual: bool) -> list[_Heading]:
    outdented = _outdented(lines, manual=manual)
    if manual and outdented:
        return outdented
    found, below = _underlined(lines), [*lines[1:], ""]
    taken = {number for heading in found for number in range(heading.line - 1, heading.line + heading.lines)}
    marked = [
        _Heading(number, match[2].strip(), "mark", len(match[1]))
        for number, line in enumerate(lines)
        if number not in taken
        and len(line) <= 2 * _LONGEST_HEADING
        and _stands_alone(lines, number)
        and (match := _MARKED.fullmatch(line.rstrip()))
        # Several in a row are a comment.
        and not below[number].startswith(f"{match[1]} ")
    ]
    numbered = _numbered(lines)
    # Above lines of code they are comments, and where more headings have numbers, from the first on.
    is_below = numbered[:1] < marked[:1] and len(numbered) > len(marked)
    if is_below or 2 * sum(_CODE.match(below[heading.line]) is not None for heading in marked) > len(marked):
        marked = []
    if len(found) + len(marked) >= 2:
        return sorted([*found, *marked])
    if len(outdented) >= 2:
        chapters = [one for one in numbered if one.kind.startswith("word") and lines[one.line][:1].isspace()]
        return sorted([*outdented, *chapters])
    capital = [heading for heading in _capital(lines) if heading.line not in {other.line for other in numbered}]
    if len(numbered) >= 2 and len(capital) >= 2 and len(capital) > 3 * len(numbered):
        numbered = []
    return sorted([*found, *marked, *numbered, *capital])


def _levels(headings: list[_Heading]) -> dict[int, int]:
    """Levels by line: kinds and depths in the order in which they first appear, deeper ones inside of others."""
    kinds = list(dict.fromkeys(heading.kind for heading in headings))
    # Within one kind depth decides, whatever comes first.
    ranks = {heading.line: (kinds.index(heading.kind), heading.depth) for heading in headings}
    ranked = sorted(set(ranks.values()))
    return {line: ranked.index(rank) + 1 for line, rank in ranks.items()}


def _stands_alone(lines: list[str], number: int) -> bool:
    return number == 0 or not lines[number - 1].strip()


def _is_blank_after(lines: list[str], number: int) -> bool:
    return number + 1 >= len(lines) or not lines[number + 1].strip()


def _underlined(lines: list[str]) -> list[_Heading]:
    found: list[_Heading] = []
    styles: dict[tuple[str, bool], int] = {}
    for number in range(1, len(lines)):
        rule = _UNDERLINE.fullmatch(lines[number])
        name = lines[number - 1].strip()
        if rule is None or not name or len(name) > _LONGEST_HEADING or _UNDERLINE.fullmatch(name):
            continue
        length = len(lines[number].strip())
        over = number > 1 and lines[number - 2].strip() == lines[number].strip()
        alone = number < 2 or not lines[number - 2].strip() or over
        # A table has rules below its head too, but with spaces in them, or text in the line above.
        alone = alone and any(map(str.isalpha, name)) and not _COLUMNS.search(name)
        if not alone or not 0.5 * len(name) <= length <= 2 * len(name) + 12:
            continue
        line, depth = number - 1 - over, styles.setdefault((rule[1], over), len(styles) + 1)
        found.append(_Heading(line, name, "underline", depth, number - line + 1))
    return found


def _outdented(lines: list[str], *, manual: bool) -> list[_Heading]:
    """Headings of manual pages and RFCs: lines at the margin, where all other text is indented."""
    filled = [line for line in lines if line.strip()]
    indented = [line for line in filled if line[0] in " \t"]
    if len(filled) < _FEWEST_LINES or len(indented) < (0.5 if manual else _LEAST_INDENTED) * len(filled):
        return []
    found: list[_Heading] = []
    following, last = _indents_of_what_follows(lines)
    for number, line in enumerate(lines):
        name = line.strip()
        if not name:
            continue
        indent = _indent(line)
        alone, count = _stands_alone(lines, number), 1
        if alone and not indent and not manual:
            # Several lines at the margin are a paragraph, or a heading with a number.
            block = list(itertools.takewhile(lambda other: other[:1].strip(), lines[number : number + 9]))
            name, count = " ".join(map(str.strip, block)), len(block)
            alone = count == 1 or (count <= _MOST_HEADING_LINES and re.match(r"\d+[.)]", name) is not None)
        is_short = len(name) <= count * _LONGEST_HEADING and name[-1] not in ".,;" and "©" not in name
        is_short = is_short and any(map(str.isalpha, name))
        if indent == 0 and is_short and (alone or manual) and not _LEADERS.search(name):
            number_match = _NUMBERED.fullmatch(name)
            depth = 1
            if number_match and number_match["name"] and not number_match["word"]:
                depth = number_match["number"].count(".") + 1
            if number < last and (following[number] > 0 or depth > 1 or found or number_match or name.isupper()):
                found.append(_Heading(number, " ".join(name.split()), "margin", depth, count))
            continue
        is_sub = manual and 0 < indent <= _SUBHEADING_INDENT and is_short and alone and number < last
        if is_sub and not _is_blank_after(lines, number) and _indent(lines[number + 1]) > indent:
            found.append(_Heading(number, " ".join(name.split()), "margin", 2))
    return found


def _indents_of_what_follows(lines: list[str]) -> tuple[list[int], int]:
    """For every line the indentation of the next one that is not blank, and the number of the last of those."""
    indents, last, indent = [0] * len(lines), -1, 0
    for number in range(len(lines) - 1, -1, -1):
        indents[number] = indent
        if lines[number].strip():
            indent, last = _indent(lines[number]), max(last, number)
    return indents, last


def _indent(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())


def _numbered(lines: list[str]) -> list[_Heading]:
    """Numbered lines that stand alone, whose numbers go on from one another, with text between them."""
    found: list[_Heading] = []
    for number, line in enumerate(lines):
        name = line.strip()
        if not name or len(name) > _LONGEST_HEADING or not _stands_alone(lines, number):
            continue
        match = _NUMBERED.fullmatch(name)
        if match is None or not _is_blank_after(lines, number) or _LEADERS.search(name):
            continue
        word, value, named = (match["word"] or "").lower(), match["number"], match["name"] or ""
        # The names of chapters may be centred.
        if not word and (not named or named[0].islower() or name[-1] in ".,;:" or _indent(line) > _MOST_INDENTED):
            continue
        if not word and not (value[0].isdigit() or (value.isupper() and (match["end"] or "." in value))):
            continue
        if word and named and name[-1] in ",;":
            continue
        kind = f"word {word}" if word else "number" if value[0].isdigit() else "letter"
        found.append(_Heading(number, " ".join(name.split()), kind, value.count(".") + 1))
    kinds = Counter(heading.kind for heading in found)
    headings = [heading for heading in found if kinds[heading.kind] >= 2]
    # Where most follow one another they are a list.
    empty = 0
    for heading, following in itertools.zip_longest(headings, headings[1:]):
        end = following.line if following else len(lines)
        is_parent = following is not None and following.depth > heading.depth
        empty += not is_parent and not any(line.strip() for line in lines[heading.line + 1 : end])
    return headings if 2 * empty <= len(headings) else []


def _capital(lines: list[str]) -> list[_Heading]:
    """Lines in capitals that stand alone before a blank line or before indented text."""
    found: list[_Heading] = []
    for number, line in enumerate(lines):
        name = line.strip()
        letters = [character for character in name if character.isalpha()]
        if len(letters) < 3 or len(name) > _LONGEST_HEADING or not all(map(str.isupper, letters)):
            continue
        is_sparse = len(letters) < 0.5 * len(name.replace(" ", ""))
        if is_sparse or name[-1] in ",;" or _LEADERS.search(name) or not _stands_alone(lines, number):
            continue
        text, count = name, 1
        if not _is_blank_after(lines, number) and _indent(lines[number + 1]) <= _indent(line):
            following = lines[number + 1].strip()
            if following.isupper() and _is_blank_after(lines, number + 1):
                # A heading of two lines.
                text, count = f"{name} {following}", 2
            elif following.isupper() or not following[:1].isupper():
                continue
        if number and found and found[-1].line + found[-1].lines > number:
            continue
        found.append(_Heading(number, " ".join(text.split()), "capital", 1, count))
    return found if _is_rare(lines, found) else []


def _is_rare(lines: list[str], headings: list[_Heading]) -> bool:
    """Whether capitals are the exception; in a text of capitals they say nothing."""
    letters = Counter("upper" if letter.isupper() else "lower" for letter in "".join(lines) if letter.isalpha())
    return letters["upper"] < 0.5 * letters.total() and 2 * len(headings) <= sum(bool(line.strip()) for line in lines)


def _joiner(text: str) -> Callable[[str], str]:
    """A function that joins words that were divided at the end of a line, if the text has them undivided."""
    if _HYPHEN.search(text) is None and "\xad" not in text:
        return lambda part: part
    known = Counter(word.casefold() for word in _WORD.findall(text))
    compounds = Counter(word.casefold() for word in re.findall(r"(?<![^\W\d_])[^\W\d_]+-[^\W\d_]+", text))

    def joined(found: re.Match[str]) -> str:
        first, second = found[1], found[2]
        both_known = known[first.casefold()] > 1 and known[second.casefold()] > 1
        keeps = compounds[f"{first}-{second}".casefold()] > 0
        keeps |= not known[f"{first}{second}".casefold()] and (second[0].isupper() or both_known)
        return f"{first}-" if keeps else first

    return lambda part: _HYPHEN.sub(joined, _SOFT_HYPHEN.sub("", part))
