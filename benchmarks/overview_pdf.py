"""An overview of PDF files made from a folder of documents: what is read of them, and how long it takes.

LibreOffice writes each document as PDF, with its headings and nothing that helps a reader. Then the command is run as
a user runs it.

    python benchmarks/overview_pdf.py --documents 200 --work pdfs
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from html import escape
from itertools import islice
from pathlib import Path

from reporting import DATA, describe_machine

from graphdoc import Document, read_documents


def as_html(document: Document) -> str:
    """A document as a page of headings and paragraphs."""
    parts = [f"<html><head><meta charset='utf-8'><title>{escape(document.title)}</title></head><body>"]
    parts.append(f"<h1>{escape(document.title or document.id)}</h1>")
    for section in document.sections:
        if section.heading:
            level = min(6, max(2, section.level + 1))
            parts.append(f"<h{level}>{escape(section.heading)}</h{level}>")
        parts += [f"<p>{escape(paragraph)}</p>" for paragraph in section.text.split("\n\n") if paragraph.strip()]
    return "\n".join([*parts, "</body></html>"])


def make_pdfs(source: Path, count: int, folder: Path) -> list[Path]:
    """PDF files of the first documents of a source; those that are there are kept."""
    pages = folder / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    for number, document in enumerate(islice(read_documents(source, on_error="skip"), count)):
        (pages / f"{number:03}.html").write_text(as_html(document), encoding="utf-8")
    target = folder / "pdf"
    missing = [page for page in sorted(pages.iterdir()) if not (target / f"{page.stem}.pdf").exists()]
    for start in range(0, len(missing), 50):
        some = [str(page) for page in missing[start : start + 50]]
        office = ["soffice", f"-env:UserInstallation=file://{folder.resolve()}/profile", "--headless"]
        convert = ["--convert-to", "pdf:writer_web_pdf_Export", "--outdir", str(target)]
        subprocess.run([*office, *convert, *some], check=True, stdout=subprocess.DEVNULL)
    return sorted(target.glob("*.pdf"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=DATA / "tech_proposals")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--work", type=Path, required=True, help="folder for the files and the page")
    options = parser.parse_args()
    files = make_pdfs(options.source, options.documents, options.work)
    print(describe_machine())
    print(f"{len(files)} PDF files, {sum(file.stat().st_size for file in files) / 1e6:.1f} MB")
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    page = options.work / "overview.html"
    command = [sys.executable, "-m", "graphdoc", "overview", str(options.work / "pdf"), "--html", str(page)]
    subprocess.run([*command, "--dtype", "bfloat16", "--overwrite"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = page.stat().st_size / 1e6
    print(f"{time.perf_counter() - start:.0f} seconds, {used:.0f} of processor time, page {size:.1f} MB")


if __name__ == "__main__":
    main()
