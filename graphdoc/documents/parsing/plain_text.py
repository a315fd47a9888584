"""Plain text to sections: headings by underlines, numbers, capitals and indentation; words at line ends joined."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from .outline import Break, Outline, ParsedDocument, joined_lines, parsed_document

_UNDERLINE = re.compile(r"\s*([=\-~^\"'`#*+.:_])\1{2,}\s*")
_NUMBERED = re.compile(
    r"(?:(?P<word>chapter|part|book|section|article|appendix|annex|schedule|title|canto|act|scene|letter|volume)\s+)?"
    r"(?P<number>(?:\d{1,3}|[A-Z]|[IVXLC]{1,7})(?:\.\d{1,3})*)(?P<end>[.):\u2014-]?)(?:\s+(?P<name>\S.*))?",
    re.IGNORECASE,
)
_MARKED = re.compile(r"(#{1,6}|={1,6})\s+(\S.*?)(?:\s+[#=]+)?\s*")
_LEADERS = re.compile(r"(?:\. ?){4,}\s*\w*\s*$|\t\d+\s*$|_{4,}|\s{3,}\d{1,4}\s*$")
_PAGE_LINE = re.compile(
    r"(?i)\s*.*\[Page \w+\]\s*|(?:RFC \d+|Internet-Draft)\s{2,}.+\s{2,}\w+ \d{4}\s*|File: [\w.+-]+,  Node: .+,  .*"
)
# Directives of reStructuredText and the marks of a version control system, before anything else.
_IN_FRONT = re.compile(r"\.\. [\w-]+::.*|\$[A-Z]\w+(?:: .*)?\$\s*")
_MANUAL_LINE = re.compile(r"\s*(?P<name>[\w.:+@\[-]+\(\d\w*\))\s{2,}.*|.*\s{2,}[\w.:+@\[-]+\(\d\w*\)\s*")
# A line that ends in a letter and a hyphen, and one that goes on with a small letter.
_HYPHEN = re.compile(r"(?<=[^\W\d_][^\W\d_])[-\u2010]\n[ \t]*(?=[^\W\d_])")
_SOFT_HYPHEN = re.compile(r"\xad\n[ \t]*")
_WORD = re.compile(r"[^\W\d_]+")
_LONGEST_HEADING, _LEAST_INDENTED, _FEWEST_LINES, _MOST_HEADING_LINES = 100, 0.7, 8, 3
# Where man puts the headings of subsections; text stands at seven.
_SUBHEADING_INDENT = 4
_COLUMNS = re.compile(r"\S\s{2,}\S.*\S\s{2,}\S")


@dataclass(slots=True)
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
    where the text has them elsewhere without a hyphen. Running heads of pages are left out and counted.
    """
    outline = Outline()
    if not headings:
        outline.write(text)
        return outline.finish()
    lines, dropped, title = _without_running_heads(text.split("\n"))
    found = _headings(lines, manual=bool(title))
    levels = _levels(found)
    if not title and found and found[0].kind == "underline" and not any(map(str.strip, lines[: found[0].line])):
        title = found.pop(0).text if len([heading for heading in found if levels[heading.line] == 1]) == 1 else ""
    underlined = [] if title else _underlined(lines)
    if len(underlined) == 1 and not any(map(str.strip, lines[: underlined[0].line])):
        title = underlined[0].text
        found = [heading for heading in found if heading.line != underlined[0].line]
    joined = _joiner(text)
    start = _after_title(lines, title)
    for heading in found:
        _write(outline, lines[start : heading.line], joined)
        outline.start_section(heading.text, levels[heading.line])
        start = heading.line + heading.lines
    _write(outline, lines[start:], joined)
    sections = outline.finish(opening_title=False).sections
    return parsed_document(sections, title, Counter({"page-header": dropped} if dropped else {}))


def _after_title(lines: list[str], title: str) -> int:
    """The line after an underlined title that opens the text; an overline belongs to it as well."""
    for number, line in enumerate(lines):
        if line.strip() and _UNDERLINE.fullmatch(line) is None:
            is_title = bool(title) and joined_lines(line) == title and number + 1 < len(lines)
            return number + 2 if is_title and _UNDERLINE.fullmatch(lines[number + 1]) else 0
    return 0


def _write(outline: Outline, lines: list[str], joined: Callable[[str], str]) -> None:
    text = "\n".join(lines).strip("\n").rstrip()
    if text:
        outline.separate(Break.PARAGRAPH)
        outline.write(joined(text))


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
        if "\f" in line and not bare.strip():
            continue
        if not (bare.strip() or (kept and kept[-1].strip())):
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


def _manual_line(line: str) -> re.Match[str] | None:
    return _MANUAL_LINE.fullmatch(line) if len(line) <= 2 * _LONGEST_HEADING else None


def _headings(lines: list[str], *, manual: bool) -> list[_Heading]:
    outdented = _outdented(lines, manual=manual)
    if manual and outdented:
        return outdented
    found = _underlined(lines)
    taken = {number for heading in found for number in range(heading.line - 1, heading.line + heading.lines)}
    marked = [
        _Heading(number, match[2].strip(), "mark", len(match[1]))
        for number, line in enumerate(lines)
        if number not in taken
        and len(line) <= 2 * _LONGEST_HEADING
        and _stands_alone(lines, number)
        and (match := _MARKED.fullmatch(line.rstrip()))
        # Several in a row are a comment.
        and not (number + 1 < len(lines) and lines[number + 1].startswith(f"{match[1]} "))
    ]
    if len(found) + len(marked) >= 2:
        return sorted([*found, *marked], key=lambda heading: heading.line)
    if len(outdented) >= 2:
        return outdented
    numbered = _numbered(lines)
    capital = [heading for heading in _capital(lines) if heading.line not in {other.line for other in numbered}]
    if len(numbered) >= 2 and len(capital) >= 2 and len(capital) > 3 * len(numbered):
        numbered = []
    return sorted([*found, *marked, *numbered, *capital], key=lambda heading: heading.line)


def _levels(headings: list[_Heading]) -> dict[int, int]:
    """Levels by line: kinds and depths in the order in which they first appear, deeper ones inside of others."""
    order = list(dict.fromkeys((heading.kind, heading.depth) for heading in headings))
    # Within one kind depth decides, whatever comes first.
    first = {kind: order.index(next(key for key in order if key[0] == kind)) for kind, _ in order}
    rank = {key: number for number, key in enumerate(sorted(order, key=lambda key: (first[key[0]], key[1])), start=1)}
    return {heading.line: rank[heading.kind, heading.depth] for heading in headings}


def _stands_alone(lines: list[str], number: int) -> bool:
    return number == 0 or not lines[number - 1].strip()


def _is_blank_after(lines: list[str], number: int) -> bool:
    return number + 1 >= len(lines) or not lines[number + 1].strip()


def _underlined(lines: list[str]) -> list[_Heading]:
    found: list[_Heading] = []
    styles: list[tuple[str, bool]] = []
    for number in range(1, len(lines)):
        rule = _UNDERLINE.fullmatch(lines[number])
        name = lines[number - 1].strip()
        if rule is None or not name or len(name) > _LONGEST_HEADING or _UNDERLINE.fullmatch(name):
            continue
        length = len(lines[number].strip())
        over = number > 1 and lines[number - 2].strip() == lines[number].strip()
        alone = number < 2 or not lines[number - 2].strip() or over
        # A table has rules below its head too, but with spaces in them, or text in the line above.
        if not alone or not 0.5 * len(name) <= length <= 2 * len(name) + 12 or not any(map(str.isalpha, name)):
            continue
        if _COLUMNS.search(name):
            continue
        style = (rule[1], over)
        if style not in styles:
            styles.append(style)
        line = number - 2 if over else number - 1
        found.append(_Heading(line, name, "underline", styles.index(style) + 1, number - line + 1))
    return found


def _outdented(lines: list[str], *, manual: bool) -> list[_Heading]:
    """Headings of manual pages and RFCs: lines at the margin, where all other text is indented."""
    filled = [line for line in lines if line.strip()]
    indented = [line for line in filled if line[0] in " \t"]
    if len(filled) < _FEWEST_LINES or len(indented) < (0.5 if manual else _LEAST_INDENTED) * len(filled):
        return []
    found: list[_Heading] = []
    began = False
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
            if number < last and (following[number] > 0 or depth > 1 or began or number_match or name.isupper()):
                found.append(_Heading(number, " ".join(name.split()), "margin", depth, count))
                began = True
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
        if match is None or not _is_blank_after(lines, number) or _LEADERS.search(name) or _indent(line) > 8:
            continue
        word, value = (match["word"] or "").lower(), match["number"]
        if not word and (not match["name"] or name[-1] in ".,;:?" or (not value.isupper() and not value[0].isdigit())):
            continue
        if not word and not (match["end"] or "." in value or value.isdigit()):
            continue
        if not word and match["name"][0].islower():
            continue
        if word and match["name"] and name[-1] in ",;":
            continue
        kind = f"word {word}" if word else "number" if value[0].isdigit() else "letter"
        found.append(_Heading(number, " ".join(name.split()), kind, value.count(".") + 1))
    kinds = Counter(heading.kind for heading in found)
    return _with_text_between(lines, [heading for heading in found if kinds[heading.kind] >= 2])


def _with_text_between(lines: list[str], headings: list[_Heading]) -> list[_Heading]:
    """Nothing where most numbered lines follow one another: they are a list, or a table of contents."""
    empty = 0
    for heading, following in itertools.zip_longest(headings, headings[1:]):
        end = following.line if following else len(lines)
        is_parent = following is not None and following.depth > heading.depth
        empty += not is_parent and not any(line.strip() for line in lines[heading.line + 1 : end])
    if 2 * empty <= len(headings):
        return headings
    # A table of contents comes first; what follows it may be the headings themselves.
    listed: set[str] = set()
    kept = []
    for heading in headings:
        if heading.text.casefold() in listed:
            kept.append(heading)
        listed.add(heading.text.casefold())
    return kept


def _capital(lines: list[str]) -> list[_Heading]:
    """Lines in capitals that stand alone before a blank line or before indented text."""
    found: list[_Heading] = []
    for number, line in enumerate(lines):
        name = line.strip()
        letters = [character for character in name if character.isalpha()]
        if len(letters) < 3 or len(name) > _LONGEST_HEADING or not all(map(str.isupper, letters)):
            continue
        if len(letters) < 0.5 * len(name.replace(" ", "")) or name[-1] in ",;" or _LEADERS.search(name):
            continue
        if not _stands_alone(lines, number):
            continue
        text, count = name, 1
        if not _is_blank_after(lines, number):
            following = lines[number + 1]
            if _indent(following) <= _indent(line) and following.strip().isupper():
                # A heading of two lines.
                if not _is_blank_after(lines, number + 1):
                    continue
                text, count = f"{name} {following.strip()}", 2
            elif _indent(following) <= _indent(line) and not following.strip()[:1].isupper():
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

    def join(part: str) -> str:
        part = _SOFT_HYPHEN.sub("", part)
        pieces: list[str] = []
        position = 0
        for found in _HYPHEN.finditer(part):
            before = _WORD.search(part[max(0, found.start() - 60) : found.start()][::-1])
            after = _WORD.match(part, found.end())
            if before is None or after is None:
                continue
            first, second = before[0][::-1], after[0]
            pieces.append(part[position : found.start()])
            whole = f"{first}{second}".casefold()
            both_known = known[first.casefold()] > 1 and known[second.casefold()] > 1
            keeps = compounds[f"{first}-{second}".casefold()] > 0
            keeps |= not known[whole] and (second[0].isupper() or both_known)
            pieces.append("-" if keeps else "")
            position = found.end()
        pieces.append(part[position:])
        return "".join(pieces)

    return join
