"""What a document is called, and the lines of fields in front of it."""

from __future__ import annotations

import re
from dataclasses import replace

from .outline import ParsedDocument, one_line

# ``Key: value`` as in mails, memos and proposals, or ``:Key: value`` of reStructuredText.
_FIELD = re.compile(
    r"(?::(?P<marked>[A-Za-z][\w -]{0,40}):|(?P<key>[A-Z][A-Za-z]*(?:-[A-Z][a-z]+)*):)(?:[ \t]+(?P<value>.*))?$"
)
_MORE = re.compile(r"[ \t]+\S")
# One of these has to be among them: a text may begin with "Note: ..." too.
_TELLING = frozenset({"title", "subject", "author", "authors", "date", "created", "from"})
_MOST_LINES = 100
_ADDRESS = re.compile(r"[<(\[]?[\w.+-]+(?:@| at )[\w-]+(?:\.[\w-]+)+[>)\]]?")
# What programs write where nobody gave a title.
_NO_TITLE = re.compile(
    r"(?:untitled|no ?name|unbenannt|sans titre|microsoft word - |(?:document|presentation|slide|page) ?\d*$)"
    r"|.*\.(?:dvi|tex|docx?|odt|indd|qxd|pptx?|rtf|ps|pdf)$",
    re.IGNORECASE,
)
_LONGEST_TITLE = 120
_ENDS_NO_TITLE = (".", ",", ";", ":", "!", "?", "…", "-")


def split_fields(text: str) -> tuple[dict[str, str], str]:
    """Take the lines of fields off the head of a text, such as those of mails, memos and proposals.

    Args:
        text: the text.

    Returns:
        The fields by their names in small letters, addresses of mail left out; and what follows them. A text without
        a field such as a title, an author or a date has none.
    """
    lines = text.lstrip("\n").split("\n", _MOST_LINES)
    fields: dict[str, str] = {}
    name = ""
    taken = 0
    for line in lines[:_MOST_LINES]:
        if found := _FIELD.match(line):
            name = (found["marked"] or found["key"]).strip().lower()
            fields.setdefault(name, found["value"] or "")
        elif name and _MORE.match(line):
            fields[name] = f"{fields[name]} {line.strip()}"
        else:
            break
        taken += 1
    is_apart = taken == len(lines) or not lines[taken].strip()
    if len(fields) < 2 or not is_apart or _TELLING.isdisjoint(fields):
        return {}, text
    kept = {key: one_line(_ADDRESS.sub("", value)).strip(" ,") for key, value in fields.items()}
    return {key: value for key, value in kept.items() if value}, "\n".join(lines[taken:])


def titled(parsed: ParsedDocument, *, is_text: bool) -> ParsedDocument:
    """Give a document without a title that of its first heading, or of the line that a plain text begins with.

    The heading stays where it is, and so does the line.

    Args:
        parsed: the document; a title that only a program gave it counts as none.
        is_text: whether it is plain text.
    """
    if parsed.title and not _NO_TITLE.match(parsed.title):
        return parsed
    title = ""
    if parsed.sections:
        first = parsed.sections[0]
        line, _, rest = first.text.strip().partition("\n")
        stands_apart = rest.startswith("\n") or (not rest and len(parsed.sections) > 1)
        if first.heading:
            title = first.heading
        elif is_text and stands_apart and len(line) <= _LONGEST_TITLE and not line.rstrip().endswith(_ENDS_NO_TITLE):
            title = one_line(line)
    return replace(parsed, title=title or parsed.title)
