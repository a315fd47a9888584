"""LaTeX put into the shape that xberg reads whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .outline import one_line

# A % elsewhere may belong to an address.
_COMMENT = re.compile(r"^[ \t]*%[^\n]*\n?|(?<=\s)%[^\n]*", re.MULTILINE)
_MACRO = re.compile(r"\\(?:re)?newcommand\*?\s*\{?\\([A-Za-z]+)\}?\s*\{([^{}\\]*)\}")
_REFERENCE = re.compile(
    r"[~ ]?\\(?:[A-Za-z]*cite[A-Za-z]*|(?:eq|auto|page|name|c|C|v)?ref)\*?(?:\[[^\[\]]*\])*\{([^{}]*)\}"
)
_LABEL = re.compile(r"\\label\{[^{}]*\}")
# What has to stand on a line of its own, since xberg leaves out what follows it on the same line. Brackets in optional
# arguments end the search, so that it never runs on to the end of the text.
_SECTIONING = re.compile(
    r"(\\(?:part|chapter|(?:sub)*section|(?:sub)?paragraph)\*?\s*(?:\[[^\[\]]*\])?\{(?:[^{}]|\{[^{}]*\})*\}"
    r"|\\begin\{[A-Za-z]+\*?\}(?:\[(?:[!htbpHcTBM]*|[^\[\]\n=]*=[^\[\]\n]*)\]|\{[^{}\n]*\})*|\\end\{[A-Za-z]+\*?\}"
    r"|\\(?:input|include|bibliography|bibliographystyle|includegraphics|pagestyle|thispagestyle)"
    r"(?:\[[^\[\]\n]*\])?\{[^{}\n]*\})[ \t]*"
)
# Commands that show nothing, or what stands elsewhere in the file.
_WITHOUT_TEXT = re.compile(
    r"\\(?:newpage|clearpage|cleardoublepage|(?:no)?pagebreak(?:\[\d\])?|maketitle|tableofcontents|listoffigures"
    r"|listoftables|appendix|frontmatter|mainmatter|backmatter|printbibliography)(?![A-Za-z])[ \t]*"
)
_WITHIN_LINES = re.compile(r"\\(?:centering|raggedright|raggedleft|newline)(?![A-Za-z])[ \t]*")
# Of a figure without a picture xberg drops the caption.
_FLOAT = re.compile(r"\\(?:begin|end)\{(?:wrap)?(?:figure|table)\*?\}(?:\[[^\[\]\n]*\])*")
_CAPTION = re.compile(r"\\caption\*?(?:\[[^\[\]]*\])?\{((?:[^{}]|\{[^{}]*\})*)\}")
_ITEM = re.compile(r"(?<=[^\s\\])[ \t]*(?=\\item(?![A-Za-z]))")
_PREAMBLE = re.compile(r"^[ \t]*\\(?:documentclass|usepackage|RequirePackage)[^\n]*\n?", re.MULTILINE)
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


def prepare_latex(text: str) -> tuple[str, str]:
    """Put LaTeX into the shape that xberg reads whole, and take the title out.

    It loses text that follows commands for sections, environments and pages on the same line, files without a
    document environment, and macros that users define; it keeps comments, takes every line for a paragraph, and finds
    few titles.

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
    text = _WITHIN_LINES.sub("", _with_body(text))
    text = _CAPTION.sub(r"\n\n\1\n\n", _FLOAT.sub("\n\n", _WITHOUT_TEXT.sub("\n\n", text)))
    text = _ITEM.sub("\n", _SECTIONING.sub(r"\n\1\n", text))
    return one_line(title), "\n".join(_joined_lines(text.split("\n")))


def _with_body(text: str) -> str:
    """A part of a document, such as a chapter in a file of its own, as a whole one; xberg reads nothing else."""
    if "\\begin{document}" in text:
        return text
    start = max((found.end() for found in _PREAMBLE.finditer(text)), default=0)
    return f"{text[:start]}\n\\begin{{document}}\n{text[start:]}\n\\end{{document}}\n"


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
