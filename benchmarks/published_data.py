"""Turns the published data sets of the configs into documents, and pairs or judgements.

    python benchmarks/published_data.py cnse same_event_doc_pair.txt --output cnse/
    python benchmarks/published_data.py cnss same_story_doc_pair.txt --output cnss/
    python benchmarks/published_data.py lecardv2 --queries query.json --cases candidate/ --qrels relevence.trec --output lecardv2/
    python benchmarks/published_data.py coliee --cases task1_train_files/ --labels task1_train_labels.json --output coliee/
    python benchmarks/published_data.py sdr video_games.txt --relevant video_games.json --output games/
    python benchmarks/published_data.py aan --papers aan/papers_text/ --citations aan/release/2014/acl.txt --output aan/
    python benchmarks/published_data.py wikipedia enwiki-20201220-pages-articles.xml.bz2 --output wiki/
    python benchmarks/published_data.py wiki wiki/links.tsv --output wiki/
    python benchmarks/published_data.py hyperpartisan --articles articles.xml --labels ground-truth.xml --split hp-splits.json --output hp/

Nothing in the files is executed.
"""  # noqa: E501

from __future__ import annotations

import argparse
import ast
import bz2
import csv
import html
import json
import math
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from graphdoc.documents.parsing.formats import numbered_lines
from graphdoc.errors import DocumentError, GraphdocError
from graphdoc.evaluation import read_relevant
from graphdoc.evaluation.trec import read_qrels, write_qrels
from graphdoc.runtime.files import write_atomically, write_text
from graphdoc.runtime.progress import progress_bar
from graphdoc.runtime.text import one_line

# Parts of the lines of a file of pairs, and where each ends.
PARTS = {"train": 0.6, "dev": 0.8, "test": 1.0}
# Of the papers of CoLDE, as it has them, and of its articles, whose similar pairs are few.
PAPER_PARTS, ARTICLE_PARTS = {"train": 0.8, "dev": 0.1, "test": 0.1}, {"train": 0.5, "dev": 0.2, "test": 0.3}
# Share of the outgoing links of two articles that both have, above which they are similar (CoLDE, section 4.1).
ALIKE = 0.5
# What the columns of the pairs of news are called.
LABEL, SIDES = "label", ({"id": "doc_id1", "title": "title1", "text": "content1"},
                         {"id": "doc_id2", "title": "title2", "text": "content2"})  # fmt: skip
CASE_PARTS = ("fact", "reason", "charge", "article")
_HEADING = re.compile(r"^\s*((?i:abstract|references|bibliography)|\d[\d.]*\s+[A-Z][^\n.]{2,60})\s*$", re.MULTILINE)
# In the text of a page of an encyclopedia: what goes with all that is in it, templates and tables from the inmost
# outwards, links likewise, marks that go alone, and headings.
_INSIDE = re.compile(
    r"<!--.*?-->|<(ref|gallery|math|chem|score|timeline|imagemap|syntaxhighlight)\b[^>]*?(?:/>|>.*?</\1\s*>)",
    re.DOTALL | re.IGNORECASE,
)
_BRACES = re.compile(r"\{\{[^{}]*\}\}|\{\|[^{}]*\|\}")
_LINK, _ADDRESS = re.compile(r"\[\[([^][|]*)(?:\|([^][]*))?\]\]"), re.compile(r"\[\w+://\S+ ?([^]\n]*)\]")
_MARKS = re.compile(r"'{2,}|<[^>]*>|__[A-Z]+__|^[*#:;]+ *", re.MULTILINE)
_PAGE_HEADING = re.compile(r"^={2,6}\s*(.+?)\s*={2,6}\s*$", re.MULTILINE)
# A space between words of a script that has none: one that does not stand between two Latin words or numbers.
_SPACE = re.compile(r"(?<![A-Za-z0-9])[ \t]+|[ \t]+(?![A-Za-z0-9])")

Row = dict[str, Any]


def joined(words: str) -> str:
    """A text of words that were set apart, as it is written in Chinese: 三星 Galaxy S8 的 屏幕."""
    return _SPACE.sub("", words.strip())


def news_pairs(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """CNSE and CNSS: documents once, and pairs in three parts, 60, 20 and 20 % of the lines in order."""
    lines = numbered_lines(options.pairs)
    names = [name.strip().lstrip("\ufeff") for name in next(lines)[1].split("|")]
    texts: dict[str, str] = {}
    pairs: list[str] = []
    others = 0

    def documents() -> Iterator[Row]:
        nonlocal others
        for number, line in lines:
            cells = [cell.strip() for cell in line.split("|")]
            row = dict(zip(names, cells, strict=False))
            sides = [{key: row.get(name, "") for key, name in side.items()} for side in SIDES]
            is_whole = len(cells) == len(names) and all(side["id"] and joined(side["text"]) for side in sides)
            if not is_whole or (label := row[LABEL]) not in ("0", "1"):
                skipped.append(f"{options.pairs}:{number}")
                continue
            for side in sides:
                text = joined(side["text"])
                if side["id"] not in texts:
                    texts[side["id"]] = text
                    yield {"id": side["id"], "title": joined(side["title"]), "text": text}
                others += texts[side["id"]] != text
            pairs.append(f"{sides[0]['id']}\t{sides[1]['id']}\t{label}\n")

    count = write_rows(options.output / "documents.jsonl", documents())
    ends = [0, *(math.ceil(share * len(pairs)) for share in PARTS.values())]
    for name, first, last in zip(PARTS, ends, ends[1:], strict=False):
        write_text(options.output / f"{name}.tsv", "".join(pairs[first:last]))
    sizes = ", ".join(f"{last - first:,} {name}" for name, first, last in zip(PARTS, ends, ends[1:], strict=False))
    lines = [f"{count:,} documents and {len(pairs):,} pairs: {sizes}"]
    return lines + ([f"an id came {others:,} times with another text; the first was kept"] if others else [])


def lecardv2(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """LeCaRDv2: queries, with q- before their ids, which other cases have too, cases and grades 0 to 3."""

    def queries() -> Iterator[Row]:
        for number, line in numbered_lines(options.queries):
            row = parsed(line, f"{options.queries}:{number}", ("id", "query"), skipped)
            if row is not None:
                yield {"id": f"q-{row['id']}", "text": row["query"]}

    def cases() -> Iterator[Row]:
        for path in sorted(options.cases.rglob("*.json")):
            row = parsed(path.read_text(encoding="utf-8"), str(path), ("pid", "fact"), skipped)
            if row is not None:
                texts = {name: text for name in CASE_PARTS if (text := row.get(name))}
                sections = [
                    {"heading": name, "text": text if isinstance(text, str) else ", ".join(map(str, text))}
                    for name, text in texts.items()
                ]
                yield {"id": str(row["pid"]), "sections": sections}

    asked = write_rows(options.output / "queries.jsonl", queries())
    count = write_rows(options.output / "corpus.jsonl", cases())
    qrels = {f"q-{query}": grades for query, grades in read_qrels(options.qrels).items()}
    write_qrels(options.output / "qrels.tsv", qrels)
    judged = sum(map(len, qrels.values()))
    return [f"{asked:,} queries, {count:,} cases and {judged:,} judgements of {len(qrels):,} queries"]


def coliee(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """COLIEE, task 1: texts, which are the queries too, and for every query the cases that it cites."""
    ids: set[str] = set()

    def cases() -> Iterator[Row]:
        for path in sorted(options.cases.glob("*.txt")):
            text = path.read_text(encoding="utf-8", errors="replace").strip()
            if not text:
                skipped.append(str(path))
                continue
            ids.add(path.stem)
            yield {"id": path.stem, "text": text}

    labels = json.loads(options.labels.read_text(encoding="utf-8"))
    count = write_rows(options.output / "corpus.jsonl", cases())
    qrels: dict[str, dict[str, int]] = {}
    gone = 0
    for query, cited in labels.items():
        names = [Path(str(name)).stem for name in cited]
        known = {name: 1 for name in names if name in ids and Path(query).stem in ids}
        gone += len(names) - len(known)
        if known:
            qrels[Path(query).stem] = known
    write_qrels(options.output / "qrels.tsv", qrels)
    lines = [f"{count:,} cases and {sum(map(len, qrels.values())):,} citations of {len(qrels):,} queries"]
    return lines + ([f"{gone:,} citations of cases that are not there were left out"] if gone else [])


def sdr(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """SDR: articles of a CSV, their titles and Python lists of sections; titles are ids, as in the ground truth."""
    titles: set[str] = set()
    # An article is one cell.
    csv.field_size_limit(sys.maxsize)

    def articles() -> Iterator[Row]:
        with options.articles.open(encoding="utf-8", newline="") as file:
            # The published code takes columns by their place, and the first row for their names.
            for row in islice(reader := csv.reader(file), 1, None):
                place = f"{options.articles}:{reader.line_num}"
                try:
                    title, pairs = row[0].strip(), ast.literal_eval(row[1])
                    sections = [{"heading": str(heading).strip(), "text": text} for heading, text in pairs]
                    is_list = isinstance(pairs, list | tuple) and all(isinstance(one["text"], str) for one in sections)
                    if not title or not is_list:
                        raise ValueError("no title, or no list of sections with a heading and a text each")
                except (IndexError, ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
                    raise DocumentError(f"{place}: {one_line(str(error), 120)}") from error
                if title in titles:
                    skipped.append(place)
                    continue
                titles.add(title)
                yield {"id": title, "title": title, "sections": sections}

    relevant = read_relevant(options.relevant)
    lines = [f"{write_rows(options.output / 'articles.jsonl', articles()):,} articles"]
    pairs = [(source, title) for source, others in relevant.items() for title in others]
    both = sum({*pair} <= titles for pair in pairs)
    lines.append(f"{len(titles & {*relevant}):,} of {len(relevant):,} sources and {both:,} of {len(pairs):,} pairs")
    missing = sorted({title for pair in pairs for title in pair} - titles)
    return lines + ([f"missing: {', '.join(missing[:20])}" + " ..." * (len(missing) > 20)] if missing else [])


def aan(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """ACL Anthology Network (CoLDE): papers in sections, citations of a part of them, and pairs of the others."""
    paths = sorted(options.papers.glob("*.txt"))

    def papers() -> Iterator[Row]:
        for path in paths:
            if sections := sections_between(_HEADING, path.read_text(encoding="utf-8", errors="replace")):
                yield {"id": path.stem, "sections": sections}
            else:
                skipped.append(str(path))

    count = write_rows(options.output / "papers.jsonl", papers())
    cited = [line.split() for _, line in numbered_lines(options.citations)]
    there = {path.stem for path in paths} - {Path(path).stem for path in skipped}
    pairs = sorted({(row[0], row[-1]) for row in cited if len(row) == 3 and {row[0], row[-1]} <= there})
    lines = write_parts(pairs, PAPER_PARTS, options.output)
    links = (options.output / "pairs_train.tsv").read_text().splitlines(keepends=True)
    write_text(options.output / "citations_train.tsv", "".join(x[:-3] + "\n" for x in links if x.endswith("1\n")))
    return [f"{count:,} papers and {len(pairs):,} citations", *lines]


def wikipedia(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """The dump of an encyclopedia (pages-articles, XML, bz2): articles in sections, and the links of their text.

    Templates, tables and references are left out with their links; a link to a redirect leads to its article.
    """
    articles, redirects, namespaces = set[str](), dict[str, str](), {"image"}

    def pages(links: Any) -> Iterator[Row]:
        with bz2.open(options.dump) as stream:
            elements = ElementTree.iterparse(stream, ["start", "end"])
            _, root = next(elements)
            for event, element in elements:
                kind = element.tag.rpartition("}")[2]
                if event == "end" and kind == "namespace" and element.text:
                    namespaces.add(element.text.lower())
                if event == "end" and kind == "page":
                    parts = {part.tag.rpartition("}")[2]: part for part in element.iter()}
                    title = parts["title"].text or ""
                    if parts["ns"].text == "0" and "redirect" in parts:
                        redirects[page_id(title)] = page_id(parts["redirect"].get("title", ""))
                    elif parts["ns"].text == "0" and (page := text_of_page(parts["text"].text or "", namespaces))[0]:
                        articles.add(id := page_id(title))
                        links.writelines(f"{id}\t{target}\n" for target in dict.fromkeys(page[1]))
                        yield {"id": id, "title": title, "sections": page[0]}
                    root.clear()

    def known(links: Any) -> Iterator[str]:
        links.seek(0)
        for source, target in (line.rstrip("\n").split("\t") for line in links):
            if (target := redirects.get(target, target)) in articles and target != source:
                yield f"{source}\t{target}\n"

    with tempfile.TemporaryFile("w+", encoding="utf-8") as links:
        count = write_rows(options.output / "articles.jsonl", pages(links))
        return [f"{count:,} articles and {write_lines(options.output / 'links.tsv', known(links)):,} links"]


def page_id(title: str) -> str:
    """The name of a page as links have it, without white space."""
    name = "_".join(title.partition("#")[0].replace("_", " ").split())
    return name[:1].upper() + name[1:]


def text_of_page(text: str, namespaces: Collection[str]) -> tuple[list[Row], list[str]]:
    """Sections of a page in wikitext, as plain text, and the pages that it links to."""
    targets: list[str] = []

    def shown(link: re.Match[str]) -> str:
        name, _, rest = link[1].partition(":")
        if rest and name.strip().lower() in namespaces:
            return ""
        targets.append(page_id(link[1].lstrip(" :")))
        return str(link[1] if link[2] is None else link[2])

    text = _INSIDE.sub("", text)
    for pattern, new in ((_BRACES, ""), (_LINK, shown)):
        count = 1
        while count:
            text, count = pattern.subn(new, text)
    return sections_between(_PAGE_HEADING, html.unescape(_MARKS.sub("", _ADDRESS.sub(r"\1", text)))), targets


def sections_between(headings: re.Pattern[str], text: str) -> list[Row]:
    """Sections that have a text, with the headings above them."""
    parts = ["", *headings.split(text)]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [{"heading": name, "text": text.strip()} for name, text in pairs if text.strip()]


def wiki(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """Pairs of articles as CoLDE builds WIKI (section 4.1.1): more than half of their outgoing links agree.

    A line has the ids of both ends of a link. Articles with one similar article alone are left out.
    """
    outgoing, sources = defaultdict[str, set[str]](set), defaultdict[str, list[str]](list)
    for source, target in (line.split() for _, line in numbered_lines(options.links)):
        outgoing[source].add(target)
    linked = Counter(target for targets in outgoing.values() for target in targets)
    for source, targets in sorted(outgoing.items()):
        # More than half of the links of either are common, so that the rarer halves of both meet.
        for target in sorted(targets, key=lambda one: (linked[one], one))[: (len(targets) + 1) // 2]:
            sources[target].append(source)
    found = {pair for row in sources.values() for pair in combinations(row, 2)}
    ends = ((pair, outgoing[pair[0]], outgoing[pair[1]]) for pair in sorted(found))
    pairs = [pair for pair, one, other in ends if len(one & other) > ALIKE * len(one | other)]
    degrees = Counter(article for pair in pairs for article in pair)
    pairs = [pair for pair in pairs if min(degrees[article] for article in pair) > 1]
    return write_parts(pairs, ARTICLE_PARTS, options.output)


def write_parts(pairs: Sequence[tuple[str, str]], parts: dict[str, float], folder: Path) -> list[str]:
    """Draw documents into parts; every similar pair of a part stands beside its first document and another one."""
    draw, similar = np.random.default_rng(0), defaultdict[str, set[str]](set)
    for first, second in pairs:
        similar[first].add(second)
        similar[second].add(first)
    documents = draw.permutation(sorted(similar)).tolist()
    ends, said = [0, *(np.cumsum(list(parts.values())) * len(documents)).round().astype(int)], []
    for part, start, end in zip(parts, ends, ends[1:], strict=False):
        place, lines = {document: row for row, document in enumerate(documents[start:end])}, []
        for first, second in (pair for pair in pairs if place.keys() >= {*pair}):
            alike = [place[one] for one in {first, *similar[first]} if one in place]
            others = np.delete(np.arange(start, end), alike)
            chosen = draw.choice(others, 1).tolist() if len(others) else []
            lines += [f"{first}\t{second}\t1\n", *(f"{first}\t{documents[row]}\t0\n" for row in chosen)]
        write_text(folder / f"pairs_{part}.tsv", "".join(lines))
        said.append(f"{part}: {len(place):,} documents, {len(lines) // 2:,} similar pairs and as many others")
    return said


def hyperpartisan(options: argparse.Namespace, skipped: list[str]) -> list[str]:
    """SemEval 2019, task 4: articles with their labels, and the split of Beltagy et al. 2020."""
    labels = {one.get("id"): one.get("hyperpartisan") for one in ElementTree.parse(options.labels).iter("article")}
    # Ids are 0000007 in XML and 7 in JSON.
    split = {int(id): part for part, ids in json.loads(options.split.read_text()).items() for id in ids}

    def articles() -> Iterator[Row]:
        for one in ElementTree.parse(options.articles).iter("article"):
            for paragraph in one.iter("p"):
                paragraph.text, paragraph.tail = (f"\n\n{part or ''}" for part in (paragraph.text, paragraph.tail))
            id, text = one.get("id", ""), re.sub(r"\s*\n\s*\n\s*", "\n\n", "".join(one.itertext())).strip()
            row = {"id": id, "title": one.get("title"), "text": text, "label": labels.get(id)}
            yield {**row, "split": split.get(int(id))}

    return [f"{write_rows(options.output / 'articles.jsonl', articles()):,} articles"]


def parsed(text: str, place: str, needed: Sequence[str], skipped: list[str]) -> Row | None:
    """A JSON object with some keys; None for one that is skipped."""
    try:
        row: Row = json.loads(text)
        if all(row[key] not in (None, "") for key in needed):
            return row
    except (ValueError, RecursionError, TypeError, KeyError):
        pass
    skipped.append(place)
    return None


def write_rows(path: Path, rows: Iterator[Row]) -> int:
    """Write JSON Lines one by one; how many there are."""
    return write_lines(path, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_lines(path: Path, lines: Iterator[str]) -> int:
    """Write lines one by one; how many there are."""
    count = 0

    def write(temporary: Path) -> None:
        nonlocal count
        with temporary.open("w", encoding="utf-8") as file, progress_bar(None, None, "Writing", "lines") as bar:
            for line in lines:
                file.write(line)
                count += 1
                bar.update(1)

    write_atomically(path, write)
    return count


# Name of a data set, what converts it, and the files it needs.
SETS: dict[str, tuple[Callable[[argparse.Namespace, list[str]], list[str]], dict[str, str]]] = {
    "cnse": (news_pairs, {"pairs": "same_event_doc_pair.txt"}),
    "cnss": (news_pairs, {"pairs": "same_story_doc_pair.txt"}),
    "lecardv2": (lecardv2, {"--queries": "JSON Lines", "--cases": "folder of JSON", "--qrels": "grades of TREC"}),
    "coliee": (coliee, {"--cases": "folder of texts", "--labels": "JSON of queries and the cases they cite"}),
    "sdr": (sdr, {"articles": "CSV of titles and sections", "--relevant": "JSON of titles and similar ones"}),
    "aan": (aan, {"--papers": "folder of texts", "--citations": "lines such as P00-1001 ==> P99-1002"}),
    "wikipedia": (wikipedia, {"dump": "pages-articles, XML, bz2"}),
    "wiki": (wiki, {"links": "two ids in a line"}),
    "hyperpartisan": (hyperpartisan, {"--articles": "XML", "--labels": "XML", "--split": "JSON of ids by part"}),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Convert, and say what was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets = parser.add_subparsers(dest="set", required=True, metavar="SET")
    for name, (convert, files) in SETS.items():
        one = sets.add_parser(name, help=(convert.__doc__ or "").strip())
        for argument, help in files.items():
            options = {"required": True} if argument.startswith("--") else {}
            one.add_argument(argument, type=Path, metavar="PATH", help=help, **options)
        one.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(arguments)
    if gone := [one for one in {**vars(options), "output": 0}.values() if isinstance(one, Path) and not one.exists()]:
        parser.exit(2, f"{parser.prog}: {gone[0]}: there is no such file; check the path\n")
    skipped: list[str] = []
    try:
        lines = SETS[options.set][0](options, skipped)
    except (GraphdocError, ElementTree.ParseError, EOFError) as error:
        parser.exit(2, f"{parser.prog}: {one_line(str(error))}\n")
    except OSError as error:
        parser.exit(2, f"{parser.prog}: {error.filename}: {error.strerror}; check the path\n")
    if skipped:
        lines.append(f"skipped {len(skipped):,} that are not of this form, the first: {skipped[0]}")
    print("\n".join([*lines, f"wrote {options.output}"]))


if __name__ == "__main__":
    main(sys.argv[1:])
