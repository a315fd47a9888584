"""LaTeX to sections, by xberg (extra ``ingest``)."""

from __future__ import annotations

from typing import Any

from ...errors import DocumentError
from .extraction import extract
from .latex import prepare_latex
from .outline import Break, Outline, ParsedDocument, one_line

MIME_TYPES = {
    "latex": "application/x-latex",
}

_SEPARATE_KINDS = frozenset({"list", "quote", "definition_list", "page_break", "admonition", "slide"})


def parse_rich_format(content: bytes, kind: str, *, name: str = "") -> ParsedDocument:
    """Parse a LaTeX file.

    Args:
        content: the bytes of the file in UTF-8.
        kind: ``latex``.
        name: file name, which helps the library to distinguish variants.

    Returns:
        Title, sections, and under ``warnings`` what the library could not read.

    Raises:
        MissingExtraError: xberg is not installed.
        DocumentError: the file is broken.
    """
    title = ""
    if kind == "latex":
        title, prepared = prepare_latex(content.decode("utf-8"))
        content = prepared.encode("utf-8")
    try:
        return _parse_nodes(extract(content, MIME_TYPES[kind], name), title)
    except DocumentError as error:
        raise DocumentError(f"it cannot be read as {kind.upper()}: {error}") from error.__cause__


def _parse_nodes(extracted: dict[str, Any], styled_title: str) -> ParsedDocument:
    outline = Outline()
    for node in extracted["nodes"]:
        kind = node["node_type"]
        if node["layer"] not in ("body", "footnote"):
            continue
        if node["style"] == "Title" and kind in ("group", "heading", "title"):
            styled_title = one_line(node.get("heading_text") or node.get("text") or "")
        elif kind == "title":
            styled_title = one_line(node["text"])
        elif kind == "heading":
            outline.start_section(node["text"], int(node["level"]))
        else:
            _write_node(outline, kind, node)
    parsed = outline.finish(opening_title=not styled_title)
    title = extracted["title"]
    metadata: dict[str, Any] = {}
    own_title = styled_title or parsed.title
    if own_title and title and own_title != title:
        metadata["file_title"] = title
    if extracted["warnings"]:
        metadata["warnings"] = [one_line(warning) for warning in extracted["warnings"]]
    return ParsedDocument(parsed.sections, own_title or one_line(title), metadata)


def _write_node(outline: Outline, kind: str, content: dict[str, Any]) -> None:
    if kind in _SEPARATE_KINDS:
        outline.separate(Break.PARAGRAPH)
    elif kind == "list_item":
        outline.separate(Break.LINE)
        outline.write(content["text"].strip())
        outline.separate(Break.LINE)
    elif kind == "table":
        outline.separate(Break.PARAGRAPH)
        rows: dict[int, list[str]] = {}
        for cell in content["grid"]["cells"]:
            rows.setdefault(cell["row"], []).append(one_line(cell["content"]))
        outline.write("\n".join("\t".join(cells) for _, cells in sorted(rows.items())))
        outline.separate(Break.PARAGRAPH)
    elif kind == "definition_item":
        outline.separate(Break.LINE)
        outline.write(f"{content['term']}\n{content['definition']}")
    else:
        text = content.get("text") or content.get("description") or ""
        if kind == "raw_block":
            text = content["content"]
        outline.separate(Break.PARAGRAPH)
        outline.write(str(text).strip())
        outline.separate(Break.PARAGRAPH)
