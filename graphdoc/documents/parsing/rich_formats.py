"""PDF, DOCX and LaTeX to sections, by xberg (extra ``ingest``)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...errors import DocumentError, MissingExtraError
from .outline import Break, Outline, ParsedDocument, one_line

MIME_TYPES = {
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "latex": "application/x-latex",
}

# A % elsewhere may belong to an address.
_COMMENT = re.compile(r"^[ \t]*%[^\n]*\n?|(?<=\s)%[^\n]*", re.MULTILINE)
_MACRO = re.compile(r"\\(?:re)?newcommand\*?\s*\{?\\([A-Za-z]+)\}?\s*\{([^{}\\]*)\}")
_REFERENCE = re.compile(
    r"[~ ]?\\(?:[A-Za-z]*cite[A-Za-z]*|(?:eq|auto|page|name|c|C|v)?ref)\*?(?:\[[^\]]*\])*\{([^{}]*)\}"
)
_LABEL = re.compile(r"\\label\{[^{}]*\}")
_SECTIONING = re.compile(
    r"(\\(?:part|chapter|(?:sub)*section|(?:sub)?paragraph)\*?\s*(?:\[[^\]]*\])?\{(?:[^{}]|\{[^{}]*\})*\}"
    r"|\\(?:begin|end)\{(?:document|abstract)\})[ \t]*"
)
_STRUCTURAL = re.compile(
    r"\\(?:begin|end|part|chapter|(?:sub)*section|(?:sub)?paragraph|item|bibitem|caption|documentclass|usepackage|title|"
    r"author|date|maketitle|input|include|bibliography|par|appendix|centering|noindent\s*$)(?![a-z])|\\[\[\]]|\$\$"
)
_LINE_WISE = re.compile(
    r"\\(begin|end)\{(?:verbatim|lstlisting|minted|tabular|tabularx|longtable|array|equation|align|gather|eqnarray|"
    r"multline|displaymath|math|alltt|comment|tikzpicture)\*?\}"
)
_TITLE = re.compile(r"\\title\s*(?:\[[^\]]*\])?\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
# What a title holds besides its words: notes, line breaks and spaces, commands, braces.
_TITLE_MARKUP = (
    (re.compile(r"\\(?:thanks|footnote)\*?\{(?:[^{}]|\{[^{}]*\})*\}"), ""),
    (re.compile(r"\\\\(?:\*|\[[^\]]*\])?|~"), " "),
    (re.compile(r"\\[A-Za-z]+\*?\s*|[{}]"), ""),
    (re.compile(r"\\(?=[^A-Za-z])"), ""),
)
_SEPARATE_KINDS = frozenset({"list", "quote", "definition_list", "page_break", "admonition", "slide"})


def parse_rich_format(content: bytes, kind: str, *, name: str = "") -> ParsedDocument:
    """Parse a PDF, DOCX or LaTeX file.

    Args:
        content: the bytes of the file; LaTeX in UTF-8.
        kind: ``pdf``, ``docx`` or ``latex``.
        name: file name, which helps the library to tell variants apart.

    Returns:
        Title, sections, and under ``warnings`` what the library could not read.

    Raises:
        MissingExtraError: xberg is not installed.
        DocumentError: the file is broken.
    """
    try:
        import xberg
    except ImportError:
        raise MissingExtraError("xberg", "ingest", f"read {name or 'PDF, DOCX and LaTeX'}") from None
    title = ""
    if kind == "latex":
        title, prepared = _prepare_latex(content.decode("utf-8"))
        content = prepared.encode("utf-8")
    config = xberg.ExtractionConfig(include_document_structure=True, use_cache=False, disable_ocr=True)
    source = xberg.ExtractInput(kind="bytes", bytes=content, mime_type=MIME_TYPES[kind], filename=name or None)

    async def extract() -> Any:
        return await xberg.extract(source, config)

    # xberg is asynchronous only; a thread of its own works inside a running event loop (a notebook) as well.
    with ThreadPoolExecutor(max_workers=1) as executor:
        try:
            result = executor.submit(lambda: asyncio.run(extract())).result()
        except (RuntimeError, ValueError, OSError) as error:
            raise DocumentError(
                f"it cannot be read as {kind.upper()}: {one_line(str(error))}; is it damaged?"
            ) from None
    if not result.results:
        reasons = "; ".join(one_line(str(error)) for error in result.errors) or "nothing was found in it"
        raise DocumentError(f"it cannot be read as {kind.upper()}: {reasons}")
    return _parse_nodes(result.results[0], title)


def _prepare_latex(text: str) -> tuple[str, str]:
    """Put LaTeX into the shape that xberg reads whole, and take the title out.

    It loses text that follows a section command on the same line and macros that users define, keeps comments, takes
    every line for a paragraph, and finds few titles.

    Returns:
        The title, empty if there is none, and the rest.
    """
    text = _COMMENT.sub("", text)
    macros = dict(_MACRO.findall(text))
    text = _MACRO.sub("", text)
    if macros:
        uses = re.compile(r"\\(" + "|".join(map(re.escape, macros)) + r")(?![A-Za-z])(?:\{\})?")
        text = uses.sub(lambda match: macros[match[1]], text)
    text = _LABEL.sub("", text)
    text = _REFERENCE.sub(lambda match: f" [{match[1]}]", text)
    found = _TITLE.search(text)
    title = found[1] if found else ""
    for markup, replacement in _TITLE_MARKUP:
        title = markup.sub(replacement, title)
    text = _TITLE.sub("", text)
    return one_line(title), "\n".join(_joined_lines(_SECTIONING.sub(r"\n\1\n", text).split("\n")))


def _joined_lines(lines: list[str]) -> Iterator[str]:
    """Join the lines of every paragraph, outside of environments in which lines count."""
    paragraph: list[str] = []
    line_wise = 0
    for line in lines:
        bare = line.strip()
        marks = _LINE_WISE.findall(line)
        line_wise += marks.count("begin") - marks.count("end")
        starts_anew = line_wise > 0 or bool(marks) or _STRUCTURAL.match(bare) is not None
        if paragraph and (not bare or starts_anew):
            yield " ".join(paragraph)
            paragraph = []
        is_item = bare.startswith("\\item") and line_wise <= 0
        if bare and (not starts_anew or is_item):
            paragraph.append(bare)
        else:
            yield line
    yield " ".join(paragraph)


def _parse_nodes(extracted: Any, styled_title: str) -> ParsedDocument:
    outline = Outline()
    title = str(extracted.metadata.title or "")
    nodes = extracted.document.nodes if extracted.document else []
    for node in nodes:
        if str(node.content_layer) not in ("body", "footnote"):
            continue
        content = json.loads(str(node.content))
        kind = content["node_type"]
        if (node.attributes or {}).get("style_name") == "Title" and kind in ("group", "heading", "title"):
            styled_title = one_line(content.get("heading_text") or content.get("text") or "")
        elif kind == "title":
            styled_title = one_line(content["text"])
        elif kind == "heading":
            outline.start_section(content["text"], int(content["level"]))
        else:
            _write_node(outline, kind, content)
    parsed = outline.finish(opening_title=not styled_title)
    metadata: dict[str, Any] = {}
    own_title = styled_title or parsed.title
    if own_title and title and own_title != title:
        metadata["file_title"] = title
    warnings = [one_line(str(warning.message)) for warning in extracted.processing_warnings or ()]
    if warnings:
        metadata["warnings"] = warnings
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
