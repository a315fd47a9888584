"""Mails (EML) to sections: the subject is the title, then the body and mails inside it; attachments are named."""

from __future__ import annotations

import binascii
import codecs
import email
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.errors import CloseBoundaryNotFoundDefect, InvalidBase64LengthDefect, MissingHeaderBodySeparatorDefect
from email.message import EmailMessage
from email.policy import EmailPolicy
from typing import Any, cast

from ....errors import DocumentError
from ...section import DEEPEST_PATH, Section, clean_text
from ..files import parse_text
from ..formats import AS_BROWSERS, decode, decode_declared, nearly_utf_8
from ..outline import ParsedDocument, joined_lines, parsed_document

_TEXTS = frozenset({"text/plain", "text/html", "text/markdown"})
_CUT = "it was cut off, since the end of a part is missing"
# Many newsletters have no more than a link in their plain text.
_STUB = 0.5
# Of longer headers the parser takes time that grows with the square of their length.
_LONGEST_HEADER = 4_000
_FEWEST_HEAD_LINES = 3
# Heads of messages that were pasted into others, in the languages of mail programs.
_HEAD_LINE = re.compile(r"(?:>[> ]*)?\*?([^\W\d_][\w-]{0,20})\xa0? ?:\*?\s*(.*)")
_HEAD_WORDS = {
    "from": "from von de da van från fra от 发件人 差出人",
    "subject": "subject betreff objet asunto oggetto onderwerp ämne emne assunto тема 主题 件名",
    "date": "date sent datum gesendet envoyé fecha enviado data inviato verzonden skickat sendt дата 日期 日時",
    "other": "to an à para a aan till til cc kopie copia message message-id in-reply-to references content-type "
    "content-transfer-encoding mime-version reply-to organization кому 收件人 宛先",
}
_HEAD_NAMES = {word: name for name, words in _HEAD_WORDS.items() for word in words.split()}
_SEPARATOR = re.compile(
    r"[> \t]*(?:[-_*=]{3,}(?:[^\n]*[-_*=]{3,})?|begin forwarded message:|anfang der weitergeleiteten nachricht:"
    r"|début du message (?:réexpédié|transféré) ?:|inicio del mensaje reenviado:)?\s*",
    re.IGNORECASE,
)
# The line above a signed text, and signatures, keys and what is encrypted.
_PGP = re.compile(
    r"^-----BEGIN PGP (?:SIGNED MESSAGE-----\n(?:\w+: .*\n)*\n|.*\n(?:(?!-----).*\n)*-----END PGP .*)", re.MULTILINE
)
# The beginning of a header's name.
_HEADER_NAME = re.compile(rb"[A-Za-z-]*")
# The encoding of a word in a header.
_CHARSET = re.compile(r"(?<==\?)[\w-]+(?=\?[BbQq]\?)")
# What base64 is not written with.
_NO_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")


class _Policy(EmailPolicy):
    """Takes headers as they are written where they are too long, or nested too deeply, to be parsed."""

    def header_fetch_parse(self, name: str, value: Any) -> Any:
        is_needed = name.lower().startswith("content-")
        value = value[:_LONGEST_HEADER] if is_needed else value
        value = _CHARSET.sub(lambda found: AS_BROWSERS.get(found[0].lower(), found[0]), value)
        if len(value) <= _LONGEST_HEADER:
            with suppress(RecursionError):
                return super().header_fetch_parse(name, value)
            if is_needed:
                return super().header_fetch_parse(name, value.partition("(")[0])
        return joined_lines(clean_text(value))


def parse_mail(content: bytes) -> ParsedDocument:
    """Parse a mail; its metadata are ``from``, ``to``, ``date`` and the names of ``attachments``."""
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\0" in content[:4]:
        content = decode(content, "utf-16-be" if content.startswith(b"\0") else "utf-16-le").encode()
    try:
        return _parse(_message(content))
    except RecursionError:
        raise DocumentError("its parts are nested too deeply; save the mails inside it one by one") from None


def _message(content: bytes) -> EmailMessage:
    policy: Any = _Policy()
    return cast("EmailMessage", email.message_from_bytes(content, EmailMessage, policy=policy))


def _parse(message: EmailMessage) -> ParsedDocument:
    metadata: dict[str, Any] = {name: value for name in ("from", "to", "date") if (value := _header(message, name))}
    subject = _header(message, "Subject")
    if not metadata and not subject:
        raise DocumentError("it is no mail: it has neither sender nor subject nor date; name it .txt if it is a text")
    content = _Content()
    _read(message, content, is_whole=True)
    if content.attachments:
        metadata["attachments"] = content.attachments
    parsed = parsed_document(tuple(content.sections), subject, content.dropped, content.warnings, heading=content.title)
    return replace(parsed, metadata={**metadata, **parsed.metadata})


@dataclass(slots=True)
class _Content:
    attachments: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    path: tuple[str, ...] = ()
    sections: list[Section] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    title: str = ""


def _read(part: Any, content: _Content, *, is_whole: bool = False) -> None:
    kind, name = part.get_content_type(), part.get_filename() or ""
    if _CUT not in content.warnings and any(isinstance(one, CloseBoundaryNotFoundDefect) for one in part.defects):
        content.warnings.append(_CUT)
    # One that says of itself that it has parts, and has none, is text.
    is_shown = kind.startswith("multipart/") or (kind in _TEXTS and (is_whole or not part.is_attachment()))
    if kind == "message/rfc822" or name.lower().endswith(".eml"):
        mails = part.get_payload() if part.is_multipart() else [_message(part.get_payload(decode=True) or b"")]
        if "base64" in str(part.get("Content-Transfer-Encoding", "")) and not mails[0].keys():
            # Against the rules, some servers pack whole mails.
            packed = _NO_BASE64.sub(b"", str(mails[0].get_payload()).encode("ascii", "ignore"))
            mails = [_message(binascii.a2b_base64(packed[: len(packed) // 4 * 4]))]
        for mail in mails:
            _read_inner(mail, content)
    elif kind == "multipart/alternative" and part.is_multipart():
        forms = []
        for inner in part.iter_parts():
            forms.append(_Content(content.attachments, content.warnings, content.path))
            _read(inner, forms[-1])
        forms = [form for form in forms if form.sections] or [_Content()]
        words = [sum(len(section.text.split()) for section in form.sections) for form in forms]
        # Of two forms of a mail, the one with headings says more.
        is_stub = words[0] < _STUB * words[-1] or any(section.heading for section in forms[-1].sections)
        chosen = forms[-1] if is_stub else forms[0]
        content.sections += chosen.sections
        content.dropped += chosen.dropped
        content.title = content.title or chosen.title
    elif kind.startswith("multipart/") and part.is_multipart():
        for inner in part.iter_parts():
            _read(inner, content)
    elif is_shown:
        text, signed = _PGP.subn("", clean_text(_text(part, content.warnings)))
        content.dropped += Counter({"PGP block": signed})
        parsed = parse_text(text, "html" if kind == "text/html" else "text")
        for section in [part for whole in parsed.sections for part in _with_pasted(whole)]:
            level = min(section.level + len(content.path), DEEPEST_PATH)
            content.sections.append(replace(section, level=level, path=(*content.path, *section.path)))
        content.dropped.update(parsed.metadata.get("dropped_elements", {}))
        content.title = content.title or parsed.title
    else:
        content.attachments.append(joined_lines(name or kind))


def _with_pasted(section: Section) -> list[Section]:
    """A section, and those of the messages that were pasted into it with their heads, each under its subject."""
    lines = section.text.split("\n")
    parts, is_quoted = [section], False
    kept: list[list[str]] = [[]]
    number = 0
    while number < len(lines):
        start, head, name = number, dict[str, str](), ""
        while number < len(lines):
            found = _HEAD_LINE.fullmatch(lines[number])
            if found is not None and found[1].lower() in _HEAD_NAMES:
                name = _HEAD_NAMES[found[1].lower()]
                head[name] = found[2]
            elif head and lines[number][:1] in " \t" and lines[number].strip():
                head[name] = f"{head[name]} {lines[number].strip()}".strip()
            else:
                break
            number += 1
        if number - start >= _FEWEST_HEAD_LINES and {"from", "subject"} <= head.keys():
            while kept[-1] and _SEPARATOR.fullmatch(kept[-1][-1]):
                kept[-1].pop()
            subject = head["subject"] or "(no subject)"
            parts.append(Section("", subject, 1, (subject,)))
            kept.append([])
            is_quoted = lines[start].lstrip().startswith(">")
        else:
            number = max(number, start + 1)
            kept[-1] += [line.lstrip(">").removeprefix(" ") if is_quoted else line for line in lines[start:number]]
    texts = ["\n".join(part).strip("\n") for part in kept]
    return [replace(part, text=text) for part, text in zip(parts, texts, strict=True) if part.heading or text.strip()]


def _read_inner(mail: EmailMessage, content: _Content) -> None:
    """Read a mail inside another: a section with its subject as heading, its own sections and mails below that."""
    heading = _header(mail, "Subject") or _header(mail, "From") or "(no subject)"
    path = (*content.path, heading)[-DEEPEST_PATH:]
    opening = Section("", heading, len(path), path)
    inner = _Content(content.attachments, content.warnings, path)
    _read(mail, inner, is_whole=True)
    if inner.sections and not inner.sections[0].heading:
        opening = replace(opening, text=inner.sections.pop(0).text)
    content.sections += [opening, *inner.sections]
    content.dropped += inner.dropped


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message.get(name, ""))
    except (ValueError, IndexError, AttributeError, LookupError):
        # Headers that break the rules bring the parser down.
        return ""
    if "\ufffd" in value:
        # Bytes beyond ASCII that are not UTF-8, as older programs wrote them.
        raw = next(str(found) for key, found in message.raw_items() if key.lower() == name.lower())
        value = decode_declared(raw.encode("utf-8", "surrogateescape"), "latin1") or value
    return joined_lines(value)


def _text(part: Any, warnings: list[str]) -> str:
    content = bytes(part.get_payload(decode=True) or b"")
    defects = {type(defect) for defect in part.defects}
    if InvalidBase64LengthDefect in defects:
        # Nothing of it was decoded.
        warnings += {_CUT} - set(warnings)
        letters = _NO_BASE64.sub(b"", content)
        content = binascii.a2b_base64(letters[: len(letters) // 4 * 4])
    elif MissingHeaderBodySeparatorDefect in defects and _HEADER_NAME.fullmatch(content):
        # It was cut off in its head, of which the last line is no text.
        content = b""
    declared = part.get_content_charset() or "us-ascii"
    # Whatever is declared: bytes beyond ASCII that are UTF-8 are hardly ever anything else.
    names = (declared,) if content.isascii() or b"\0" in content else ("utf-8", declared)
    for name in names:
        text = nearly_utf_8(content, warnings) if name == "utf-8" else decode_declared(content, name)
        if text is not None:
            return text
    warnings.append(f"its text is not {declared!r}; read as Latin 1")
    return decode_declared(content, "latin1") or ""
