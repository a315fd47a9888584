from __future__ import annotations

import csv
import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from typed import Documents, Encoders, Patch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.errors import ModelError, OutputError, SettingsError
from graphdoc.segmentation.spans import Coverage, SegmentedDocument, Span
from graphdoc.similarity import Comparison, EncodedDocument
from graphdoc.similarity.kinds import similarity_matrix


@pytest.fixture(scope="module")
def comparison(tiny_encoder: Encoders, structured: Documents) -> Comparison:
    encoder = tiny_encoder("bert", graph_kind="section", readout="attention")
    return encoder.compare(structured[0], structured[1], sentences=True)


@pytest.fixture(scope="module")
def within(tiny_encoder: Encoders, structured: Documents) -> Comparison:
    return tiny_encoder("bert", readout="mean").compare(structured[0], sentences=True)


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.array([[x @ y / (np.sqrt(x @ x) * np.sqrt(y @ y)) for y in b] for x in a])


@pytest.mark.parametrize("readout", ["mean", "attention"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_contributions_without_a_graph_are_weighted_products(
    tiny_encoder: Encoders, structured: Documents, readout: str, similarity: str
) -> None:
    encoder = tiny_encoder(readout=readout, graph_layers=0, similarity=similarity)
    for other in (structured[1], None):
        result = encoder.compare(structured[0], other)
        parts = encoder.encode([structured[0], other or structured[0]], level="passage")
        x, y = (vectors.astype(np.float64) for vectors in parts)
        w, v = result.a.weights, result.b.weights
        d, e = w @ x, v @ y
        scale = np.linalg.norm(d) * np.linalg.norm(e) if similarity == "cosine" else 1.0
        expected = np.array([[w[i] * v[j] * (x[i] @ y[j]) / scale for j in range(len(y))] for i in range(len(x))])
        np.testing.assert_allclose(result.passage_contributions, expected, atol=1e-6, rtol=1e-5)
        assert result.section_contributions.shape == result.sections.shape
        assert result.section_contributions.sum() == pytest.approx(result.document, rel=1e-5)
        assert result.document == pytest.approx(d @ e / scale, rel=1e-5)


class TestDocumentsEncodedBefore:
    def test_one_against_many_is_encoded_once(
        self, tiny_encoder: Encoders, structured: Documents, monkeypatch: Patch
    ) -> None:
        encoder = tiny_encoder("bert", readout="mean")
        expected = [encoder.compare(structured[0], other).to_dict() for other in structured]
        passages, encode = [], encoder.model.encode_passages

        def counted(batch: Any, *rest: Any) -> Any:
            passages.append(len(batch.token_ids))
            return encode(batch, *rest)

        monkeypatch.setattr(encoder.model, "encode_passages", counted)
        first, *others = map(encoder.encode_levels, structured)
        assert len(passages) == len(structured)
        assert encoder.compare(first, first).to_dict() == expected[0]
        assert [encoder.compare(first, other).to_dict() for other in (first, *others)] == expected
        assert encoder.compare_all([first, *others]).document_scores.shape == (3, 3)
        assert len(passages) == len(structured)
        assert encoder.compare(first, structured[1]).to_dict() == expected[1]
        assert len(passages) == len(structured) + 1
        # Sentences are added where they are asked for.
        found = encoder.compare(first, structured[1], sentences=True)
        assert found.to_dict() == encoder.compare(*structured[:2], sentences=True).to_dict() and not first.sentences

    def test_those_of_another_model_are_refused(self, tiny_encoder: Encoders, structured: Documents) -> None:
        encoded = tiny_encoder("bert", readout="mean").encode_levels(structured[0])
        other = tiny_encoder("bert", readout="attention")
        for call in (lambda: other.compare(structured[0], encoded), lambda: other.compare_all([encoded])):
            with pytest.raises(ModelError) as error:
                call()
            assert "'first'" in str(error.value) and "readout" in str(error.value)


class TestMatrices:
    def test_against_numpy(self, comparison: Comparison, tiny_encoder: Encoders, structured: Documents) -> None:
        encoder = tiny_encoder("bert", graph_kind="section", readout="attention")
        for level, found in (("section", comparison.sections), ("passage", comparison.passages)):
            a, b = encoder.encode(structured[:2], level=level)  # type: ignore[arg-type]
            np.testing.assert_allclose(found, cosine(a, b), atol=1e-5)
        documents = encoder.encode(structured[:2])
        assert comparison.document == pytest.approx(float(cosine(documents[:1], documents[1:])[0, 0]), abs=1e-5)

    def test_paragraphs(self, comparison: Comparison) -> None:
        a, b = comparison.a, comparison.b
        assert a.paragraph_rows is not None and comparison.sentences is not None and comparison.paragraphs is not None
        # Figure 3 of the SDR paper: a paragraph is a section.
        assert [span.section for span in a.paragraphs] == list(dict.fromkeys(one.section for one in a.sentences or ()))
        assert len(a.paragraphs) > 1 and len(b.paragraphs) > 1

        def block(i: int, j: int) -> npt.NDArray[np.float64]:
            assert comparison.sentences is not None
            return comparison.sentences[a.paragraph_rows == i][:, b.paragraph_rows == j]

        cells = [[block(i, j).max(axis=1).mean() for j in range(len(b.paragraphs))] for i in range(len(a.paragraphs))]
        np.testing.assert_allclose(comparison.paragraphs, cells, atol=1e-6)
        scores = comparison.sentence_scores
        assert scores is not None and set(scores) == {"sentences", "flat", "paragraphs", "document"}
        back = [[block(i, j).max(axis=0).mean() for j in range(len(b.paragraphs))] for i in range(len(a.paragraphs))]
        expected = (np.max(cells, axis=1).mean() + np.max(back, axis=0).mean()) / 2
        assert scores["sentences"] == pytest.approx(expected, abs=1e-6)
        for by, score in scores.items():
            assert comparison.alignment(by).score == pytest.approx(score, abs=1e-6)
        source = comparison.alignment(direction="source")
        assert source.score == pytest.approx(np.max(cells, axis=1).mean(), abs=1e-6)
        assert [pair.source for pair in source.pairs] == list(range(len(a.paragraphs)))
        frame = comparison.to_frame("paragraph")
        assert len(frame) == comparison.paragraphs.size
        first, span = frame.iloc[0], a.paragraphs[0]
        assert first["text_a"] == a.segmented.document.sections[span.section].text[span.start : span.end]
        content = comparison.to_dict()
        assert content["alignment"] == comparison.alignment().to_dict()
        assert content["sentence_scores"] == scores
        assert [one["sentences"] for one in content["a"]["paragraphs"]][-1][1] == len(a.sentences or ())
        json.dumps(content, allow_nan=False)

    def test_sentences(self, comparison: Comparison, tiny_encoder: Encoders, structured: Documents) -> None:
        a, b = comparison.a, comparison.b
        assert a.sentences is not None and b.sentences is not None and comparison.sentences is not None
        texts = [a.segmented.text(span) for span in a.sentences]
        assert texts[:2] == [
            "Rice is polished, soaked and steamed.",
            "The grains must stay whole, and dry enough for the mould to grow in.",
        ]
        assert comparison.sentences.shape == (len(a.sentences), len(b.sentences)) == (10, 9)
        encoder = tiny_encoder("bert", graph_layers=0, readout="mean")
        plain = encoder.compare(structured[0], structured[1])
        assert plain.paragraphs is plain.sentence_scores is plain.to_dict()["alignment"] is None
        for work in (plain.alignment, lambda: plain.scores("paragraph")):
            with pytest.raises(SettingsError, match="sentences=True"):
                work()
        alone = [encoder.encode(text) for text in texts]
        found = encoder.encode_levels(structured[0], sentences=True).sentence_vectors
        np.testing.assert_allclose(found, alone, atol=1e-5)
        assert a.sentence_vectors is not None and b.sentence_vectors is not None
        np.testing.assert_allclose(comparison.sentences, cosine(a.sentence_vectors, b.sentence_vectors), atol=1e-6)

    def test_only_sentences_of_encoded_passages(self, tiny_encoder: Encoders, structured: Documents) -> None:
        encoded = tiny_encoder("bert", max_passages=2).encode_levels(structured[0], sentences=True)
        assert encoded.sentences is not None
        ends = {span.section: span.end for span in encoded.segmented.passages}
        assert set(ends) == {0}
        assert all(span.end <= ends[span.section] for span in encoded.sentences)
        assert len(encoded.sentences) >= 2

    def test_within_one_document(self, within: Comparison) -> None:
        assert within.is_within
        assert within.document == pytest.approx(1)
        assert repr(within).startswith("Comparison('first' within itself: 1.000, 3 x 3 sections")
        assert len(repr(within.a)) < 3_000 and "wave" not in repr(within.a)
        for matrix in (within.sections, within.passages, within.sentences):
            assert matrix is not None
            np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
            np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-9)

    @given(
        arrays(np.float32, st.tuples(st.integers(1, 5), st.just(4)), elements=st.floats(-100, 100, width=32)),
        arrays(np.float32, st.tuples(st.integers(1, 5), st.just(4)), elements=st.floats(-100, 100, width=32)),
    )
    def test_cosines_are_bounded_and_symmetric(self, a: np.ndarray, b: np.ndarray) -> None:
        matrix = similarity_matrix(a, b)
        assert np.isfinite(matrix).all()
        assert np.abs(matrix).max() <= 1
        np.testing.assert_array_equal(matrix, similarity_matrix(b, a).T)


def made_of(vectors: np.ndarray, within: np.ndarray | None = None) -> Comparison:
    """A comparison of documents with one passage a section and the given passage vectors."""

    def encoded(rows: np.ndarray) -> EncodedDocument:
        sections = tuple(Section(f"Text {number}.", f"Heading {number}") for number in range(len(rows)))
        spans = tuple(Span(number, 0, 7, 2) for number in range(len(rows)))
        count = len(rows)
        coverage = Coverage(7 * count, 7 * count, 2 * count, 2 * count, count, count)
        segmented = SegmentedDocument(Document("made", sections), spans, ((1, 2),) * count, coverage)
        terms = (rows / count).astype(np.float32)
        weights = np.full(count, 1 / count, np.float32)
        return EncodedDocument(segmented, terms.sum(0), rows.astype(np.float32), terms, weights)

    a = encoded(vectors)
    return Comparison(a, a if within is None else encoded(within), {"name": "made"}, "cosine", within is None)


VECTORS = arrays(np.int8, st.tuples(st.integers(1, 6), st.just(3)), elements=st.integers(-3, 3))


class TestMatches:
    @given(VECTORS, VECTORS)
    def test_every_part_with_its_best_partner(self, a: np.ndarray, b: np.ndarray) -> None:
        comparison = made_of(a, b)
        scores = comparison.passages
        matches = comparison.matches("passage", None)
        found = {(match.a, match.b) for match in matches}
        assert len(found) == len(matches)
        assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)
        for row in range(len(a)):
            assert any(pair[0] == row and scores[pair] == scores[row].max() for pair in found)
        for column in range(len(b)):
            assert any(pair[1] == column and scores[pair] == scores[:, column].max() for pair in found)
        for match in matches:
            assert match.score == scores[match.a, match.b]
            assert match.score in (scores[match.a].max(), scores[:, match.b].max())
            assert match.contribution == comparison.passage_contributions[match.a, match.b]

    @given(VECTORS)
    def test_within_a_document_no_part_is_its_own_partner(self, vectors: np.ndarray) -> None:
        comparison = made_of(vectors)
        scores = comparison.passages.copy()
        matches = comparison.matches("section", None)
        assert all(match.a < match.b for match in matches)
        assert len({(match.a, match.b) for match in matches}) == len(matches)
        np.fill_diagonal(scores, -np.inf)
        for match in matches:
            # The two halves of the matrix may differ in the last digit.
            assert match.score >= min(scores[match.a].max(), scores[match.b].max()) - 1e-12
        for row in range(len(vectors)):
            pairs = [(match.a, match.b) for match in matches if row in (match.a, match.b)]
            assert (len(vectors) == 1) == (not pairs)
            if pairs:
                assert max(scores[pair] for pair in pairs) == pytest.approx(scores[row].max(), abs=1e-12)


def test_tables(comparison: Comparison, tmp_path: Path) -> None:
    frame = comparison.to_frame()
    assert list(frame.columns) == [
        *("a", "b", "score", "contribution"),
        *("heading_a", "text_a", "start_a", "end_a", "heading_b", "text_b", "start_b", "end_b"),
    ]
    assert len(frame) == comparison.passages.size
    assert frame["contribution"].sum() == pytest.approx(comparison.document, abs=1e-5)
    sections = {section.heading: section.text for section in comparison.a.segmented.document.sections}
    for row in frame.itertuples():
        assert row.score == comparison.passages[row.a, row.b]
        assert row.text_a == sections[row.heading_a][row.start_a : row.end_a]
    assert comparison.matches("passage", 3) == comparison.matches("passage", None)[:3]
    assert comparison.matches("sentence", 1)[0].contribution is None
    frame = comparison.to_frame("section")
    assert list(frame.columns) == ["a", "b", "score", "contribution", "heading_a", "heading_b"]
    assert frame.loc[4, ["heading_a", "heading_b"]].tolist() == ["Salt", "Order"]
    assert "contribution" not in comparison.to_frame("sentence")
    path = comparison.to_csv(tmp_path / "new" / "pairs.csv", "section")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["score"]) for row in rows] == pytest.approx(comparison.sections.ravel().tolist())
    assert b"\r" not in path.read_bytes()


@pytest.mark.parametrize("name", ["comparison", "within"])
def test_json_is_strict_and_whole(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    subject: Comparison = request.getfixturevalue(name)
    text = subject.to_json()
    assert subject.to_json(tmp_path / "c.json").read_text(encoding="utf-8") == text + "\n"
    content = json.loads(text, parse_constant=lambda value: pytest.fail(value))
    assert content["document"] == round(subject.document, 6) and content["self"] == subject.is_within
    assert content["model"]["name"] == "tiny-bert (untrained graph)" and content["coverage"]["a"]["share"] == 1.0
    for level in ("sections", "passages", "sentences"):
        np.testing.assert_allclose(content[level], getattr(subject, level), atol=1e-6)
    for level in ("sections", "passages"):
        assert np.sum(content["contributions"][level]) == pytest.approx(subject.document, abs=1e-5)
    for side, encoded in (("a", subject.a), ("b", subject.b)):
        part, document = content[side], encoded.segmented.document
        assert (part["id"], part["title"]) == (document.id, document.title)
        headings = [document.sections[number].heading for number in encoded.section_numbers]
        assert [section["heading"] for section in part["sections"]] == headings
        for row in (*part["passages"], *part["sentences"]):
            source = document.sections[part["sections"][row["section"]]["number"]]
            assert row["text"] == source.text[row["start"] : row["end"]] != ""
        for number, section in enumerate(part["sections"]):
            members = [row for row, passage in enumerate(part["passages"]) if passage["section"] == number]
            assert section["passages"] == members
            total = sum(part["passages"][row]["contribution"] for row in members)
            assert section["contribution"] == pytest.approx(total, abs=1e-6)
        total = sum(section["contribution"] for section in part["sections"])
        assert total == pytest.approx(subject.document, abs=1e-5)
    with pytest.raises(ValueError, match="not JSON compliant"):
        made_of(np.full((2, 3), np.nan)).to_json()


@pytest.mark.parametrize("method", ["to_json", "to_html", "to_csv", "plot"])
def test_a_full_disk_leaves_nothing(comparison: Comparison, tmp_path: Path, monkeypatch: Patch, method: str) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    target = tmp_path / "result.png"
    target.write_text("older result")
    with pytest.raises(OutputError, match=r"result\.png"):
        getattr(comparison, method)(target)
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.png"]
    assert target.read_text() == "older result"
