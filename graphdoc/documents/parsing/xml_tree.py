"""Parsing XML from strangers: no entity is expanded, no DTD loaded, nothing fetched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lxml import etree

from ...errors import DocumentError

if TYPE_CHECKING:
    from lxml.etree import _Element

_PROLOG = re.compile(r"(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
# Comments and instructions in a DOCTYPE may hold anything, also what looks like the root element.
_ROOT = re.compile(r"<!--|<\?|<[^\W\d]")


def parse_tree(text: str) -> _Element:
    """Parse XML text safely.

    A DOCTYPE that only names a DTD, as JATS files have, is accepted and never loaded.

    Args:
        text: the XML source; an encoding in its declaration is ignored.

    Returns:
        The root element.

    Raises:
        DocumentError: the DOCTYPE declares entities.
        lxml.etree.XMLSyntaxError: the text is not well-formed.
    """
    _refuse_entities(text)
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        # Texts of more than 10 MB are legitimate; the limits that this lifts guard against entities, refused above.
        huge_tree=True,
        remove_comments=True,
        remove_pis=True,
    )
    root = etree.fromstring(text.lstrip().encode("utf-8"), parser)
    subset: Any = root.getroottree().docinfo.internalDTD
    if subset is not None and subset.entities():
        raise DocumentError("its DOCTYPE declares entities, which are not read for safety; save the XML without them")
    return root


def _refuse_entities(text: str) -> None:
    prolog = _PROLOG.match(text)
    start = prolog.end() if prolog else 0
    if not text.startswith("<!DOCTYPE", start):
        return
    if "<!ENTITY" in text[start : _root(text, start)]:
        raise DocumentError("its DOCTYPE declares entities, which are not read for safety; save the XML without them")


def _root(text: str, start: int) -> int:
    """Where the root element starts; what has no end, in text that is not well-formed, goes on to the end."""
    while (found := _ROOT.search(text, start)) is not None:
        end = {"<!--": "-->", "<?": "?>"}.get(found[0])
        if end is None:
            return found.start()
        closed = text.find(end, found.end())
        if closed < 0:
            break
        start = closed + len(end)
    return len(text)
