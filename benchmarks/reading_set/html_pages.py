"""Makes the HTML part of the set of benchmarks/reading.py from pages that packages of Debian carry.

What belongs to a page is said for each generator, by the selectors of its template: where the content is, and what in
it is furniture. The reader knows nothing of this table. Nothing is installed: packages are fetched and unpacked.
Selectors need the library cssselect (extra `benchmarks`).

    python benchmarks/reading_set/html_pages.py
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lxml import etree, html
from lxml.cssselect import CSSSelector

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / "cache"


@dataclass(frozen=True)
class Pages:
    """Pages of one generator.

    Args:
        generator: its name, which is the folder in the set.
        package: package of Debian, or the folder of a site that was built.
        files: pattern of the pages in it.
        content: CSS selector of the content.
        furniture: CSS selector of what in the content does not belong to it.
        title: CSS selector of the title where it is no heading; empty where the first heading of level 1 is it.
        headings: CSS selector of the headings.
    """

    generator: str
    package: str
    files: str
    content: str
    furniture: str = ""
    title: str = ""
    headings: str = "h1, h2, h3, h4, h5, h6"


_DOCBOOK_PARTS = "section sect1 sect2 chapter refentry preface appendix"
_DOCBOOK = ", ".join(f"body > .{name}" for name in _DOCBOOK_PARTS.split())

PAGES = (
    Pages("mdbook", "rust-doc", "usr/share/doc/rust-doc/html/book/ch*.html", "main", "button"),
    Pages("mdbook", "rust-doc", "usr/share/doc/rust-doc/html/nomicon/*.html", "main", "button"),
    Pages(
        "rustdoc",
        "rust-doc",
        "usr/share/doc/rust-doc/html/std/*/struct.*.html",
        "#main-content",
        ".out-of-band, a.anchor, button, .rightside, #render-detail, .notable-traits, summary.hideme",
    ),
    Pages("sphinx_python", "python3.11-doc", "usr/share/doc/python3.11/html/[lhw]*/*.html", "div.body", "a.headerlink"),
    Pages(
        "sphinx_flask", "python-flask-doc", "usr/share/doc/python-flask-doc/html/**/*.html", "div.body", "a.headerlink"
    ),
    Pages(
        "sphinx_alabaster",
        "python-requests-doc",
        "usr/share/doc/python-requests-doc/html/*/*.html",
        "div.body",
        "a.headerlink",
    ),
    Pages(
        "sphinx_classic",
        "debian-policy",
        "usr/share/doc/debian-policy/policy.html/ch-*.html",
        "div.body",
        "a.headerlink",
    ),
    Pages("mkdocs", "mkdocs-doc", "usr/share/doc/mkdocs/html/**/*.html", "[role=main]", "a.headerlink"),
    Pages("javadoc", "libcommons-lang3-java-doc", "usr/share/doc/libcommons-lang3-java/api/org/**/[A-Z]*.html", "main"),
    Pages("javadoc", "junit4-doc", "usr/share/doc/junit4/api/org/**/[A-Z]*.html", "main"),
    Pages("asciidoc", "git-doc", "usr/share/doc/git-doc/*.html", "#header, #content, #preamble", "#toc"),
    Pages(
        "doxygen",
        "libeigen3-doc",
        "usr/share/doc/libeigen3-dev/html/group__*.html",
        "div.contents",
        ".permalink, .dynheader, .dyncontent, .ttc, iframe, .toc",
        "div.header .title",
    ),
    Pages("docbook", "postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html/*.html", _DOCBOOK, ".toc"),
    Pages("publican", "debian-handbook", "usr/share/doc/debian-handbook/html/en-US/sect.*.html", _DOCBOOK, ".toc"),
    Pages("quickbook", "libboost1.74-doc", "usr/share/doc/libboost1.74-doc/doc/html/boost_*/*.html", _DOCBOOK, ".toc"),
    Pages(
        "texinfo", "octave-doc", "usr/share/doc/octave/octave.html/[A-W]*.html", "body", "div.header, hr, .section-toc"
    ),
    Pages(
        "texinfo_whole",
        "r-doc-html",
        "usr/share/R/doc/manual/R-*.html",
        "body",
        "div.header, .section-toc, .contents, .Contents_element, #SEC_Contents, .shortcontents",
    ),
    Pages(
        "qdoc",
        "qtbase5-doc-html",
        "usr/share/qt5/doc/qt*/*.html",
        ".context, .descr, .content > .line > .content, .content.mainContent",
        ".sidebar, .naviNextPrevious, .toc",
        "h1.title",
    ),
    Pages(
        "mediawiki",
        "cppreference-doc-en-html",
        "usr/share/cppreference/doc/html/en/cpp/*/*.html",
        "#firstHeading, #mw-content-text",
        ".t-navbar, .editsection, #toc, .toc, #siteSub, #contentSub",
    ),
    Pages(
        "nodejs",
        "nodejs-doc",
        "usr/share/doc/nodejs/api/*.html",
        "#column1",
        "a.mark, #toc, .srclink, header, .copy-button, #gtoc, details.changelog summary",
    ),
    Pages(
        "haddock",
        "ghc-doc",
        "usr/share/doc/ghc-doc/html/libraries/*/[A-Z]*.html",
        "#content",
        "#table-of-contents, .selflink",
        "#module-header .caption",
    ),
    Pages(
        "sqlite",
        "sqlite3-doc",
        "usr/share/doc/sqlite3/*.html",
        ".fancy",
        ".fancy_toc, button, .searchmenu, p[align=center]",
        ".fancy_title",
    ),
    Pages("golang", "golang-1.19-doc", "usr/share/doc/golang-1.19-doc/html/*.html", "body"),
)
# Of generators that no rule of the reader was made with; measured before anything was changed for them.
HELD_OUT = (
    Pages(
        "gtk_doc",
        "libglib2.0-doc",
        "usr/share/gtk-doc/html/glib/glib-*.html",
        "div.refentry",
        "a.ulink.source",
        ".refnamediv .refentrytitle",
        ".refsect1 h2, h3, h4",
    ),
    Pages(
        "gi_docgen",
        "libgtk-4-doc",
        "usr/share/doc/libgtk-4-doc/gtk4/class.*.html",
        "#main",
        "a.srclink, a.anchor",
        "#main > header h1",
        "h4, h5, h6",
    ),
    Pages(
        "apache",
        "apache2-doc",
        "usr/share/doc/apache2-doc/manual/en/**/[a-z]*.html",
        "#page-content",
        "#quickview, .toplang, .bottomlang, .top, a.permalink, button",
    ),
    Pages("nim", "nim-doc", "usr/share/doc/nim/html/*.html", "#content", "a.link-seesrc", "h1.title", "#content h1"),
    Pages("postfix", "postfix-doc", "usr/share/doc/postfix/html/[A-Z]*_README.html", "body"),
    Pages(
        "sphinx_rtd",
        "python-attr-doc",
        "usr/share/doc/python-attr-doc/html/*.html",
        "div.document[role=main]",
        "a.headerlink",
    ),
    Pages("exim", "exim4-doc-html", "usr/share/doc/exim4-doc-html/spec_html/ch-*.html", "#chapter"),
    Pages(
        "yard",
        "yard-doc",
        "usr/share/doc/yard/doc/YARD/**/*.html",
        "#content",
        "a.summary_toggle, .showSource, .toggleSource",
    ),
    Pages(
        "erlang", "erlang-doc", "usr/share/doc/erlang-doc/**/*.html", "#content .innertube", ".footer, .title-link a"
    ),
    Pages(
        "latex2html",
        "gnuplot-doc",
        "usr/share/doc/gnuplot/htmldocs/node*.html",
        "body",
        ".navigation, .ChildLinks, ul.ChildLinks, address, a[id=CHILD_LINKS]",
    ),
)
_BLOCKS = (
    "address article aside blockquote body br caption center dd details div dl dt fieldset figcaption figure footer "
    "form h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol option p pre section summary table tbody td tfoot th "
    "thead tr ul"
)
_APART = frozenset(_BLOCKS.split())
_UNSEEN = frozenset(["head", "script", "style", "template", "noscript", "svg"])
_SIZES = range(3_000, 400_000)


def text_of(root: etree._Element, left_out: frozenset[etree._Element] = frozenset()) -> str:
    """The text of an element without some that are in it; white space only separates words."""
    parts: list[str] = []

    def walk(element: etree._Element) -> None:
        if isinstance(element.tag, str) and element.tag not in _UNSEEN and element not in left_out:
            apart = " " if element.tag in _APART else ""
            parts.extend((apart, element.text or "", element.get("alt", "") if element.tag == "img" else ""))
            for child in element:
                walk(child)
                parts.append(child.tail or "")
            parts.append(apart)

    walk(root)
    return " ".join("".join(parts).split())


def known_structure(page: bytes, rule: Pages) -> dict[str, object] | None:
    """What belongs to a page; None where it holds none of the content that its generator makes."""
    root = html.document_fromstring(page, parser=html.HTMLParser(encoding="utf-8"))
    content = [element for element in CSSSelector(rule.content)(root)]
    content = [element for element in content if not any(around in content for around in element.iterancestors())]
    if not content:
        return None
    dropped = set(CSSSelector(rule.furniture)(root)) if rule.furniture else set()
    headings: list[tuple[int, str]] = []
    heading_elements: set[etree._Element] = set()
    # A heading in a quotation or in a box is part of it.
    boxed = CSSSelector("blockquote *, .tip *, .note *, .warning *, .caution *, .important *")(root)
    is_heading = set(CSSSelector(rule.headings)(root)).difference(boxed)
    title = ""
    if rule.title:
        found = CSSSelector(rule.title)(root)
        title = text_of(found[0], frozenset(dropped)) if found else ""
        heading_elements.update(found[:1])
    for part in content:
        for element in part.iter("*"):
            around = {element, *element.iterancestors()}
            if element in is_heading and not around & dropped and element not in heading_elements:
                heading_elements.add(element)
                if text := text_of(element, frozenset(dropped)):
                    headings.append((int(element.tag[1]), text))
    if not title and headings and headings[0][0] == 1:
        title = headings.pop(0)[1]
    body = " \n\n".join(text_of(part, frozenset(dropped | heading_elements)) for part in content)
    outside = text_of(root, frozenset({*content, *heading_elements}))
    inside = "\n".join(text_of(element) for element in dropped)
    page_title = root.findtext("head/title") or ""
    return {
        "title": title,
        "also_titled": [" ".join(page_title.split())],
        "headings": headings,
        "body": body,
        "furniture": f"{outside}\n{inside}",
    }


def fetched(package: str, folder: Path) -> Path:
    """The unpacked package, fetched when it is not there."""
    place = folder / package
    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        archive = next(folder.glob(f"{package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", archive.name, package], cwd=folder, check=True)
        archive.unlink()
    return place


def chosen(files: Sequence[Path], folder: Path, count: int) -> list[Path]:
    """The same pages whoever asks: those of a fit size whose names hash lowest."""
    fit = {path.resolve(): path for path in files if path.stat().st_size in _SIZES}.values()
    return sorted(fit, key=lambda path: hashlib.sha256(str(path.relative_to(folder)).encode()).digest())[:count]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=CACHE / "packages", help="where packages are unpacked")
    parser.add_argument("--output", type=Path, default=CACHE / "reading_set", help="the set")
    parser.add_argument("--pages", type=int, default=5, help="pages of each row of the table")
    parser.add_argument("--only", nargs="+", help="these generators alone")
    parser.add_argument("--held-out", action="store_true", help="the generators that no rule was made with")
    given = parser.parse_args(arguments)
    for rule in HELD_OUT if given.held_out else PAGES:
        if given.only and rule.generator not in given.only:
            continue
        folder = fetched(rule.package, given.packages)
        output = given.output / "html" / rule.generator
        output.mkdir(parents=True, exist_ok=True)
        written = 0
        for path in chosen(list(folder.glob(rule.files)), folder, 10 * given.pages):
            content = path.read_bytes()
            known = known_structure(content, rule)
            if known is None or len(str(known["body"]).split()) < 80:
                continue
            name = re.sub(r"[^\w.-]", "_", "_".join(path.relative_to(folder).parts[-2:]))
            (output / name).write_bytes(content)
            source = {"source": f"Debian package {rule.package}, {path.relative_to(folder)}"}
            (output / f"{name}.json").write_text(
                json.dumps(known | source, indent=1, ensure_ascii=False), encoding="utf-8"
            )
            written += 1
            if written == given.pages:
                break
        print(f"{rule.generator} ({rule.package}): {written} pages")


if __name__ == "__main__":
    main()
