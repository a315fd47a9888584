"""Mails (EML) to sections: the subject is the title, then the body and mails inside it; attachments are named."""

from __future__ import annotations

import email
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage
from email.policy import EmailPolicy
from typing import Any, cast

from ....errors import DocumentError
from ...section import Section, clean_text
from ..files import parse_text
from ..outline import ParsedDocument, joined_lines

_KEPT = {"From": "from", "To": "to", "Date": "date"}
# Many newsletters have no more than a link in their plain text.
_STUB = 0.5
# Of longer headers the parser takes time that grows with the square of their length.
_LONGEST_HEADER = 4_000
_DEEPEST_LEVEL = 100


class _Policy(EmailPolicy):
    """Takes headers as they are written where they are too long, or nested too deeply, to be parsed."""

    def header_fetch_parse(self, name: str, value: Any) -> Any:
        is_needed = name.lower().startswith("content-")
        value = value[:_LONGEST_HEADER] if is_needed else value
        if len(value) <= _LONGEST_HEADER:
            with suppress(RecursionError):
                return super().header_fetch_parse(name, value)
            if is_needed:
                return super().header_fetch_parse(name, value.partition("(")[0])
        return joined_lines(clean_text(value))


def parse_mail(content: bytes) -> ParsedDocument:
    """Parse a mail; its metadata are ``from``, ``to``, ``date`` and the names of ``attachments``."""
    try:
        policy: Any = _Policy()
        return _parse(cast("EmailMessage", email.message_from_bytes(content, EmailMessage, policy=policy)))
    except RecursionError:
        raise DocumentError("its parts are nested too deeply; save the mails inside it one by one") from None


def _parse(message: EmailMessage, *, is_inside: bool = False) -> ParsedDocument:
    metadata: dict[str, Any] = {}
    warnings: list[str] = []
    subject = _header(message, "Subject")
    for name, key in _KEPT.items():
        value = _header(message, name)
        if value:
            metadata[key] = value
    if not metadata and not subject and not is_inside:
        raise DocumentError("it is no mail: it has neither sender nor subject nor date; name it .txt if it is a text")
    plain, html = (_text(message.get_body((kind,)), warnings) for kind in ("plain", "html"))
    parsed = parse_text(clean_text(html), "html") if html else ParsedDocument(())
    if plain.strip():
        words = sum(len(section.text.split()) for section in parsed.sections)
        # Of two forms of a mail, the one with headings says more.
        if len(plain.split()) >= _STUB * words and not any(section.heading for section in parsed.sections):
            parsed = parse_text(clean_text(plain), "text")
    sections, attachments = list(parsed.sections), list[str]()
    for part in message.iter_attachments():
        if inner := _mails_in(part):
            for mail in inner:
                sections += _sections_of(mail)
        else:
            attachments.append(joined_lines(part.get_filename() or part.get_content_type()))
    if attachments:
        metadata["attachments"] = attachments
    if warnings:
        metadata["warnings"] = warnings
    metadata |= {key: value for key, value in parsed.metadata.items() if key == "dropped_elements"}
    if parsed.title and parsed.title != subject:
        metadata["heading"] = parsed.title
    return ParsedDocument(tuple(sections), subject or parsed.title, metadata)


def _mails_in(part: EmailMessage) -> list[EmailMessage]:
    kind = part.get_content_type()
    if kind == "message/rfc822":
        return [one for one in part.get_payload() if isinstance(one, EmailMessage)]
    if kind.startswith("multipart/"):
        return [mail for one in part.iter_parts() for mail in _mails_in(cast("EmailMessage", one))]
    return []


def _sections_of(message: EmailMessage) -> list[Section]:
    """A mail inside another as sections: one with its subject as heading, its own sections and mails below that."""
    mail = _parse(message, is_inside=True)
    heading = mail.title or mail.metadata.get("from", "") or "(no subject)"
    opening = Section("", heading, 1, (heading,))
    inner = list(mail.sections)
    if inner and not inner[0].heading:
        opening = replace(opening, text=inner.pop(0).text)
    below = [replace(one, level=min(one.level + 1, _DEEPEST_LEVEL), path=(heading, *one.path)) for one in inner]
    return [opening, *below]


def _header(message: EmailMessage, name: str) -> str:
    try:
        return joined_lines(str(message.get(name, "")))
    except (ValueError, IndexError, AttributeError, LookupError):
        # Headers that break the rules bring the parser down.
        return ""


def _text(part: Any, warnings: list[str]) -> str:
    if part is None:
        return ""
    try:
        return str(part.get_content())
    except (LookupError, ValueError, AttributeError):
        content = part.get_payload(decode=True) or b""
        warnings.append(f"its character set {part.get_content_charset()!r} is unknown; read as Latin 1")
        return bytes(content).decode("latin-1")
