r"""LaTeX, RTF, Org, MediaWiki, Typst and AsciiDoc to sections, by the program pandoc (extra ``ingest``).

Pandoc runs as a process of its own with ``--sandbox``: it reads no other file and no network. Its time, its memory and
the size of its answer are limited, so a hostile file costs one document.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...errors import DocumentError, MissingExtraError
from ...runtime.text import one_line as printable_line
from .elements import names
from .outline import Break, Outline, ParsedDocument, dropped_metadata, joined_lines

# For any file, and for each byte of it; of a megabyte of text pandoc takes about 3 s, 150 MB, and answers 12 MB.
_SECONDS, _HEAP, _ANSWER = 30, 512 * 2**20, 32 * 2**20
_SECONDS_PER_BYTE, _HEAP_PER_BYTE, _ANSWER_PER_BYTE = 20 / 2**20, 400, 50
_MOST_MESSAGES = 2**22
_LONGEST_REASON = 300

# No other file is read; in these formats pandoc would refuse the whole document for it.
_INCLUDES = {
    "asciidoc": re.compile(r"^include::(\S+?)\[[^\]\n]*\][ \t]*$", re.MULTILINE),
    "typst": re.compile(r'^[ \t]*#(?:include|import)[ \t]+"([^"\n]*)"[^\n]*$', re.MULTILINE),
}
_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
# What pandoc would lose, or show as it is written, and how it knows it.
_REWRITTEN = {
    # Block macros, of which the alternative text is seen, and conditions.
    "asciidoc": [(r"^(?:ifeval::.*|(?:image|video|toc|ifn?def|endif)::[^\s\[]*\[([^\],\n]*)[^\]\n]*\])[ \t]*$", r"\1")],
    # Times that were clocked, and priorities.
    "org": [(r"^[ \t]*CLOCK:.*\n|^(\*+ +(?:[A-Z]+ +)?)\[#\w+\] +", r"\1")],
    "rtf": [(r"\\\*\\footnote\b", r"\\footnote")],
    "latex": [
        (r"\\(begin|end)\{(?:compactdesc|labeling)\}", r"\\\1{description}"),
        # Of lists with anything before their first entry the terms would be lost.
        (r"(\\begin\{description\})(?:(?!\\item\b|\\begin\b|\\end\b)[\s\S]){1,500}?(?=\\item\b)", r"\1"),
        # Slides, in the ways that they are written, and where they are to be seen.
        (r"(\\(?:item|only|onslide|uncover|visible|alert))<[^<>\n]*>", r"\1"),
        (r"(\\begin\{frame\})(?:<[^<>\n]*>|\[[^\[\]]*\])+", r"\1"),
        (rf"(\\begin\{{frame\}})({_BRACES})", r"\1\\frametitle\2"),
        (r"\\frame(?=[<\[{])(?:<[^<>\n]*>)?", r"\\slideframe"),
        (rf"(\\begin\{{column\}})(?:\[[^\]]*\])?{_BRACES}", r"\1"),
    ],
}
# The code page of RTF, and those of its fonts by what they call their letters.
_CODE_PAGE = re.compile(r"\\ansicpg(\d{1,5}\b)")
_LONGEST_HEAD = 2_000
_FONT = re.compile(r"\{\\f(\d+)[^{};]*?\\fcharset(\d+)")
_CHARSETS = "128 932 129 949 134 936 136 950 161 1253 162 1254 163 1258 177 1255 178 1256 186 1257 204 1251 222 874"
_CODE_PAGES = dict(zip(_CHARSETS.split()[::2], _CHARSETS.split()[1::2], strict=True)) | {"238": "1250"}
# Letters of Unicode with the bytes that stand for them elsewhere, signs, groups, fonts, and bytes. The second byte of a
# letter may be written as the sign that it is in ASCII.
_BYTES = re.compile(r"\\'([0-9A-Fa-f]{2})([@-Z^-z|~\[\]]|\\[\\{}])?")
_TOKEN = re.compile(
    r"\\u-?\d+ ?(?:\\'[0-9A-Fa-f]{2})+|\\[\\{}]|(?P<brace>[{}])|\\(?P<font>plain|f\d+)(?![a-z\d])"
    rf"|(?P<bytes>(?:{_BYTES.pattern})+)"
)
# Paragraphs in an outline that are numbered, too, which pandoc takes for entries of a list.
_MARKUP = re.compile(r"(?:\\[a-z]+-?\d*\s?|\{\\listtext\b[^{}]*\})+")
_LISTED = re.compile(r"\\(?:ls|ilvl)\d+")
_QUESTION_MARKS = re.compile(r"((?<!\\)(?:\\\\)*)((?:\\u-?\d{1,5} ?\?)+)")
_OTHER_SUBSTITUTES = re.compile(r"\\uc(?!1\b)\d")
_NUMBER = re.compile(r"-?\d+")
_SIGN, _ESCAPE = re.compile(r"[\\{}]"), r"\\\g<0>"
_MESSAGE = re.compile(r"^\[(INFO|WARNING)\] (.*(?:\n(?!\[).*)*)", re.MULTILINE)
_SKIPPED = re.compile(r"Skipped '(.{1,10000})' at line (\d+) column \d+", re.DOTALL)
_ARGUMENT = re.compile(_BRACES)
_COMMAND = re.compile(rf"\\([A-Za-z]+)((?:\[[^\]]*\])?)((?:{_BRACES})+)")
_ENVIRONMENT = re.compile(r"\\begin\{([^{}]+)\}.*\\end\{\1\}", re.DOTALL)
_CLASS = re.compile(r"^[ \t]*\\documentclass[^\n]*", re.MULTILINE)
_MOST_PASSES = 4
# Pandoc drops a command that it does not know together with its arguments. Most such commands show the last of them.
_DEFINITIONS = (
    r"\newcommand{\resizebox}[3]{#3}\newcommand{\scalebox}[2]{#2}\newcommand{\multirow}[3]{#3}"
    r"\newcommand{\IEEEPARstart}[2]{#1#2}\newcommand{\footnotetext}[1]{\footnote{#1}}"
) + "".join(
    # Classes of publishers define these.
    rf"\newtheorem{{{name}}}{{{name.capitalize()}}}"
    for name in ("theorem", "lemma", "corollary", "proposition", "definition", "example", "remark")
)
_SHOW_NOTHING = names(
    "addcontentsline addtocounter addtolength addvspace begin bibitem bibliography bibliographystyle captionsetup "
    "cellcolor cline cmidrule color columncolor counterwithin definecolor ding end fancyfoot fancyhead fontsize "
    "geometry glossary graphicspath hphantom hspace hypersetup include includegraphics includepdf index input "
    "inst label linespread lstset markboth newcounter newlength newtheorem nocite nomenclature numberwithin "
    "pagenumbering pagestyle phantom refstepcounter rowcolor selectlanguage setcounter setlength setstretch "
    "sisetup stepcounter tcbset theoremstyle thispagestyle tikzset titleformat titlespacing usepackage "
    "usetikzlibrary vphantom vskip vspace"
)

_LAYOUT = re.compile(
    r"\\(?:label|tag|hspace|vspace|begin|end)\*?\{[^{}]*\}(?:\{[|lcr@ ]+\})?"
    r"|\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])\.?"
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_CONTROL_SEQUENCE = re.compile(r"\\(?:([A-Za-z]+)\*?|(.))", re.DOTALL)
_SYMBOLS = {
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "sim": "∼", "equiv": "≡",
    "times": "×", "cdot": "·", "pm": "±", "in": "∈", "notin": "∉", "subset": "⊂", "subseteq": "⊆", "cup": "∪",
    "cap": "∩", "to": "→", "rightarrow": "→", "leftarrow": "←", "gets": "←", "mapsto": "↦", "infty": "∞", "sum": "∑",
    "prod": "∏", "int": "∫", "partial": "∂", "nabla": "∇", "forall": "∀", "exists": "∃", "ell": "ℓ", "ldots": "…",
    "dots": "…", "cdots": "…", "varepsilon": "ε", "varphi": "φ", "lambda": "λ", "Lambda": "Λ", "mid": "|",
    "wedge": "∧", "vee": "∨", "neg": "¬", "quad": " ", "qquad": " ",
}  # fmt: skip
_FUNCTIONS = names("arg cos cosh cot deg det dim exp gcd inf lim ln log max min mod Pr sec sin sinh sup tan tanh")
_FORMULA_MARKS = str.maketrans({"{": "", "}": "", "^": "", "_": "", "&": " ", "~": " ", "$": ""})
# Stands for a citation or a reference without a text of its own; cleaned text never contains it.
_GONE = "\0"
_BRACKETED = re.compile(rf"[ \n]*[(\[][ ,;]*(?:{_GONE}[ ,;]*)+[)\]]")
_BEFORE_PUNCTUATION = re.compile(rf"[ \n]*{_GONE}(?:[ ,;]*{_GONE})*(?=[\s.,;:!?)\]”’]|$)")


def parse_with_pandoc(text: str, kind: str) -> ParsedDocument:
    """Parse a text in one of pandoc's formats.

    Links leave their text, pictures their caption or alternative text, formulas their letters and symbols; list items
    and table rows are lines, cells stand apart by a tab, notes follow their paragraph. Citation keys, labels and
    bibliographies are left out.
    """
    warnings: list[str] = []
    text = _in_unicode(text) if kind == "rtf" else text
    for pattern, written in _REWRITTEN.get(kind, ()):
        text = re.sub(pattern, written, text, flags=re.MULTILINE)
    if kind in _INCLUDES:
        warnings += [f"{found[1]} was not included" for found in _INCLUDES[kind].finditer(text)]
        text = _INCLUDES[kind].sub("", text)
    deadline = time.monotonic() + _SECONDS + _SECONDS_PER_BYTE * len(text)
    if kind == "latex":
        answer, messages, dropped = _read_latex(text, deadline)
    else:
        answer, messages = _run_pandoc(text, kind, deadline)
        dropped = Counter()
    warnings += [joined_lines(message) for level, message in _MESSAGE.findall(messages) if level == "WARNING"]
    writer = _Writer(dropped)
    try:
        tree = json.loads(answer)
        metadata = {key: value for key, entry in tree["meta"].items() if (value := _metadata(entry, writer))}
        writer.write(_abstract(tree["meta"].get("abstract")))
        writer.write(tree["blocks"])
    except RecursionError:
        raise DocumentError("its markup is nested too deeply; flatten it") from None
    title = metadata.pop("title", "")
    for key in ("abstract", "bibliography"):
        metadata.pop(key, None)
    parsed = writer.outline.finish(opening_title=not title)
    if warnings:
        metadata["warnings"] = list(dict.fromkeys(warnings))
    title = joined_lines(title) if isinstance(title, str) else ""
    return ParsedDocument(parsed.sections, title or parsed.title, metadata | dropped_metadata(writer.dropped))


def _in_unicode(text: str) -> str:
    """RTF with the letters themselves, and with headings, as far as pandoc would lose or garble them."""
    page = _CODE_PAGE.search(text, 0, _LONGEST_HEAD)
    usual = page[1] if page else "1252"
    pages = {f"f{number}": _CODE_PAGES.get(charset, usual) for number, charset in _FONT.findall(text)}
    groups = [usual]

    def numbered(found: re.Match[str]) -> str:
        letters = b"".join((int(number) % 2**16).to_bytes(2, "little") for number in _NUMBER.findall(found[2]))
        return f"{found[1]}{{{_SIGN.sub(_ESCAPE, letters.decode('utf-16-le', 'replace'))}}}"

    def written(found: re.Match[str]) -> str:
        if found["bytes"]:
            content = b"".join(bytes.fromhex(byte) + sign[-1:].encode() for byte, sign in _BYTES.findall(found[0]))
            return f"{{{_SIGN.sub(_ESCAPE, content.decode(f'cp{groups[-1]}', 'replace'))}}}"
        if found["brace"]:
            groups[-1:] = [groups[-1]] * 2 if found["brace"] == "{" else groups[-1:] * (len(groups) == 1)
        elif found["font"]:
            groups[-1] = pages.get(found["font"], usual)
        return found[0]

    if not _OTHER_SUBSTITUTES.search(text):
        # With the question mark that stands for the letter elsewhere, pandoc would leave out what follows it.
        text = _QUESTION_MARKS.sub(numbered, text)
    text = _MARKUP.sub(lambda run: _LISTED.sub("", run[0]) if "\\outlinelevel" in run[0] else run[0], text)
    if {usual, *pages.values()} == {"1252"}:
        return text
    try:
        return _TOKEN.sub(written, _CODE_PAGE.sub(r"\\ansicpg1252", text, count=1))
    except LookupError:
        return text


def _read_latex(text: str, deadline: float) -> tuple[bytes, str, Counter[str]]:
    """Pandoc's tree and messages, and counts of what it dropped; commands that show text are defined for it."""
    begin = text.find("\\begin{document}")
    if begin < 0:
        # Pandoc would take all of it for the preamble.
        text = _CLASS.sub("", text)
    first_line = text.count("\n", 0, max(begin, 0)) + 1
    definitions: dict[str, str] = {}
    for _ in range(_MOST_PASSES):
        # On the first line, so that the numbers of lines stay.
        answer, messages = _run_pandoc(_DEFINITIONS + "".join(definitions.values()) + text, "latex", deadline)
        defined = len(definitions)
        dropped: set[tuple[str, str]] = set()
        for skipped in (_SKIPPED.match(message) for _, message in _MESSAGE.findall(messages)):
            if skipped is None or int(skipped[2]) < first_line:
                continue
            if environment := _ENVIRONMENT.fullmatch(skipped[1]):
                dropped.add((environment[1], skipped[0]))
            elif (command := _COMMAND.fullmatch(skipped[1])) and command[1] not in _SHOW_NOTHING:
                last = len(_ARGUMENT.findall(command[3])) + bool(command[2])
                optional = "[]" if command[2] else ""
                # An environment of that name would break.
                if f"\\begin{{{command[1]}}}" not in text:
                    definitions.setdefault(command[1], rf"\newcommand{{\{command[1]}}}[{last}]{optional}{{#{last}}}")
                dropped.add((f"\\{command[1]}", skipped[0]))
        if len(definitions) == defined:
            break
    return answer, messages, Counter(name for name, _ in dropped)


def _run_pandoc(text: str, kind: str, deadline: float) -> tuple[bytes, str]:
    package = importlib.util.find_spec("pypandoc")
    program = Path(package.origin).parent / "files" / "pandoc" if package and package.origin else None
    if program is None or not (program.exists() or program.with_suffix(".exe").exists()):
        raise MissingExtraError("pypandoc_binary", "ingest", f"read {kind}")
    source = text.encode("utf-8")
    heap, most = _HEAP + _HEAP_PER_BYTE * len(source), _ANSWER + _ANSWER_PER_BYTE * len(source)
    command = [str(program), "--sandbox", "--from", kind, "--to", "json", "+RTS", f"-M{heap}", "-RTS"]
    if kind == "latex":
        command[1:1] = ["--verbose"]
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as told:
        seconds = max(deadline - time.monotonic(), 0.0)
        environment = {"LC_ALL": "C.UTF-8"}
        try:
            process = subprocess.run(
                command, input=source, stdout=answer, stderr=told, env=environment, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            fix = "divide or convert it"
            raise DocumentError(f"pandoc had not read it as {kind} when its time was over; {fix}") from None
        for stream in (answer, told):
            stream.seek(0)
        content, messages = answer.read(most + 1), told.read(_MOST_MESSAGES).decode("utf-8", "replace")
    if len(content) > most:
        raise DocumentError(f"as {kind} it unfolds to more than {most:,} bytes, as no text does; it is not read")
    if "Heap exhausted" in messages:
        raise DocumentError(f"pandoc takes more than {heap:,} bytes of memory for it as {kind}; divide or convert it")
    if process.returncode != 0:
        errors = printable_line(_MESSAGE.sub("", messages), _LONGEST_REASON)
        raise DocumentError(f"pandoc cannot read it as {kind}: {errors or f'it ended with {process.returncode}'}")
    return content, messages


def _metadata(entry: dict[str, Any], writer: _Writer) -> Any:
    """An entry of the front matter as plain text, list, mapping or bool."""
    content: Any = entry.get("c")
    match entry["t"]:
        case "MetaInlines":
            return joined_lines(writer.text(content, notes=False))
        case "MetaBlocks":
            inner = _Writer(Counter())
            inner.write(content)
            return "\n\n".join(section.text for section in inner.outline.finish().sections)
        case "MetaList":
            return [value for item in content if (value := _metadata(item, writer))]
        case "MetaMap":
            return {key: _metadata(item, writer) for key, item in content.items()}
    return content


def _abstract(entry: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The blocks of an abstract, which pandoc takes out of the text."""
    match entry:
        case {"t": "MetaBlocks", "c": blocks}:
            return list(blocks)
        case {"t": "MetaInlines", "c": inlines}:
            return [{"t": "Para", "c": inlines}]
    return []


class _Writer:
    """Writes blocks of pandoc's tree to an outline; adds to the counts of what was dropped."""

    def __init__(self, dropped: Counter[str]) -> None:
        self.outline = Outline()
        self.dropped = dropped
        self._lists = 0
        # Inside of lists, quotations and figures a heading starts no section.
        self._inside = 0
        self._notes: list[list[dict[str, Any]]] = []

    def write(self, blocks: Iterable[dict[str, Any]]) -> None:
        """Write blocks one after the other, each followed by the notes to it."""
        for block in blocks:
            if block["t"] != "Div":
                self._separate()
            self._write_block(block["t"], block.get("c"))
            notes, self._notes = self._notes, []
            for note in notes:
                self.write(note)
            self._separate()

    def _separate(self) -> None:
        self.outline.separate(Break.LINE if self._lists else Break.PARAGRAPH)

    def _write_block(self, kind: str, content: Any) -> None:
        match kind:
            case "Header" if not self._inside:
                self.outline.start_section(self.text(content[2]), content[0])
            case "Header" | "Plain" | "Para":
                self.outline.write(self.text(content[2] if kind == "Header" else content))
            case "LineBlock":
                self.outline.write("\n".join(map(self.text, content)).strip("\n"))
            case "CodeBlock":
                self.outline.write(content[1].strip("\n"))
            case "BulletList" | "OrderedList":
                self._write_items(content if kind == "BulletList" else content[1])
            case "DefinitionList":
                self._write_items(
                    [{"t": "Plain", "c": term}, *(block for blocks in definitions for block in blocks)]
                    for term, definitions in content
                )
            case "BlockQuote":
                self._write_inside(content)
            case "Div" if "thebibliography" in content[0][1]:
                self.dropped["thebibliography"] += 1
            case "Div":
                self.write(content[1])
            case "Figure":
                caption = content[1][1]
                alternative = _Writer(Counter())
                alternative.write(content[2])
                shown = _Writer(Counter())
                shown.write(caption)
                same = alternative.outline.finish().sections == shown.outline.finish().sections
                self._write_inside([*([] if same else content[2]), *caption])
            case "Table":
                self._write_table(content)
            case "RawBlock":
                self.dropped[content[0]] += 1

    def _write_items(self, items: Iterable[list[dict[str, Any]]]) -> None:
        self._lists += 1
        for item in items:
            self._write_inside(item)
        self._lists -= 1

    def _write_inside(self, blocks: list[dict[str, Any]]) -> None:
        self._inside += 1
        self.write(blocks)
        self._inside -= 1

    def _write_table(self, content: Any) -> None:
        _, caption, _, head, bodies, foot = content
        self._write_inside(caption[1])
        for _, cells in [*head[1], *(row for body in bodies for row in (*body[2], *body[3])), *foot[1]]:
            self.outline.separate(Break.LINE)
            for number, cell in enumerate(cells):
                if number:
                    self.outline.new_cell()
                inner = _Writer(self.dropped)
                inner._write_inside(cell[4])
                self.outline.write(joined_lines(" ".join(part.text for part in inner.outline.finish().sections)))

    def text(self, inlines: list[dict[str, Any]], *, notes: bool = True) -> str:
        """The text of inline elements; their notes are kept for later, or left out."""
        kept = len(self._notes)
        text = "".join(map(self._inline, inlines))
        if not notes:
            del self._notes[kept:]
        if _GONE in text:
            text = _BEFORE_PUNCTUATION.sub("", _BRACKETED.sub("", text)).replace(_GONE, "")
        return text.strip()

    def _inline(self, inline: dict[str, Any]) -> str:
        content = inline.get("c")
        match inline["t"], content:
            case "Str", str():
                return content.replace("\N{NO-BREAK SPACE}", " ").replace("\N{SOFT HYPHEN}", "")
            case "Space" | "SoftBreak", _:
                return " "
            case "LineBreak", _:
                return "\n"
            case "Code", [_, str(code)]:
                return code
            case "Math", [_, str(formula)]:
                # The letters and symbols that are seen of it, in one line.
                formula = _CONTROL_SEQUENCE.sub(_symbol, _FRACTION.sub(r"\1/\2", _LAYOUT.sub(" ", formula)))
                return joined_lines(formula.translate(_FORMULA_MARKS))
            case "Quoted", [{"t": mark}, list(quoted)]:
                inner = "".join(map(self._inline, quoted))
                return f"‘{inner}’" if mark == "SingleQuote" else f"“{inner}”"
            case "Cite", _:
                return _GONE
            case "Note", list():
                self._notes.append(content)
                return ""
            case "Span", [[_, classes, attributes], list(inner)]:
                # Labels of LaTeX; states and tags of headings in Org.
                hidden = {"label", "tag-name"} & {key for key, _ in attributes} or {"todo", "done"} & set(classes)
                return "" if hidden else "".join(map(self._inline, inner))
            case "Link", [[_, classes, attributes], list(inner), [str(target), _]]:
                text = "".join(map(self._inline, inner))
                refers = "ref" in classes or any(key == "reference-type" for key, _ in attributes)
                if refers and text.startswith("["):
                    return _GONE
                return "" if "wikilink" in classes and target.startswith("Category:") else text
            case "Image", [_, list(inner), _]:
                text = "".join(map(self._inline, inner))
                return "" if text == "image" else text
            case "RawInline", [str(written), _]:
                self.dropped[written] += 1
                return ""
            case _, list():
                return "".join(map(self._inline, content))
            case _:
                return ""


def _symbol(found: re.Match[str]) -> str:
    name = found[1]
    if name is None:
        return str(found[2]) if found[2] in "%#" else " "
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    if name in _FUNCTIONS:
        return f" {name} "
    try:
        return unicodedata.lookup(f"GREEK {'CAPITAL' if name[0].isupper() else 'SMALL'} LETTER {name}")
    except KeyError:
        return ""
