"""The vectorizer in pipelines and searches of scikit-learn, copied, pickled, and by the library's own checks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from typed import Folders, Patch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, GraphdocError, ModelError
from graphdoc.integrations.scikit_learn import GraphdocVectorizer

TEXTS = [
    "Rice is polished, soaked and steamed. The grains must stay whole.",
    "Vinegar needs air. Bacteria burn the alcohol of wine at its surface.",
    "Two clocks never agree for long. A log gives every entry a number. " * 5,
    "The tide came over the wall twice in one winter.",
]


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Any) -> DocumentEncoder:
    return tiny_encoder()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def folder(encoder: DocumentEncoder, tmp_path_factory: Folders) -> str:
    return str(encoder.save_pretrained(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture
def vectorizer(folder: str) -> GraphdocVectorizer:
    return GraphdocVectorizer(folder, device="cpu", workers=0)


def test_gives_the_vectors_of_the_encoder(vectorizer: GraphdocVectorizer, encoder: DocumentEncoder) -> None:
    expected = encoder.encode(TEXTS)
    assert np.allclose(vectorizer.fit_transform(TEXTS), expected, atol=1e-5)
    assert np.allclose(vectorizer.fit(TEXTS).transform(TEXTS[1:]), expected[1:], atol=1e-5)
    table = vectorizer.set_output(transform="pandas").transform(TEXTS)
    names = vectorizer.get_feature_names_out().tolist()
    assert table.columns.tolist() == names and table.shape == (4, len(names)) and names[0] == "graphdocvectorizer0"
    vectorizer.set_output(transform="default")
    unit = vectorizer.set_params(normalize_embeddings=True).transform(iter(TEXTS))
    assert np.allclose(unit, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)


def test_takes_texts_documents_rows_and_tables(vectorizer: GraphdocVectorizer) -> None:
    expected = vectorizer.fit(TEXTS).transform(TEXTS)
    rows = [{"text": text, "id": number} for number, text in enumerate(TEXTS)]
    for given in (
        [Document.from_text(text) for text in TEXTS],
        rows,
        pd.DataFrame(rows),
        pd.Series(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, object),
        tuple(TEXTS),
    ):
        assert np.allclose(vectorizer.fit_transform(given), expected, atol=1e-5), type(given)


def test_is_copied_without_its_model(vectorizer: GraphdocVectorizer, tmp_path: Path) -> None:
    expected = vectorizer.fit(TEXTS).transform(TEXTS)
    copy = clone(vectorizer)
    assert copy.get_params() == vectorizer.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(TEXTS)
    assert not hasattr(pickle.loads(pickle.dumps(copy)), "weights_hash_")

    pickled = pickle.dumps(vectorizer)
    assert len(pickled) < 1000
    assert np.array_equal(pickle.loads(pickled).transform(TEXTS), expected)
    joblib.dump(vectorizer, tmp_path / "vectorizer.joblib")
    again = joblib.load(tmp_path / "vectorizer.joblib")
    assert np.array_equal(again.transform(TEXTS), expected)
    assert again.get_feature_names_out().tolist() == vectorizer.get_feature_names_out().tolist()


def test_another_model_under_the_name_is_refused(tiny_encoder: Any, tmp_path: Path) -> None:
    tiny_encoder().save_pretrained(tmp_path)
    vectorizer = GraphdocVectorizer(tmp_path, device="cpu").fit(TEXTS)
    pickled, there = pickle.dumps(vectorizer), vectorizer.transform(TEXTS)
    tiny_encoder(seed=1).save_pretrained(tmp_path)
    # What is loaded stays; what has to be loaded again does not fit.
    assert np.array_equal(vectorizer.transform(TEXTS), there)
    loaded = pickle.loads(pickled)
    with pytest.raises(ModelError) as error:
        loaded.transform(TEXTS)
    assert str(tmp_path) in str(error.value)
    assert not np.allclose(loaded.fit(TEXTS).transform(TEXTS), there, atol=1e-3)


def test_a_search_loads_its_model_once(folder: str, monkeypatch: Patch) -> None:
    loaded: list[str] = []
    load = DocumentEncoder.from_pretrained

    def counting(name: str, **settings: Any) -> DocumentEncoder:
        loaded.append(name)
        return load(name, **settings)

    monkeypatch.setattr(DocumentEncoder, "from_pretrained", counting)
    pipeline = make_pipeline(GraphdocVectorizer(folder, device="cpu", max_passages=3), LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2, error_score="raise")
    search.fit(TEXTS * 2, [0, 1, 0, 1] * 2)
    assert loaded == [folder]


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_searches_in_pipelines(folder: str, backend: str) -> None:
    documents = [Document.from_text(f"{text} {number}") for number in range(4) for text in TEXTS[:2]]
    pipeline = make_pipeline(GraphdocVectorizer(folder, device="cpu", workers=0), LogisticRegression())
    values = {"graphdocvectorizer__normalize_embeddings": [False, True]}
    search = GridSearchCV(pipeline, values, cv=2, n_jobs=2, error_score="raise")
    with joblib.parallel_config(backend):
        search.fit(documents, [0, 1] * 4)
    assert search.predict(documents).shape == (8,)
    assert search.best_estimator_[0].get_params()["model"] == folder
    assert set(search.cv_results_["param_graphdocvectorizer__normalize_embeddings"]) == {False, True}


def test_bad_input(vectorizer: GraphdocVectorizer, folder: str) -> None:
    for given, value in (
        ([], "0"), (TEXTS[0], "Rice"), (3, "3"), (None, "None"), ([3.5], "3.5"), (np.ones((2, 2)), "ndarray"),
        (csr_array(np.eye(2)), "csr_array"),
    ):  # fmt: skip
        with pytest.raises(DocumentError, match=value):
            vectorizer.fit_transform(given)
    vectorizer.fit(TEXTS)
    for wrong in (["Rice.", " "], [{"title": "Rice"}]):
        with pytest.raises(DocumentError, match="text"):
            vectorizer.transform(wrong)
    for name, setting in (("model", "no-such-model"), ("model", 3), ("dtype", "int3")):
        with pytest.raises(GraphdocError, match=str(setting)):
            GraphdocVectorizer(folder, device="cpu").set_params(**{name: setting}).fit(TEXTS)


def test_passes_the_check_of_scikit_learn_for_what_reads_no_numbers(folder: str) -> None:
    with pytest.warns(SkipTestWarning):
        results = check_estimator(GraphdocVectorizer(folder, device="cpu"))
    assert [(one["check_name"], one["status"]) for one in results] == [("check_estimator_cloneable", "passed")]
