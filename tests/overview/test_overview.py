from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collections_of_topics import LICENCE, TOPICS, make_collection, make_overview, overview_of, with_licences
from typed import Documents, Encoders, Log

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError, OutputError, SettingsError
from graphdoc.overview import Overview
from graphdoc.overview.names import EditedName, apply_edited_names, name_groups, read_names, write_names
from graphdoc.overview.unspaced import join_pairs
from graphdoc.segmentation import find_repeats
from graphdoc.segmentation.terms import language_of
from graphdoc.vectors.folder import Manifest, read_repeats, read_vectors

BOUNDS: dict[str, Any] = {"neighbours": 0, "duplicates": 1.5, "group_size": 1, "seed": 2**32}


@pytest.fixture(scope="module")
def overview() -> Overview:
    return make_overview(group_size=15)


def test_groups_are_the_topics(overview: Overview) -> None:
    assert [len(group.rows) for group in overview.groups] == [30, 30, 30, 30]
    for group in overview.groups:
        topics = {overview.documents[row].label for row in group.rows}
        assert len(topics) == 1
        assert set(group.words) <= set(TOPICS[topics.pop()].split()) | set(TOPICS)
        assert set(group.typical) <= set(group.rows.tolist())
        assert 1 <= len(group.name.split(", ")) <= 3


def test_tables_agree_with_each_other(overview: Overview, tmp_path: Path) -> None:
    documents, near = overview.to_frame(), overview.neighbours
    ids = [digest.id for digest in overview.documents]
    assert documents["id"].tolist() == ids
    assert documents["nearest"].tolist() == [ids[row] for row in near.rows[:, 0]]
    assert documents["nearest_score"].tolist() == pytest.approx(near.scores[:, 0].tolist(), abs=1e-6)
    scores = [score for *_, score in overview.pairs()]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(documents["nearest_score"].max(), abs=1e-6)
    assert documents["closeness"].tolist() == pytest.approx(near.scores[:, :5].mean(axis=1).tolist(), abs=1e-6)
    assert set(documents["folder"]) == set(documents["label"]) == set(TOPICS)
    with overview.to_csv(tmp_path / "documents.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == documents["id"].tolist()
    assert [float(row["x"]) for row in rows] == pytest.approx(documents["x"].tolist())


def test_what_is_left_out_as_repeated_is_listed() -> None:
    documents, vectors = make_collection(6)
    versions = [Document(f"v{number}", (Section(LICENCE, heading="Licence"),)) for number in range(3)]
    all_of_them = [*with_licences(documents), *versions]
    overview = overview_of(all_of_them, np.vstack([vectors, np.eye(32)[:3] * 9]), repeats=find_repeats(all_of_them))
    (passage,) = overview.repeats.passages
    # Licences that are all of a document count in it, and are left out of none.
    assert (passage.documents, passage.text, passage.characters) == (12, LICENCE.strip(), 12 * len(LICENCE.strip()))
    content = json.loads(json.dumps(overview.to_dict(), allow_nan=False))["repeats"]
    assert (content["documents"], content["kept"], content["characters"]) == (12, 3, 12 * len(LICENCE.strip()))
    assert [all_of_them[row].id for row in content["passages"][0]["examples"]] == [one.id for one in documents[:6:2]]


def test_words_of_what_is_left_out_tell_nothing() -> None:
    documents, vectors = make_collection(6)
    versions = [Document(f"v{number}", (Section(LICENCE, heading="Licence"),)) for number in range(3)]
    all_of_them = [*with_licences(documents), *versions]
    rows = np.vstack([vectors, np.eye(32)[:3] * 9])

    def has_warranty(**options: Any) -> list[bool]:
        words = overview_of(all_of_them, rows, **options).words
        return [bool(count) for count in words.counts[:, [words.written.index("warranty")]].toarray()]

    assert has_warranty() == [*[True, False] * 12, True, True, True]
    # Where it is all of a document, it is what that is about.
    assert has_warranty(repeats=find_repeats(all_of_them)) == [*[False] * 24, True, True, True]


def test_passages_are_cut_as_the_model_of_the_vectors_cuts_them() -> None:
    documents, vectors = make_collection(6)
    repeats = find_repeats(with_licences(documents))
    listed = {
        words: Overview.from_vectors(
            [one.id for one in documents],
            vectors,
            with_licences(documents),
            model={"name": "made up", "passage_words": words},
            repeats=repeats,
        ).repeats
        for words in (20, 100)
    }
    assert len(listed[20].passages) == 2 and len(listed[100].passages) == 1


def test_json_has_everything(overview: Overview) -> None:
    content = json.loads(json.dumps(overview.to_dict(), allow_nan=False))
    assert content["format"] == "graphdoc.overview/1"
    assert content["settings"] == {"neighbours": 10, "duplicates": 0.98, "group_size": 15, "seed": 0, "fit": True}
    assert [group["size"] for group in content["groups"]] == [30, 30, 30, 30]
    for row, document in enumerate(content["documents"]):
        assert len(document["neighbours"]) == 10
        assert row not in {one["document"] for one in document["neighbours"]}
        assert document["metadata"]["kind"] in ("even", "odd") and document["date"].startswith(("19", "20"))
    assert {document["group"] for document in content["documents"]} == {1, 2, 3, 4}
    assert content["repeats"] == {"documents": 0, "kept": 0, "characters": 0, "passages": []}
    again, other = make_overview(group_size=15), make_overview(group_size=15, seed=1)
    assert again.to_dict() == overview.to_dict()
    assert not np.array_equal(overview.points, other.points)


def test_vectors_are_those_of_the_encoder_and_a_folder_is_gone_on_with(
    tiny_encoder: Encoders, structured: Documents, tmp_path: Path
) -> None:
    encoder = tiny_encoder("bert", readout="mean", trained=True)
    overview = Overview.from_documents(encoder, structured, vectors=tmp_path / "vectors", show_progress_bar=False)
    vectors = encoder.encode(structured, normalize_embeddings=True)
    cosines = vectors @ vectors.T
    for row in range(3):
        others = [other for other in range(3) if other != row]
        expected = sorted((float(cosines[row, other]) for other in others), reverse=True)
        assert overview.neighbours.scores[row].tolist() == pytest.approx(expected, abs=1e-5)
    assert Manifest.read(tmp_path / "vectors").documents == 3
    assert [digest.title for digest in overview.documents] == ["Rice, vinegar and [tides]", "second", "third"]
    again = Overview.from_documents(encoder, structured, vectors=tmp_path / "vectors")
    assert again.to_dict() == overview.to_dict() == Overview.from_documents(encoder, structured).to_dict()
    with pytest.raises(OutputError, match="made of other documents"):
        Overview.from_documents(encoder, structured[::-1], vectors=tmp_path / "vectors")
    with pytest.raises(DocumentError):
        Overview.from_documents(encoder, structured[:1], vectors=tmp_path / "one")
    assert not (tmp_path / "one").exists()


def test_the_list_of_repeats_is_what_the_encoder_leaves_out(tiny_encoder: Encoders, tmp_path: Path) -> None:
    documents = with_licences(make_collection(2)[0])
    encoder = tiny_encoder("bert", readout="mean", trained=True).without_repeats(find_repeats(documents))
    overview = Overview.from_documents(encoder, documents, vectors=tmp_path / "v", show_progress_bar=False)
    assert overview.repeats.shortened == 4
    # White space between passages counts in the coverage.
    spaces = 4 * (len(overview.repeats.passages) - 1)
    assert Manifest.read(tmp_path / "v").coverage.left_out == {"repeated": overview.repeats.characters + spaces}
    made, repeats = Manifest.read(tmp_path / "v"), read_repeats(tmp_path / "v")
    about: dict[str, Any] = {"model": made.model, "repeats": repeats, "coverage": made.coverage}
    stored = Overview.from_vectors(*read_vectors(tmp_path / "v"), documents, **about)
    assert made.model["max_passages"] == 1000 and stored.to_dict() == overview.to_dict()


def test_refusals() -> None:
    nan = [[1, np.nan], [0, 1]]
    for error, ids, vectors, options in (
        (DocumentError, ["a"], np.eye(2)[:1], {}),
        (DocumentError, ["a", "a"], np.eye(2), {}),
        (SettingsError, ["a", "b", "c"], np.eye(2), {}),
        (SettingsError, ["a", "b"], nan, {}),
        *((SettingsError, ["a", "b"], np.eye(2), {name: value}) for name, value in BOUNDS.items()),
    ):
        with pytest.raises(error):
            Overview.from_vectors(ids, vectors, **options)


def test_documents_in_any_order_without_documents_and_all_the_same() -> None:
    documents, vectors = make_collection(5)
    ids = [document.id for document in documents]
    whole, bare = Overview.from_vectors(ids, vectors, reversed(documents)), Overview.from_vectors(ids, vectors)
    assert [digest.title for digest in whole.documents] == [document.title for document in documents]
    assert [digest.title for digest in bare.documents] == ids
    np.testing.assert_array_equal(bare.neighbours.rows, whole.neighbours.rows)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for group in make_overview(5, group_size=4, fit=False).groups:
        scores = unit[group.rows] @ unit[group.rows].mean(axis=0)
        assert list(group.typical) == group.rows[np.argsort(-scores)][:3].tolist()
    same = [Document.from_text("All is well.", id=str(number)) for number in range(50)]
    overview = Overview.from_vectors([one.id for one in same], np.ones((50, 4)), same)
    assert overview.groups == [] and len(overview.duplicates) == 1 and len(overview.duplicates[0]) == 50
    # Of pairs that are all alike none says how alike others are.
    assert overview.background is None and overview.to_dict()["pairs"][0]["share"] is None
    assert len(overview.pairs()) > 0 and np.isfinite(overview.points).all()


def test_what_was_cut_is_counted(tiny_encoder: Encoders) -> None:
    long, short = (Document.from_text(" ".join(["Tides rise and fall."] * times), id=f"d{times}") for times in (400, 2))
    overview = Overview.from_documents(tiny_encoder("bert", readout="mean"), [long, short], max_passages=2)
    assert overview.coverage.documents_not_whole == 1 and "1 of 2" in overview.to_dict()["not_whole"]
    assert Overview.from_vectors(["a", "b"], [[1, 0], [0, 1]]).to_dict()["not_whole"] == ""


TIDES = [f"The Tidal Basin {word} fills. It is the state of the tide: see src/tidal/basin.rs" for word in "abcd"]
BREAD = [f"Flour, salt and sourdough starter. A sourdough starter {word} rises in the oven." for word in "abcd"]


def test_names_are_phrases_as_they_are_written() -> None:
    words = [("tidal", "basin", "tide"), ("sourdough", "starter", "flour", "oven")]
    tides, bread = name_groups([*TIDES, *BREAD], [np.arange(4), np.arange(4, 8)], words, "en")
    assert tides[0] == "Tidal Basin" and "state of the tide" not in tides
    assert bread[0] == "sourdough starter"
    for phrases in (tides, bread):
        used = [word.lower() for phrase in phrases for word in phrase.split()]
        assert len(used) == len(set(used)) and {"src", "rs", "the", "a"}.isdisjoint(used)


def test_stop_words_are_those_of_every_documents_language() -> None:
    german = "Das ist die Hefe, und die Hefe wird mit der Milch und dem Mehl gut verknetet."
    french = "La levure est dans le lait, et la farine vient avec les oeufs pour que tout soit lisse."
    texts = [*TIDES, *(f"{german} {word}" for word in "abcd"), *(f"{french} {word}" for word in "abcd")]
    vectors = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    overview = Overview.from_vectors(
        texts, vectors, [Document.from_text(text, id=text) for text in texts], group_size=2
    )
    stops = {"das", "ist", "die", "und", "wird", "mit", "der", "dem", "la", "est", "dans", "le", "et", "les", "que"}
    assert len(overview.groups) == 3
    for group in overview.groups:
        ends = [phrase.lower().split()[place] for phrase in group.name.split(", ") for place in (0, -1)]
        assert stops.isdisjoint(group.words) and stops.isdisjoint(ends)
    languages = [language_of(text, usual) for usual in ("en", "fi") for text in (german, french, TIDES[0], "Hefe", "")]
    assert languages == ["de", "fr", "en", "en", "en", "de", "fr", "en", "fi", "fi"]


# Two documents of each subject, and what may be said of it.
UNSPACED = {
    "機械学習は規則を見つける。深層学習ではニューラルネットワークを使う。|深層学習で機械学習は広がり、ニューラルネットワークの学習が要る。":
    {"機械学習", "深層学習", "ニューラルネットワーク", "学習"},
    "味噌汁は家庭料理の基本である。だしを鰹節からとり、味噌を溶く。|家庭料理に鰹節のだしが合う。味噌汁とともに並ぶ。":
    {"味噌", "味噌汁", "家庭料理", "鰹節"},
    "涨潮时海水涌入，退潮后滩涂露出。人们看潮汐表安排出海。|港口需要潮汐表。大船涨潮进港，退潮时海面下降。":
    {"潮汐表", "涨潮", "退潮"},
    "โครงข่ายประสาทเทียมต้องใช้ข้อมูล|โครงข่ายประสาทเทียมมีหลายชั้น": {"โครงข่ายประสาทเทียม"},
}  # fmt: skip


def test_names_without_spaces_are_whole_words() -> None:
    documents = [Document.from_text(text, id=text) for pair in UNSPACED for text in pair.split("|")]
    vectors = np.repeat(np.eye(4, dtype=np.float32), 2, axis=0)
    overview = Overview.from_vectors([one.id for one in documents], vectors, documents, group_size=2)
    for group, whole in zip(overview.groups, UNSPACED.values(), strict=True):
        assert set(group.name.split(", ")) <= set(group.words) <= whole
    for group, name in zip(overview.groups, ("機械学習", "味噌汁", "潮汐表", "โครงข่ายประสาทเทียม"), strict=True):
        assert name in group.name
    # Words between spaces stay as they are, also within such texts.
    assert join_pairs(["net", "経網"], ["神経網 net", "神経網", "ab"]) == ["net", "神経網"]
    # A sentence that several documents share is none.
    assert join_pairs(["学习", "规律"], ["机器学习是从数据中寻找规律的技术"] * 9) == []
    texts = ["ニューラルPython言語", "言語とPythonで書く"]
    assert name_groups([*texts, "", ""], [np.arange(2)], [("python", "言語")], "ja") == [("Python", "言語")]


def test_weights_by_hand() -> None:
    # Words apart from each other, so that phrases are single words; `p log(p / q)**2` by NumPy.
    held = np.array([[1] * size + [0] * (8 - size) for size in (4, 3, 6, 2)])
    words = ["zinc", "copper", "iron", "silver"]
    texts = [", ".join(word for word, has in zip(words, column, strict=True) if has) for column in held.T]
    own, everything = held[:, :4].mean(axis=1), held.mean(axis=1)
    order = np.argsort(-own * np.log(own / everything) ** 2, kind="stable")[:3]
    (found,) = name_groups(texts, [np.arange(4)], [words], "en")
    assert list(found) == [words[place] for place in order]


def test_nothing_to_say_and_no_spaces() -> None:
    assert name_groups(["a", "", "b"], [np.arange(3)], [()], "en") == [()]
    assert name_groups(["\u6f6e\u6c50"] * 3, [np.arange(2)], [("\u6f6e\u6c50",)], "zh") in ([()], [("\u6f6e\u6c50",)])


def test_names_that_people_give_are_kept(tmp_path: Path, caplog: Log) -> None:
    overview = make_overview(group_size=15)
    ids = [digest.id for digest in overview.documents]
    path = write_names(tmp_path / "names.csv", overview.groups, ids)
    assert overview.with_names(read_names(path)).to_dict() == overview.to_dict()
    typical = ids[overview.groups[1].typical[0]]
    path.write_text(f"typical,group,name\n{typical},9,What I call it\n,1,=First\nno/such,2,Gone\n{ids[0]},,\n")
    named_again = overview.with_names(read_names(path))
    expected = ["=First", "What I call it", *(group.name for group in overview.groups[2:])]
    assert [group["name"] for group in named_again.to_dict()["groups"]] == expected
    assert "Gone" in caplog.text
    assert apply_edited_names(overview.groups, ids, [EditedName("1", "", "")])[0].name == overview.groups[0].name


@pytest.mark.parametrize("content", [b"id,title\na,b\n", b"name\nx\n", b"\xff\xfe\x00"])
def test_tables_that_are_none_of_names(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_bytes(content)
    with pytest.raises(DocumentError, match="names"):
        read_names(tmp_path / "names.csv")
