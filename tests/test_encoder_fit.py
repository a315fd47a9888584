from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_loading import load, refusal
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from typed import Documents, Encoders, Log, Patch

from graphdoc.checkpoints.save import model_card
from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError, SettingsError
from graphdoc.inference import fitting
from graphdoc.modeling.lexical import MEAN_ROW, random_signs
from graphdoc.segmentation.terms import TermMaker
from graphdoc.settings.run import ModelSettings
from graphdoc.similarity.background import Background, unrelated_passages
from graphdoc.training.optimizer import prepare_tuning, trained_updates
from graphdoc.vectors.folder import origin_of

MEAN = {"readout": "mean", "graph_layers": 0, "projection_size": None, "pooling": "mean"}
WEIGHT = 0.7


@pytest.fixture(scope="module")
def documents(structured: Documents) -> list[Document]:
    """Documents of one to nine passages that share words: whole ones, and their sections."""
    parts = [
        Document(f"{one.id} {number}", (section,))
        for one in structured
        for number, section in enumerate(one.sections)
        if section.text.strip()
    ]
    return [*structured, *parts]


@pytest.fixture(scope="module")
def fitted(tiny_encoder: Encoders, documents: Documents) -> DocumentEncoder:
    encoder = tiny_encoder("bert", **MEAN)
    encoder.fit(documents, lexical={"least_documents": 1}, lexical_weight=WEIGHT, description="tests")
    return encoder


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def test_the_centre_is_the_mean_of_passages_of_unit_length(tiny_encoder: Encoders, documents: Documents) -> None:
    encoder = tiny_encoder("bert", **MEAN)
    passages = np.concatenate([unit(vectors) for vectors in encoder.encode(documents, level="passage")])
    found = encoder.fit(documents, description="letters")
    assert encoder.model.centre is not None
    np.testing.assert_allclose(encoder.model.centre.numpy(), passages.mean(axis=0), atol=1e-6)
    assert (found.documents, found.passages, found.terms) == (len(documents), len(passages), None)
    assert found.centre_length == pytest.approx(np.linalg.norm(passages.mean(axis=0)), abs=1e-6)
    assert encoder.model.config.centre == [f"letters ({len(documents)} documents, {len(passages)} passages)"]
    expected = unit(passages - passages.mean(axis=0))
    np.testing.assert_allclose(np.concatenate(encoder.encode(documents, level="passage")), expected, atol=1e-5)
    # Fitted anew, the first centre is forgotten.
    encoder.fit(documents)
    np.testing.assert_allclose(encoder.model.centre.numpy(), passages.mean(axis=0), atol=1e-6)


def test_lexical_vectors_are_those_of_scikit_learn(fitted: DocumentEncoder, documents: Documents) -> None:
    part = fitted.model.lexical
    assert part is not None
    texts = ["\n".join(fitted.segment(one).texts) for one in documents]
    vectorizer = TfidfVectorizer(analyzer=TermMaker("en").occurrences, sublinear_tf=True)
    weights = vectorizer.fit_transform(texts)
    assert tuple(vectorizer.get_feature_names_out()) == part.vocabulary
    np.testing.assert_allclose(part.idf.numpy(), vectorizer.idf_, rtol=1e-6)
    words = unit(TruncatedSVD(part.settings.size, random_state=0).fit(weights).transform(weights))
    expected = WEIGHT * unit(words - words.mean(axis=0))
    found = fitted.encode(documents)
    numbers = part.settings.size
    np.testing.assert_allclose(found[:, -numbers:] @ found[:, -numbers:].T, expected @ expected.T, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found[:, :-numbers], axis=1), 1, atol=1e-6)
    assert found.shape[1] == fitted.hidden_size == 24 + numbers


def test_every_level_has_a_lexical_part_of_its_own_text(fitted: DocumentEncoder, documents: Documents) -> None:
    part = fitted.model.lexical
    assert part is not None
    numbers = part.settings.size
    plain = DocumentEncoder(fitted.model, fitted.tokenizer, device="cpu")

    def without_words(document: Document, level: Any) -> np.ndarray:
        plain.model.lexical = None
        try:
            return unit(plain.encode(document, level=level))
        finally:
            plain.model.lexical = part

    def lexical(text: str) -> np.ndarray:
        row = fitted.lexical
        assert row is not None
        return np.asarray(row.vectors(row.counts([text]))[0])

    for document in documents[:4]:
        segmented = fitted.segment(document)
        sections = [section.text for section in document.sections if section.text.strip()]
        sentences = fitted.segmenter.sentences(document).texts
        for level, texts in (("passage", segmented.texts), ("section", sections), ("sentence", sentences)):
            found = fitted.encode(document, level=level)  # type: ignore[call-overload]
            assert found.shape == (len(texts), 24 + numbers)
            np.testing.assert_allclose(found[:, -numbers:], [lexical(text) for text in texts], atol=1e-6)
            np.testing.assert_allclose(found[:, :-numbers], without_words(document, level), atol=1e-5)
        query = document.sections[0].text[:60] or "rice"
        np.testing.assert_allclose(fitted.encode_query(query)[-numbers:], lexical(query), atol=1e-6)


@pytest.mark.parametrize(
    ("readout", "layers", "similarity"),
    [
        ("initial_mean", 2, "cosine"),
        ("document_node", 2, "dot"),
        ("attention", 0, "cosine"),
        ("sections", 2, "dot"),
        ("initial_mean", 0, "evidence"),
    ],
)
def test_contributions_and_words_add_up_to_the_score(
    tiny_encoder: Encoders, documents: Documents, readout: str, layers: int, similarity: str
) -> None:
    encoder = tiny_encoder("bert", readout=readout, graph_layers=layers, similarity=similarity)
    encoder.fit(documents, lexical={"least_documents": 1})
    similarity = str(encoder.model.config.similarity)
    assert similarity != "evidence"
    for a, b in ((0, 2), (1, 5), (3, 3)):
        comparison = encoder.compare(documents[a], documents[b])
        assert comparison.document == pytest.approx(
            encoder.similarity(encoder.encode(documents[a]), encoder.encode(documents[b]))[0, 0], abs=1e-6
        )
        assert comparison.passage_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)
        assert comparison.section_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)
        assert comparison.lexical is not None
        numbers = encoder.model.lexical.settings.size  # type: ignore[union-attr]
        left, right = (one.vector.astype(np.float64) for one in (comparison.a, comparison.b))
        scale = np.linalg.norm(left) * np.linalg.norm(right) if similarity == "cosine" else 1.0
        assert comparison.lexical == pytest.approx(left[-numbers:] @ right[-numbers:] / scale, abs=1e-6)
        words = comparison.shared_words(None)
        if a == b:
            # All words are shared, so that nothing is left but the mean that is subtracted.
            shares = comparison.a.lexical
            assert shares is not None and shares.rows[0] == MEAN_ROW
            mean = shares.of_document.toarray()[:, 0].sum() * shares.table[0]
            left_over = float(mean @ left[-numbers:]) / scale
            assert sum(word.contribution for word in words) + left_over == pytest.approx(comparison.lexical, abs=1e-6)


def test_shared_words_are_those_of_both_as_they_are_written(fitted: DocumentEncoder) -> None:
    comparison = fitted.compare("Rice is steamed. Whole grains.", "The grain of Rice, polished.")
    words = comparison.shared_words()
    assert {word.word for word in words} == {"Rice", "grains"}
    assert words[0].contribution >= words[1].contribution
    found = comparison.to_dict()["lexical"]
    assert found["score"] == pytest.approx(comparison.lexical, abs=1e-8)
    assert [one["word"] for one in found["words"]] == [word.word for word in words]


def test_saving_and_loading_changes_no_bit(fitted: DocumentEncoder, documents: Documents, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path)
    again = load(tmp_path)
    for level in ("document", "section", "passage", "sentence"):
        found, expected = (one.encode(documents, level=level) for one in (again, fitted))  # type: ignore[call-overload]
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    assert origin_of(again, {})["weights"] == origin_of(fitted, {})["weights"]
    assert "| lexical |" in (tmp_path / "README.md").read_text(encoding="utf-8")
    without = load(tmp_path, lexical=None)
    assert without.hidden_size == 24 and "lexical" not in without.describe()
    # Another fit is another model, which the folder does not hold.
    encoded, before, source = again.encode_levels(documents[0]), origin_of(again, {}), again.source
    again.fit(documents[:5], lexical={"least_documents": 1})
    after = origin_of(again, {})
    assert source == {"name": str(tmp_path)} and again.source is None
    assert before["weights"] != after["weights"] and before["model"] != after["model"]
    with pytest.raises(ModelError, match="encode it again"):
        again.compare(encoded, documents[1])
    lighter = load(tmp_path, lexical_weight=0.1)
    assert np.linalg.norm(lighter.encode(documents[0])) == pytest.approx(np.sqrt(1.01), abs=1e-5)


def test_a_vocabulary_of_another_is_refused(fitted: DocumentEncoder, tiny_encoder: Encoders, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path)
    path = tmp_path / "lexical.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "terms": values["terms"][::-1]}))
    assert "is not the vocabulary" in refusal(tmp_path)
    path.write_text("{")
    assert "cannot be read" in refusal(tmp_path)
    path.unlink()
    assert "lexical.json" in refusal(tmp_path)
    tiny_encoder("bert").save_pretrained(tmp_path / "plain")
    assert "has no lexical part" in refusal(tmp_path / "plain", lexical={"terms": 5, "size": 2})


def test_a_sample_of_documents_is_drawn_and_terms_are_bounded(
    tiny_encoder: Encoders, documents: Documents, monkeypatch: Patch, caplog: Log
) -> None:
    encoder = tiny_encoder("bert", **MEAN)
    # Without a centre no passage is encoded.
    monkeypatch.setattr(encoder.model, "encode_passages", None)
    monkeypatch.setattr(fitting, "MOST_DECOMPOSED", 3)
    monkeypatch.setattr(fitting, "MOST_TERMS", 20)
    monkeypatch.setattr(fitting, "MOST_TERMS", 20)
    found = encoder.fit(documents, centre=False, lexical={"least_documents": 1})
    assert found.terms == 20 and found.lexical_size == 3 and found.centre_length is None
    assert encoder.model.centre is None
    monkeypatch.setattr(fitting, "MOST_TERMS", 50_000)
    monkeypatch.setattr(fitting, "MOST_COUNTED", 60)
    with caplog.at_level(logging.WARNING, logger="graphdoc"):
        assert (encoder.fit([*documents, *documents], centre=False, lexical=True).terms or 60) < 60
    assert any("were forgotten" in record.getMessage() for record in caplog.records)


BAD_INPUT: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (["Rice is steamed."], {}, ModelError, "1 document"),
    ([], {}, ModelError, "0 documents"),
    (["Rice is steamed."] * 3, {}, ModelError, "3 passages"),
    (["Rice is steamed."] * 3, {"centre": False, "lexical": True}, ModelError, "3 documents"),
    (["the and of", "to be or"], {"centre": False, "lexical": True}, ModelError, "least_documents"),
    (["rice", "tides"], {"centre": False, "lexical": True}, ModelError, "least_documents"),
    (["rice", "tides"], {"centre": False}, SettingsError, "centre=False"),
    (["rice", "tides"], {"lexical": True, "lexical_weight": -1.0}, SettingsError, "lexical_weight"),
    (["rice", "tides"], {"lexical": {"size": 0}}, SettingsError, "size"),
]


def test_bad_input_changes_nothing(tiny_encoder: Encoders) -> None:
    encoder = tiny_encoder("bert", **MEAN)
    for documents, options, kind, named in BAD_INPUT:
        with pytest.raises(kind) as caught:
            encoder.fit(documents, **options)
        assert named in str(caught.value) and "\n" not in str(caught.value)
        assert encoder.model.centre is None and encoder.model.lexical is None
    comparison = encoder.compare("Rice is steamed.", "Tides rise.")
    assert comparison.lexical is None
    with pytest.raises(SettingsError, match="lexical=True"):
        comparison.shared_words()


def test_documents_of_unknown_words_are_counted(fitted: DocumentEncoder, tiny_encoder: Encoders, caplog: Log) -> None:
    with caplog.at_level(logging.WARNING, logger="graphdoc"):
        found = fitted.encode(["Zwetschgenmus quillt", "米は蒸す", "Rice is steamed."])
    assert [np.linalg.norm(row) for row in found] == pytest.approx([1, 1, np.sqrt(1 + WEIGHT**2)], abs=1e-5)
    (warning,) = [record.getMessage() for record in caplog.records if "lexical" in record.getMessage()]
    assert warning.startswith("2 of 3 documents")
    # Where words have no spaces, pairs of characters are words.
    encoder = tiny_encoder("bert", language="ja", **MEAN)
    encoder.fit(["米は蒸して麹を作る。", "麹は米に育つ。", "潮が満ちて引く。"], lexical={"least_documents": 1})
    assert encoder.model.lexical is not None and "蒸し" in encoder.model.lexical.vocabulary


def test_random_vectors_of_terms_keep_cosines(tiny_encoder: Encoders, documents: Documents, tmp_path: Path) -> None:
    encoder = tiny_encoder("bert", **MEAN)
    how = {"projection": "random", "least_documents": 1, "size": 2048}
    found = encoder.fit(documents, centre=False, lexical=how, lexical_weight=WEIGHT)
    part = encoder.model.lexical
    assert part is not None
    assert (found.terms, found.lexical_size, found.explained_variance) == (len(part.vocabulary), 2048, None)
    assert part.components.shape == (0, 2048)
    texts = ["\n".join(encoder.segment(one).texts) for one in documents]
    vectors = encoder.encode(documents)[:, -2048:] / WEIGHT
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    exact = TfidfVectorizer(analyzer=TermMaker("en").occurrences, sublinear_tf=True).fit_transform(texts)
    expected = (exact @ exact.T).toarray()
    # A few words in so many numbers seldom meet; with the same numbers any mistake in signs or places is far off.
    assert np.abs(vectors @ vectors.T - expected).max() < 0.25
    assert np.corrcoef((vectors @ vectors.T).ravel(), expected.ravel())[0, 1] > 0.97
    encoder.save_pretrained(tmp_path / "random")
    again = load(tmp_path / "random")
    np.testing.assert_array_equal(again.encode(documents), encoder.encode(documents))
    # Words that no document had have none.
    (unknown,) = again.encode(["Quixotic zeppelins vanish."])
    assert np.linalg.norm(unknown[-2048:]) == 0


def test_random_vectors_of_terms_are_those_of_every_machine() -> None:
    signs = random_signs(1000, 64)
    assert signs.shape == (1000, 64)
    assert np.diff(signs.indptr).tolist() == [1] * 1000
    assert signs.indices[:6].tolist() == [47, 52, 15, 44, 27, 42]
    assert signs.data[:6].tolist() == [1, -1, -1, 1, -1, -1]
    # Spread evenly over places and signs.
    assert np.bincount(signs.indices, minlength=64).max() < 40
    assert abs(signs.data.sum()) < 150


def many(size: int = 60) -> list[Document]:
    """Documents that share some of few words, so that all of them have pairs of every kind."""
    draw = np.random.default_rng(0)
    words = [f"word{letter}" for letter in "abcdefghijklmnopqrst"]
    return [Document.from_text(" ".join(draw.choice(words, 30)) + ".", id=str(number)) for number in range(size)]


def test_words_are_weighed_so_that_both_parts_deviate_alike(tiny_encoder: Encoders, tmp_path: Path) -> None:
    encoder, documents = tiny_encoder("bert", **MEAN), many()
    found = encoder.fit(documents, lexical=True)
    vectors = encoder.encode(documents).astype(np.float64)
    numbers = encoder.model.config.lexical["size"]
    pairs = np.triu_indices(len(documents), 1)
    dense, words = (unit(part) @ unit(part).T for part in (vectors[:, :-numbers], vectors[:, -numbers:]))
    assert found.lexical_weight == pytest.approx(np.sqrt(dense[pairs].std() / words[pairs].std()), abs=1e-3)
    np.testing.assert_allclose(np.linalg.norm(vectors[:, -numbers:], axis=1), found.lexical_weight, atol=1e-5)
    # The sum of z-scores orders pairs as the score does.
    scores = (unit(vectors) @ unit(vectors).T)[pairs]
    summed = dense[pairs] / dense[pairs].std() + words[pairs] / words[pairs].std()
    assert np.corrcoef(scores, summed)[0, 1] == pytest.approx(1, abs=1e-6)
    assert found.background is not None and found.background.documents == len(documents)
    assert (np.array([found.background.share(score) for score in scores]) > 0.9).mean() == pytest.approx(0.1, abs=0.02)
    comparison = encoder.compare(documents[0], documents[1])
    assert comparison.share == comparison.to_dict()["share"] == found.background.share(comparison.document)
    assert encoder.compare(documents[0]).share is None
    encoder.save_pretrained(tmp_path)
    assert load(tmp_path).background == load(tmp_path, max_passages=3).background == found.background
    # Other vectors have other scores.
    assert load(tmp_path, lexical_weight=0.1).background is None
    # Of few documents nothing is said of pairs.
    assert encoder.fit(documents[:20]).background is None and encoder.background is None


def test_a_collection_of_fifty_says_itself_how_alike_its_pairs_are(tiny_encoder: Encoders, monkeypatch: Patch) -> None:
    encoder, documents = tiny_encoder("bert", **MEAN), many()
    together = encoder.compare_all(documents)
    scores = together.document_scores[np.triu_indices(len(documents), 1)]
    passages = unrelated_passages([encoder.encode(one, level="passage") for one in documents])
    assert together.background == Background.from_scores(scores, len(documents), passages)
    assert encoder.compare(*documents[:2]).to_dict()["unrelated_passages"] is None
    assert together.to_dict()["pairs"][0]["share"] == together.background.share(scores.max())
    assert encoder.compare_all(documents[:3]).background is None
    # Documents are drawn alike, whatever their number.
    monkeypatch.setattr(fitting, "MOST_DRAWN", 55)
    first, second = (one.fit(documents, lexical=True) for one in (encoder, tiny_encoder("bert", **MEAN)))
    assert first == second and first.background is not None and first.background.documents == 55
    assert encoder.compare_all(documents[:3]).background == encoder.background
    passages = unrelated_passages([encoder.encode(one, level="passage") for one in documents])
    assert encoder.compare(*documents[:2]).unrelated_passages == pytest.approx(passages, abs=0.05)


def centred(encoder: DocumentEncoder, *, seed: int = 1) -> DocumentEncoder:
    centre = 0.3 * torch.randn(encoder.model.config.node_size, generator=torch.Generator().manual_seed(seed))
    encoder.model.set_centre(centre, ["Wikipedia | 2007"])
    return encoder


def test_it_is_taken_off_passages_of_unit_length_at_every_level(tiny_encoder: Encoders, structured: Documents) -> None:
    plain, encoder = tiny_encoder("bert", **MEAN), centred(tiny_encoder("bert", **MEAN))
    assert encoder.model.centre is not None
    centre = encoder.model.centre.numpy()

    def expected(vectors: np.ndarray) -> np.ndarray:
        return unit(unit(vectors) - centre)

    for document in structured:
        passages = expected(plain.encode(document, level="passage"))
        np.testing.assert_allclose(encoder.encode(document, level="passage"), passages, atol=1e-5)
        np.testing.assert_allclose(encoder.encode(document), passages.mean(axis=0), atol=1e-5)
        sections = np.array([span.section for span in encoder.segment(document).passages])
        means = [passages[sections == number].mean(axis=0) for number in np.unique(sections)]
        np.testing.assert_allclose(encoder.encode(document, level="section"), means, atol=1e-5)
        sentences = expected(plain.encode(document, level="sentence"))
        np.testing.assert_allclose(encoder.encode(document, level="sentence"), sentences, atol=1e-5)
    queries = ["Rice is steamed.", "The tide came twice."]
    np.testing.assert_allclose(
        encoder.encode_query(queries), [expected(vector) for vector in plain.encode_query(queries)], atol=1e-5
    )


def test_it_is_saved_loaded_and_can_be_left_out(tiny_encoder: Encoders, structured: Documents, tmp_path: Path) -> None:
    encoder = centred(tiny_encoder("bert"))
    encoder.save_pretrained(tmp_path)
    again, without = load(tmp_path), load(tmp_path, centre=None)
    assert torch.equal(again.model.centre, encoder.model.centre)
    assert again.describe()["centre"] == ["Wikipedia | 2007"]
    assert np.array_equal(again.encode(structured), encoder.encode(structured))
    assert "centre" not in without.describe()
    assert np.array_equal(without.encode(structured), tiny_encoder("bert").encode(structured))
    assert "Wikipedia \\| 2007" in model_card(encoder.model.config, "name")
    # A file of updates has it, and asked for where there is none it is named.
    prepare_tuning(encoder.model, "lora", 2)
    assert torch.equal(trained_updates(encoder.model)["centre"], encoder.model.centre)
    tiny_encoder("bert").save_pretrained(tmp_path / "plain")
    assert "has no centre" in refusal(tmp_path / "plain", centre=["mine"])
    with pytest.raises(SettingsError, match=r"settings\.centre"):
        ModelSettings(settings={"centre": ["mine"]})
