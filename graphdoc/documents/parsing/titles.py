"""The title of a document, and the lines of fields in front of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..section import Section
from .outline import ParsedDocument, joined_lines

# ``Key: value`` as in mails, memos and proposals, or ``:Key: value`` of reStructuredText.
_FIELD = re.compile(
    r"(?::(?P<marked>[A-Za-z][\w -]{0,40}):|(?P<key>[A-Z](?:[A-Za-z.]|-\w| [A-Z])*):)(?:[ \t]+(?P<value>.*))?$"
)
_MORE = re.compile(r"[ \t]+\S")
_FURTHER_NAMES = """
address bdfl-delegate category cc contact content-transfer-encoding content-type copyright delegate discussions-to
distribution editor editors eip erc followup-to in-reply-to keywords lang language last-modified layout license lines
message-id mime-version modified newsgroups nntp-posting-host nosearch organisation organization orphan path pep
pep-delegate post-history posting-date python-version received references release-date replaces reply-to requires
resolution return-path revision sender slug sponsor status superseded-by tags to tocdepth topic type updated version
x-mailer x-newsreader xref
"""
# One of these has to be among them, and none but those and the further ones: "Abstract: ..." is text.
_TELLING = frozenset({"title", "subject", "author", "authors", "date", "created", "from"})
_FURTHER = frozenset(_FURTHER_NAMES.split())
_PEOPLE = frozenset({"author", "authors", "editor", "editors", "from", "to", "cc", "reply-to", "sponsor", "delegate"})
# What is read although it stands in a field.
_TEXTS = frozenset({"abstract", "dedication", "description", "summary"})
_LONGEST_FIELD = 500
# The head of an RFC or a draft: what it is on the left, who wrote it and when on the right.
_MEMO = re.compile(r"(?:request for comments: *\d+|internet[- ]draft)(?:\s{3}|$)", re.IGNORECASE)
_BLANK_LINES, _GAP = re.compile(r"\n(?:[ \t\f]*+\n)++"), re.compile(r"\s{3,}")
_NAME = re.compile(r"(?:[A-Z]\. ?)+\S")
_DATE = re.compile(r"(?:\d{1,2} )?[A-Z][a-z]+ (?:\d{1,2}, )?\d{4}")
_DRAFT = re.compile(r"<?draft-[\w.-]+>?$")
_LEFT_SIDE = 30
_CENTRED = " " * 5
_MOST_TITLE_LINES = 4
_MOST_LINES = 100
_ADDRESS = re.compile(r"[<(\[]?(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+[>)\]]?")
_LONGEST_VALUE = 2_000
# What programs write where nobody gave a title.
_NO_TITLE = re.compile(
    r"(?:untitled|no ?name|unbenannt|sans titre|\(anonymous\)|microsoft word - |(?:document|slide|page) ?\d*$)"
    r"|(?:powerpoint )?presentation ?\d*$|.*\.(?:dvi|tex|docx?|odt|indd|qxd|pptx?|rtf|ps|pdf)$",
    re.IGNORECASE,
)
_SAYS_NOTHING = re.compile(
    r"(?:untitled|no ?name|unbenannt|sans titre|\(anonymous\)|document|slide|page)[\s\d.-]*", re.IGNORECASE
)
_LONGEST_TITLE = 120
_NO_FIRST_LINE = re.compile(r"#!|\w+://|(?:copyright|dear|hello|hi|sehr geehrte|liebe|ch[eè]re?|estimad[oa])\b", re.I)
_BY_LINE = re.compile(r"(?:[^\n]{1,60}\n)?(?:[Bb]y|BY|[Vv]on|[Pp]ar|[Pp]or|[Dd]i) [A-Z][^\n]{1,60}(?<![.,;:])\n")
_ENDS_NO_TITLE = (".", ",", ";", ":", "!", "?", "…", "-")
# What parts are called, and numbers as they tell parts apart.
_PART_NAMES = """
abstract background building contents description foreword installation introduction name options overview preface
status summary synopsis usage einführung einleitung inhalt vorwort zusammenfassung résumé sommaire
"""
_PARTS = frozenset(_PART_NAMES.split())
_NUMBERS = re.compile(r"\b[IVXLC]+\b|\d+(?:\.\d+)*|[\s.:()]+")
_MANUAL_NAME = re.compile(r"[^\s,]+(?:, [^\s,]+)* [-\u2013\u2014\u2212] .{3,100}")
_LONGEST_OPENING, _MOST_SPREAD = 1_000, 8


def split_fields(text: str) -> tuple[dict[str, str], str, str]:
    """Take the lines of fields off the head of a text, such as those of mails, memos and proposals.

    Gives the fields by their names in small letters, addresses of mail left out, those that are text, and what follows
    them. A text without a field such as a title, an author or a date has none.
    """
    if memo := _split_memo(text):
        return memo[0], "", memo[1]
    lines = text.lstrip("\n").split("\n", _MOST_LINES)
    fields: dict[str, str] = {}
    # Those of messages have any names, and may be repeated.
    name, is_message = "", False
    taken = 0
    for line in lines[:_MOST_LINES]:
        found = _FIELD.match(line) if len(line) <= _LONGEST_VALUE else None
        if found:
            name = (found["marked"] or found["key"]).strip().lower().replace(" ", "-")
            is_message |= not found["marked"] and (name in fields or name not in _TELLING | _FURTHER)
            fields[name] = ", ".join(filter(None, (fields.get(name), found["value"])))
        elif name and _MORE.match(line):
            fields[name] = f"{fields[name]} {line.strip()}"
        else:
            break
        taken += 1
    rest = lines[taken:]
    if len(fields) < 2 or not rest or rest[0].strip() or not "".join(rest).strip() or _TELLING.isdisjoint(fields):
        return {}, "", text
    if is_message and not fields.keys() >= {"from", "subject"}:
        return {}, "", text
    texts = [fields.pop(name) for name in sorted(_TEXTS & fields.keys())]
    return _cleaned(fields), "\n".join(texts), "\n".join(rest)


def _cleaned(fields: Mapping[str, str]) -> dict[str, str]:
    """Values on one line, those of people without their addresses."""
    kept = {key: joined_lines(value) for key, value in fields.items()}
    for key in _PEOPLE & kept.keys():
        kept[key] = joined_lines(_ADDRESS.sub("", kept[key])).strip(" ,") or kept[key]
    return kept


def metadata_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Those of the fields below a title that are metadata: not an abstract, nor what may be a list of definitions."""
    if fields.keys() <= _TELLING | _FURTHER or not _TELLING.isdisjoint(fields):
        short = {name: value for name, value in fields.items() if len(value) <= _LONGEST_FIELD}
        return _cleaned({name: value for name, value in short.items() if name not in _TEXTS})
    return {}


def _split_memo(text: str) -> tuple[dict[str, str], str] | None:
    """As :func:`split_fields` of an RFC or an Internet-Draft; its title is the centred lines below the head."""
    head, *rest = _BLANK_LINES.split(text.lstrip("\n\f "), maxsplit=1)
    lines = head.split("\n")
    if not rest or len(lines) > _MOST_LINES or not any(map(_MEMO.match, lines)):
        return None
    fields: dict[str, str] = {}
    name = "series"
    for line in lines:
        columns = _GAP.split(line.strip())
        if line[:_LEFT_SIDE].strip():
            key, colon, value = columns.pop(0).partition(":")
            if colon:
                name = key.lower()
            fields[name] = f"{fields.get(name, '')} {value if colon else key}"
        for part in columns:
            key = "author" if _NAME.match(part) else "date" if _DATE.fullmatch(part) else "organization"
            fields[key] = f"{fields[key]}, {part}" if key in fields else part
    below, *more = _BLANK_LINES.split(rest[0], maxsplit=1)
    lines = below.split("\n")
    if more and len(lines) <= _MOST_TITLE_LINES and all(line.startswith(_CENTRED) for line in lines):
        fields["draft"] = " ".join(filter(_DRAFT.match, map(str.strip, lines)))
        fields["title"] = " ".join(line for line in map(str.strip, lines) if not _DRAFT.match(line))
        rest = more
    return _cleaned(fields), rest[0]


def titled(parsed: ParsedDocument, *, is_text: bool) -> ParsedDocument:
    """Give a document without a title, or with a program's, that of its first heading or of its first line.

    The heading stays where it is, and so does the line, which counts in plain text alone.
    """
    if not parsed.sections or (parsed.title and not _NO_TITLE.match(parsed.title)):
        return parsed
    title = _name_of_all(parsed.sections, is_text=is_text)
    first = parsed.sections[0]
    if is_text and not title and not first.heading:
        line, _, rest = first.text.strip().partition("\n")
        stands_apart = rest[:1] in ("", "\n") and (len(parsed.sections) > 1 or len(rest) > len(line) + 1)
        if (
            (stands_apart or _BY_LINE.match(rest) or _is_centred(first.text))
            and len(line) <= _LONGEST_TITLE
            and not line.rstrip().endswith(_ENDS_NO_TITLE)
            and 2 * sum(map(str.isalpha, line)) > len(line)
            and not _NO_FIRST_LINE.match(line)
        ):
            title = joined_lines(line)
    return replace(parsed, title=title or ("" if _SAYS_NOTHING.fullmatch(parsed.title) else parsed.title))


def _name_of_all(sections: Sequence[Section], *, is_text: bool) -> str:
    """The first heading where it names the document and not a part of it; of a manual page what its "Name" says.

    "Changes in 1.2" over "Changes in 1.1", and "Introduction" beside other headings, are parts. Text may stand before
    the only heading of level 1.
    """
    headings = [section for section in sections if section.heading]
    if not headings:
        return ""
    first, *others = headings
    called, *further = (_NUMBERS.sub(" ", section.heading).strip().casefold() for section in headings)
    if called == "name" and _MANUAL_NAME.fullmatch(joined_lines(first.text)):
        return joined_lines(first.text)
    is_only = all(other.level > first.level for other in others)
    is_part = called in _PARTS or (called != first.heading.casefold() and called in further)
    if first is sections[0]:
        return first.heading if is_only or not is_part else ""
    may_follow = is_only and first.level == 1 and not is_text and len(sections[0].text) <= _LONGEST_OPENING
    return first.heading if may_follow and not is_part else ""


def _is_centred(text: str) -> bool:
    """Whether the first lines, up to an empty one, stand around the same middle, as those of a title page do."""
    head = [line.expandtabs().rstrip() for line in itertools.takewhile(str.strip, text.strip("\n").split("\n"))]
    middles = [2 * len(line) - len(line.lstrip()) for line in head if line.startswith(_CENTRED)]
    return len(middles) == len(head) > 1 and max(middles) - min(middles) <= _MOST_SPREAD
