"""Makes the part of manual pages in roff of the set of benchmarks/reading.py from packages of Debian.

What belongs to a page is told by three other programs: groff shows its text, mandoc names its headings, and lexgrog
its name and description. `--held-out` takes packages that no rule of the reader was made with. Nothing is installed
but groff, mandoc and man-db.

    python benchmarks/reading_set/manual_sources.py
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from html_pages import CACHE, fetched
from lxml import html

# Packages by what their pages are written with.
PAGES = {
    "help2man": ("coreutils",),
    "docbook": ("git-man", "systemd"),
    "pod2man": ("perl-doc",),
    "man_by_hand": ("manpages", "manpages-dev"),
    "mdoc": ("openssh-client", "mandoc", "libbsd-dev"),
    "groff": ("groff", "groff-base"),
    "asciidoctor": ("util-linux", "bsdutils"),
    "others": ("bash", "tar", "rsync", "curl", "findutils", "tmux"),
}
HELD_OUT = {
    "tcl": ("tcl8.6-doc",),
    "ncurses": ("ncurses-doc",),
    "yodl": ("zsh-common",),
    "rst2man": ("fail2ban", "llvm-14", "mercurial-common"),
    "mdoc": ("netcat-openbsd", "libmd-dev", "bsdextrautils", "libarchive-tools", "fetchmail"),
    "pod2man": ("libssl-doc", "ffmpeg"),
    "docbook": ("gnome-terminal", "policykit-1", "udev", "postgresql-client-15"),
    "man_by_hand": ("procps", "iproute2", "tcpdump", "lsof", "gawk", "vim-common", "postfix", "e2fsprogs"),
}
_HEADING = "//h1[contains(@class,'S')]|//h2[contains(@class,'S')]"


def known_structure(path: Path, source: str) -> dict[str, object] | None:
    """What three other programs say of a page, None where it only leads to another one."""
    page = _output("groff", "-mandoc", "-t", "-Tutf8", "-Kutf8", "-rLL=1000n", "-rHY=0", "-P-cbou", source=source)
    lines = [line for line in re.sub(r".\x08", "", page).split("\n") if line.strip()]
    if len(lines) < 5:
        return None
    root = html.fromstring(_output("mandoc", "-T", "html", "-O", "fragment", source=source))
    headings = [(int(element.tag[1]), " ".join(element.text_content().split())) for element in root.xpath(_HEADING)]
    section = path.suffixes[-2][1:] if path.suffix == ".gz" else path.suffix[1:]
    titles = [f"{lines[0].split('(')[0].strip()}({section})"]
    for name, described in re.findall(r': "(\S+) - (.*)"$', _output("lexgrog", str(path)), re.MULTILINE):
        titles.append(f"{name}({section}) - {described}")
        titles.append(f"{titles[0]} - {described}")
    names = {name for _, name in headings}
    body = "\n".join(line for line in lines[1:-1] if " ".join(line.split()) not in names)
    # Whichever of its names a page goes by is right.
    first = titles[1] if len(titles) > 1 else titles[0]
    return {
        "title": first,
        "also_titled": titles,
        "headings": headings,
        "body": body,
        "furniture": [lines[0], lines[-1]],
    }


def _output(*command: str, source: str | None = None) -> str:
    given = source.encode("utf-8") if source is not None else None
    found = subprocess.run(command, input=given, capture_output=True, check=False)
    return found.stdout.decode("utf-8", "replace")


def chosen(packages: Sequence[str], folder: Path, count: int) -> Iterator[Path]:
    """The same pages of a few packages whoever asks: those whose names hash lowest, and no links."""
    for package in packages:
        place = fetched(package, folder)
        pages = [path for path in place.glob("usr/**/man/man*/*") if path.is_file() and not path.is_symlink()]
        ranked = sorted(pages, key=lambda path: hashlib.sha256(str(path.relative_to(folder)).encode()).digest())
        yield from ranked[: -(-count // len(packages))]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=CACHE / "packages", help="where packages are unpacked")
    parser.add_argument("--output", type=Path, default=CACHE / "reading_set", help="the set")
    parser.add_argument("--pages", type=int, default=12, help="pages of each row of the table")
    parser.add_argument("--held-out", action="store_true", help="the packages that no rule was made with")
    given = parser.parse_args(arguments)
    rows: Mapping[str, Sequence[str]] = HELD_OUT if given.held_out else PAGES
    for generator, packages in rows.items():
        output = given.output / "roff" / generator
        output.mkdir(parents=True, exist_ok=True)
        written = 0
        for path in chosen(packages, given.packages, given.pages):
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            known = known_structure(path, content.decode("utf-8", "replace"))
            if known is None:
                continue
            name = path.name.removesuffix(".gz")
            (output / name).write_bytes(content)
            source = {"source": f"Debian package {path.relative_to(given.packages)}"}
            (output / f"{name}.json").write_text(json.dumps(known | source, ensure_ascii=False), encoding="utf-8")
            written += 1
        print(f"{generator}: {written} files")


if __name__ == "__main__":
    main()
