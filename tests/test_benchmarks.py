"""Scripts of benchmarks/: studies, published data sets, baselines and scores; what scripts import is there."""

from __future__ import annotations

import ast
import bz2
import csv
import gzip
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from typed import Output, Patch

from graphdoc import read_documents
from graphdoc.documents.readers.pair_files import read_pair_file

ROOT = Path(__file__).parent.parent
SENTENCE_PAIRS = ROOT / "configs" / "studies" / "sdr.yaml"
STUDIES = sorted({*(ROOT / "configs" / "studies").glob("*.yaml")} - {SENTENCE_PAIRS})
Benchmark = Callable[[str], ModuleType]


@pytest.fixture
def benchmark(monkeypatch: Patch) -> Callable[[str], ModuleType]:
    """Imports a file of benchmarks/."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of data with papers in several sections, and pairs of them."""
    folder = tmp_path / "data" / "scisumm_acl"
    folder.mkdir(parents=True)
    sections = [{"heading": heading, "text": "Rice and koji."} for heading in ("Abstract", "Introduction", "Results")]
    papers = [{"id": f"p{number}", "sections": sections} for number in range(24)]
    (folder / "papers.jsonl").write_text("".join(json.dumps(paper) + "\n" for paper in papers))
    for name, part in {"train": range(12), "dev": range(12, 18), "test": range(18, 24)}.items():
        rows = [f"p{a}\tp{b}\t{int(a % 2 == b % 2)}" for a in part for b in part if a < b]
        (folder / f"pairs_{name}.tsv").write_text("\n".join(rows) + "\n")
    return folder.parent


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_row_is_a_run(path: Path, benchmark: Benchmark, data: Path, tmp_path: Path) -> None:
    studies = benchmark("studies")
    files = ["documents=papers.jsonl", "folder=scisumm_acl", "test=pairs_test.tsv", "validation=pairs_dev.tsv"]
    settings = studies.load_settings(studies.StudySettings, path, files)
    study = studies.Study(settings, tmp_path / "work", data)
    runs = {row: study.run_settings(row, 1) for row in settings.rows}
    assert len(runs) >= 2
    assert len({str(row).replace(str(row.folder), "") for row in runs.values()}) == len(runs)
    assert len({row.folder for row in runs.values()}) == len(runs)
    for row in runs.values():
        assert row.training.seed == 1
        assert row.validation.pairs is None
    script = {"section_shuffling": "section_shuffling"}.get(path.stem, "paper_studies")
    assert (ROOT / "benchmarks" / f"{script}.py").is_file()
    assert f"benchmarks/{script}.py" in path.read_text(encoding="utf-8")
    # Models that rows read are runs too, and none is there for nothing.
    assert all(study.model_settings(name).folder.parent == tmp_path / "work" / "models" for name in settings.models)
    header, _, row = studies.as_markdown({"row": [dict.fromkeys(studies.METRICS, 0.5)]})
    assert header.count("|") == row.count("|")
    changes = [change for row in settings.rows.values() for change in row]
    assert all(any(f"{{{name}}}" in change for change in changes) for name in settings.models)
    assert not any("{" in str(row) and "{data}" in str(row) for row in runs.values())


def test_every_row_on_sentence_pairs_is_a_run(benchmark: Benchmark, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    pairs = benchmark("sentence_pairs")
    monkeypatch.setattr(pairs, "language_model", lambda work, *sizes: work / "language_model")
    study = pairs.load_settings(pairs.SentencePairStudy, SENTENCE_PAIRS, [])
    runs = {row: pairs.Runs(study, tmp_path).run_settings(row, 1) for row in study.rows}
    assert len({str(each).replace(str(each.folder), "") for each in runs.values()}) == len(runs) >= 6
    assert len({each.folder for each in runs.values()}) == len(runs)
    assert runs["raw language model"].model.start == str(tmp_path / "language_model")
    assert all("{" not in str(each.corpus.source) for each in runs.values())


HEADER = "label|doc_id1|doc_id2|title1|title2|content1|content2|keywords1|keywords2|time1|time2"
Convert = Callable[..., tuple[int, str]]


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: Patch, capsys: Output) -> Convert:
    """Converts a published set; gives exit status and what was said: ``convert("cnse", "pairs.txt")``."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        status = 0
        try:
            importlib.import_module("published_data").main([*arguments, "--output", "out"])
        except SystemExit as error:
            status = int(error.code or 0)
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def write_articles(*rows: list[str]) -> None:
    with Path("games.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["Title", "Sections"], *rows])
    Path("games.json").write_text(json.dumps({"Tides": {"Koji": 1, "Oak": 1}, "Reeds": {"Koji": 1}}))


def test_articles_become_documents(convert: Convert) -> None:
    sections = [("Abstract", "The moon pulls\nthe sea, 'twice' a day."), ("", "It is salt.")]
    write_articles(["Tides", repr(sections)], ["Koji", repr([["Rice", "x" * 200_000]])], ["Tides", "[]"])
    status, said = convert("sdr", "games.csv", "--relevant", "games.json")
    expected = ("1 of 2 sources and 1 of 3 pairs", "missing: Oak, Reeds", "skipped 1", "games.csv:4")
    assert status == 0 and all(part in said for part in expected)
    first, second = read_documents("out/articles.jsonl")
    assert first.id == first.title == "Tides"
    assert [(one.heading, one.text) for one in first.sections] == sections
    assert len(second.text) == 200_000


@pytest.mark.parametrize("bad", ["__import__('os').system('touch ran')", "[(1, 2)]", "{}"])
def test_nothing_is_executed_and_mistakes_name_the_line(convert: Convert, bad: str) -> None:
    write_articles(["Tides", bad])
    status, said = convert("sdr", "games.csv", "--relevant", "games.json")
    assert status == 2 and "games.csv:2" in said and len(said.splitlines()) == 1
    assert not Path("ran").exists() and not Path("out/articles.jsonl").exists()


def row(label: int, a: str, b: str) -> str:
    return f"{label}|{a}|{b}|三星 发布 {a}|标题|三星 Galaxy S8 的 屏幕 {a}|内容 {b} 。|k|k|1|2"


def test_pairs_of_news(convert: Convert) -> None:
    bad = [row(1, "a", "b") + "|more", row(2, "a", "b"), "1|a|b|t|t| |text|k|k|1|2"]
    rows = [*(row(number % 2, f"n{number}", f"m{number % 3}") for number in range(11)), *bad]
    Path("pairs.txt").write_text("\ufeff" + "\r\n".join([HEADER, *rows]) + "\r\n", encoding="utf-8")
    status, said = convert("cnse", "pairs.txt")
    assert status == 0 and "14 documents and 11 pairs" in said and "skipped 3" in said and "pairs.txt:13" in said
    documents = {document.id: document for document in read_documents("out/documents.jsonl")}
    assert len(documents) == 14
    assert (documents["n4"].title, documents["n4"].text) == ("三星发布n4", "三星Galaxy S8的屏幕n4")
    parts = [list(read_pair_file(f"out/{name}.tsv")) for name in ("train", "dev", "test")]
    # 60, 20 and 20 % of the lines, rounded up.
    assert [len(part) for part in parts] == [7, 2, 2]
    assert [pair.a for part in parts for pair in part] == [f"n{number}" for number in range(11)]
    assert parts[0][1] == ("n1", "m1", 1)


def test_articles_that_link_alike_are_pairs(convert: Convert) -> None:
    # Of twenty articles of a group each links to all three of its targets, and one to a fourth alone.
    links = [(f"{group}{n}", f"{group}-{to}") for group in "ab" for n in range(20) for to in range(3)]
    with gzip.open("links.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"{source}\t{target}\n" for source, target in [*links, *links[:5], ("a99", "a-0")])
    status, _ = convert("wiki", "links.tsv.gz")
    parts = {part: list(read_pair_file(f"out/pairs_{part}.tsv")) for part in ("train", "dev", "test")}
    assert status == 0 and all(parts.values())
    inside = {part: {id for pair in pairs for id in (pair.a, pair.b)} for part, pairs in parts.items()}
    assert [len(ids) for ids in inside.values()] == [20, 8, 12] and len(set().union(*inside.values())) == 40
    for pairs in parts.values():
        assert sum(pair.label for pair in pairs) == len(pairs) / 2
        assert all((pair.a[0] == pair.b[0]) == pair.label for pair in pairs)


DUMP = """<mediawiki xmlns="a:b"><siteinfo><namespace/><namespace>File</namespace><namespace>Category</namespace>
</siteinfo><page><title>Mold (fungus)</title><ns>0</ns><redirect title="Mould"/><revision><text/></revision></page>
{}</mediawiki>"""
PAGE = """{{Infobox|map={{nested|{| class=x |}}}}}[[File:Koji.jpg|thumb|On [[rice]] grains]]
'''Koji''' is a [[mold (fungus)|mould]].&lt;ref name="a/b"&gt;[[Oak]]&lt;/ref&gt;&lt;ref name=x /&gt; It makes
[[sake#Brewing|sake]]&amp;nbsp;and [https://x.org miso].&lt;!-- [[Oak]] --&gt;
== Use ==
* [[Soy sauce]] in [[:Category:Sauces|all]] kinds
{| class="wikitable" | [[Oak]] |}
=== Today ===
[[Category:Food]]"""


def test_a_dump_of_an_encyclopedia(convert: Convert) -> None:
    pages = (("Koji", 0, PAGE), ("Mould", 0, "On [[koji]]."), ("Talk:Koji", 1, "[[Koji]]"), ("Oak", 0, "Oak."))
    page = "<page><title>{}</title><ns>{}</ns><revision><text>{}</text></revision></page>"
    Path("dump.bz2").write_bytes(bz2.compress(DUMP.format("".join(page.format(*one) for one in pages)).encode()))
    assert convert("wikipedia", "none.bz2")[0] == 2 and "none.bz2" in convert("wikipedia", "none.bz2")[1]
    status, said = convert("wikipedia", "dump.bz2")
    first, *others = read_documents("out/articles.jsonl")
    assert status == 0 and "3 articles and 2 links" in said and [one.id for one in others] == ["Mould", "Oak"]
    sections = ("", "Koji is a mould. It makes\nsake\xa0and miso."), ("Use", "Soy sauce in all kinds")
    assert tuple((one.heading, one.text) for one in first.sections) == sections
    assert Path("out/links.tsv").read_text().split() == ["Koji", "Mould", "Mould", "Koji"]


def test_papers_lose_abstract_and_references_by_their_headings(convert: Convert) -> None:
    text = (
        "A title\n\nAbstract\nIn short.\n1 Introduction\nKoji 2.5 grows.\n2.1 More Rice\nIt is\nReferences\nA. Author."
    )
    Path("papers").mkdir()
    for number in range(40):
        Path(f"papers/P{number:02}.txt").write_text(text)
    links = [f"P{number:02} ==> P{number ^ 1:02}\n" for number in range(40)]
    Path("acl.txt").write_text("".join([*links, "P01 ==> P99\n"]))
    status, said = convert("aan", "--papers", "papers", "--citations", "acl.txt")
    assert status == 0 and "40 papers and 40 citations" in said and "train: 32 documents" in said
    headings = [section.heading for section in next(read_documents("out/papers.jsonl")).sections]
    assert headings == ["", "Abstract", "1 Introduction", "2.1 More Rice", "References"]
    cited = Path("out/citations_train.tsv").read_text().splitlines()
    assert [f"{pair.a}\t{pair.b}" for pair in read_pair_file("out/pairs_train.tsv") if pair.label] == cited != []


def test_hyperpartisan_news(convert: Convert) -> None:
    articles = '<a><article id="0000007" title="Koji">By <b>us</b>.<p>Rice &amp; mould.</p><p>Steam.</p></article></a>'
    Path("articles.xml").write_text(articles)
    Path("labels.xml").write_text('<a><article id="0000007" hyperpartisan="true"/></a>')
    Path("split.json").write_text('{"train": [], "test": [7]}')
    code, _ = convert("hyperpartisan", "--articles", "articles.xml", "--labels", "labels.xml", "--split", "split.json")
    (document,) = read_documents("out/articles.jsonl")
    assert code == 0 and (document.text, document.label) == ("By us.\n\nRice & mould.\n\nSteam.", "true")
    assert document.metadata["split"] == "test"


SCRIPTS = sorted(path for folder in ("benchmarks", "pretrain", "finetune") for path in (ROOT / folder).glob("*.py"))


def taken(path: Path) -> Iterator[tuple[str, str]]:
    """Every module of the package that a script imports from, with the name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "graphdoc":
            yield from ((node.module, one.name) for one in node.names)


def test_what_scripts_import_is_there() -> None:
    for path in SCRIPTS:
        for module, name in taken(path):
            there = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
            assert there, f"{path.name}: {module} has no {name}"


# Percent of furniture that is still kept of pages of newspapers and blogs, at most; some of it are headings.
KEPT = {
    "apples_de": 8, "bicycle_hi": 2, "bread_tr": 4, "chestnut_soup_fr": 8, "dacha_stove_ru": 4, "date_palms_ar": 3,
    "law_de": 2, "lock_gauge_en": 2, "moss_garden_ja": 4, "night_train_es": 3, "slow_radio_en": 4, "tea_field_zh": 11,
    "cable_car_tr": 7, "harbour_live_en": 6, "ice_road_ru": 14, "kettle_review_ja": 2, "lanterns_gallery_zh": 7,
    "library_boat_zh": 18, "orchard_pl": 9, "salt_amp_es": 3, "teaser_fr": 10, "tramway_fr": 5, "well_hi": 6,
}  # fmt: skip


def test_the_projects_own_set_is_read_right(benchmark: Benchmark) -> None:
    reading = benchmark("reading")
    paths = reading.files(ROOT / "tests" / "documents" / "parsing" / "reading_set")
    scores = {path: reading.measure(reading.read_with_graphdoc, path, attempts=1) for path in paths}
    assert {path.parts[-3] for path in paths} >= {"html", "text"} and len(paths) >= 40
    wrong = {
        path.name: one
        for path, one in scores.items()
        if (one.error or one.recall < 1 or one.nesting < 1 or one.coverage < 0.995 or one.order < 1)
        or one.furniture > KEPT.get(path.stem, 1) / 100
        or (one.precision < 1 and path.stem not in KEPT)
    }
    assert not wrong
