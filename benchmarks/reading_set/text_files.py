"""Makes the part of plain text of the set of benchmarks/reading.py from packages of Debian.

Manual pages are made from their sources, whose macros name the headings; texts of AsciiDoc and Sphinx lie beside their
HTML, which names them. Nothing is installed but groff, which is there with man.

    python benchmarks/reading_set/text_files.py
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from html_pages import CACHE, chosen, fetched, text_of
from lxml import html
from reading import words

_MACRO = re.compile(r"^\.(SH|SS|Sh|Ss)\s+(.*)$", re.MULTILINE)
_ESCAPES = (
    (r"\\f[BIRPbirp]|\\f\(..|\\f\[[^\]]*\]|\\&|\\\||\\/|\\,", ""),
    (r"\\-", "-"),
    (r"\\\(aq", "'"),
    (r"\\e", r"\\"),
)
Known = tuple[str, dict[str, object]]


def manual_pages(folder: Path) -> Iterator[Known]:
    """Pages as a terminal shows them, with the headings of their sources."""
    for path in chosen(list(fetched("git-man", folder).glob("usr/share/man/man*/*.gz")), folder, 12):
        source = gzip.decompress(path.read_bytes()).decode("utf-8")
        if source.startswith(".so"):
            continue
        command = ["groff", "-mandoc", "-Tutf8", "-Kutf8", "-rLL=78n", "-P-cbou"]
        page = subprocess.run(command, input=source.encode(), capture_output=True, check=True).stdout.decode()
        page = re.sub(r".\x08", "", page)
        headings = []
        for macro, text in _MACRO.findall(source):
            for pattern, plain in _ESCAPES:
                text = re.sub(pattern, plain, text)
            text = " ".join(text.replace('"', "").split())
            headings.append((1 if macro.lower() == "sh" else 2, text.upper() if macro == "SH" else text))
        filled = [line for line in page.split("\n") if line.strip()]
        yield (
            page,
            {
                "title": "",
                "also_titled": [filled[0].split()[0]],
                "headings": headings,
                "furniture": [filled[0], filled[-1]],
                "name": path.name.removesuffix(".gz"),
            },
        )


def beside_html(package: str, pattern: str, folder: Path, selector: str) -> Iterator[Known]:
    """Texts that lie beside their HTML."""
    for path in chosen(list(fetched(package, folder).glob(pattern)), folder, 40):
        page = path.with_suffix(".html")
        if not page.is_file():
            continue
        root = html.document_fromstring(page.read_bytes(), parser=html.HTMLParser(encoding="utf-8"))
        found = [(int(element.tag[1]), text_of(element)) for element in root.xpath(selector)]
        text = path.read_text(encoding="utf-8")
        if len(found) < 3 or any(word not in text for _, name in found for word in name.split()[:1]):
            continue
        # The HTML is made without the head that a mail has.
        head = text.partition("\n\n")[0].split("\n") if text.startswith(("Date: ", "From: ")) else []
        yield text, {"title": "", "headings": found, "name": path.name, "head": head}


def sphinx_texts(folder: Path) -> Iterator[Known]:
    """Whole manuals in plain text, with the headings of the chapters in HTML."""
    for package, text, pages in (
        ("debian-policy", "debian-policy/policy.txt.gz", "debian-policy/policy.html/*.html"),
        ("developers-reference", "developers-reference/developers-reference.txt.gz", "developers-reference/*.html"),
    ):
        place = fetched(package, folder)
        source = next(place.glob(f"usr/share/**/{text}"))
        content = gzip.decompress(source.read_bytes()).decode("utf-8")
        lines = {" ".join(words(line)): number for number, line in enumerate(content.split("\n"))}
        headings: dict[str, tuple[int, int, str]] = {}
        for page in place.glob(f"usr/share/**/{pages}"):
            root = html.document_fromstring(page.read_bytes(), parser=html.HTMLParser(encoding="utf-8"))
            for element in root.cssselect("div.body h1, div.body h2, div.body h3, div.body h4, div.body h5"):
                name = text_of(element, frozenset(element.cssselect("a.headerlink")))
                if (number := lines.get(" ".join(words(name)))) is not None:
                    headings[name] = (number, int(element.tag[1]), name)
        found = [(level, name) for _, level, name in sorted(headings.values())]
        contents = [line for line in content.split("\n") if re.match(r" *\* (?:\d+|[A-Z])\.[ \d]", line)]
        yield content, {"title": "", "headings": found, "head": contents, "name": source.stem}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=CACHE / "packages", help="where packages are unpacked")
    parser.add_argument("--output", type=Path, default=CACHE / "reading_set", help="the set")
    given = parser.parse_args(arguments)
    outlines = "//h1|//h2|//h3|//h4"
    sources = {
        "manual_page": manual_pages(given.packages),
        "asciidoc": beside_html("git-doc", "usr/share/doc/git-doc/[hgt]*/*.txt", given.packages, outlines),
        "sphinx_text": sphinx_texts(given.packages),
    }
    for generator, files in sources.items():
        output = given.output / "text" / generator
        output.mkdir(parents=True, exist_ok=True)
        written = 0
        for text, known in files:
            name = str(known.pop("name")).removesuffix(".txt") + ".txt"
            (output / name).write_text(text, encoding="utf-8")
            # All other lines are text; what stands in headings too is counted once more where they are compared.
            heads = [*known.get("furniture", ()), *known.pop("head", ())]  # type: ignore[misc]
            titles = {" ".join(heading.split()) for _, heading in known["headings"]}  # type: ignore[attr-defined]
            lines = [one for one in text.split("\n") if " ".join(one.split()) not in titles and one not in heads]
            row = json.dumps(known | {"body": "\n".join(lines)}, ensure_ascii=False)
            (output / f"{name}.json").write_text(row, encoding="utf-8")
            written += 1
        print(f"{generator}: {written} files")


if __name__ == "__main__":
    main()
