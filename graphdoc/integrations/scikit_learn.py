"""Document vectors as a transformer of scikit-learn."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ..checkpoints.folders import existing
from ..encoder import DocumentEncoder
from ..errors import DocumentError, ModelError
from ..inference.precision import LoadPrecision
from ..inference.segmenting import AnyDocument, as_document, documents_of, is_single
from ..runtime.arrays import Vectors
from ..runtime.text import described, require_path
from ..vectors.folder import origin_of

_LOADING = threading.Lock()


@lru_cache(maxsize=1)
def _loaded(
    model: str, changes: tuple[tuple[str, int], ...], device: str | None, dtype: LoadPrecision, **settings: Any
) -> tuple[DocumentEncoder, str]:
    """An encoder with the hash of its weights; the clones of a search, which come and go, share it."""
    encoder = DocumentEncoder.from_pretrained(model, device=device, dtype=dtype, **settings)
    return encoder, origin_of(encoder, {})["weights"]


class GraphdocVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns documents into vectors, one row each, in pipelines and searches of scikit-learn.

    Fitting loads the model and learns nothing. Copies and pickles hold the name of the model and a hash of its
    weights; the weights are loaded again by name on first use.

    ``model`` is ``mini``, a folder written by ``save_pretrained``, or a hub id. ``max_passages``, where ``"model"``
    stands for what the model has set, ``device`` and ``dtype`` are those of :meth:`DocumentEncoder.from_pretrained`,
    all else that of :meth:`DocumentEncoder.encode`.

    Attributes:
        weights_hash_: hash of the weights that it was fitted with.

    >>> vectorizer = GraphdocVectorizer("mini", device="cpu")
    >>> vectorizer.fit_transform(["Rice is steamed.", "Tides rise."]).shape
    (2, 896)
    """

    weights_hash_: str

    def __init__(
        self,
        model: str | Path = "mini",
        *,
        normalize_embeddings: bool = False,
        max_passages: int | Literal["model"] | None = "model",
        device: str | None = None,
        dtype: LoadPrecision = "float32",
        token_budget: int | None = None,
        workers: int | None = None,
        show_progress_bar: bool | None = None,
    ) -> None:
        self.model = model
        self.normalize_embeddings = normalize_embeddings
        self.max_passages = max_passages
        self.device = device
        self.dtype = dtype
        self.token_budget = token_budget
        self.workers = workers
        self.show_progress_bar = show_progress_bar

    def fit(self, X: Iterable[AnyDocument], y: object = None) -> Self:
        """Load the model; ``X`` are texts, Documents, rows, or a pandas table of rows."""
        _documents(X)
        self._encoder, self.weights_hash_ = self._shared()
        return self

    def fit_transform(self, X: Iterable[AnyDocument], y: object = None, **_: Any) -> Vectors:
        """Load the model and encode documents (see :meth:`transform`)."""
        documents = _documents(X)
        return self.fit(documents, y).transform(documents)

    def transform(self, X: Iterable[AnyDocument]) -> Vectors:
        """Encode documents: ``(documents, hidden)`` in fp32.

        Raises:
            DocumentError: these are no documents or none, or one has no text.
            ModelError: the model cannot be loaded, or has other weights than when this was fitted.
        """
        check_is_fitted(self)
        return self._again().encode(
            _documents(X),
            normalize_embeddings=self.normalize_embeddings,
            token_budget=self.token_budget,
            workers=self.workers,
            show_progress_bar=self.show_progress_bar,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        tags.no_validation = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_encoder"}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_hash_")

    @property
    def _n_features_out(self) -> int:
        return self._again().hidden_size

    def _again(self) -> DocumentEncoder:
        if not hasattr(self, "_encoder"):
            encoder, weights_hash = self._shared()
            if weights_hash != self.weights_hash_:
                raise ModelError(
                    f"model {str(self.model)!r} has other weights than when the vectorizer was fitted; fit it again, "
                    "or put the former model back"
                )
            self._encoder = encoder
        return self._encoder

    def _shared(self) -> tuple[DocumentEncoder, str]:
        require_path("model", self.model)
        settings: dict[str, Any] = {} if self.max_passages == "model" else {"max_passages": self.max_passages}
        with _LOADING:
            return _loaded(str(self.model), _last_changes(self.model), self.device, self.dtype, **settings)


def _last_changes(model: str | Path) -> tuple[tuple[str, int], ...]:
    """When the files of a folder were written last: a model that was saved over is another one."""
    folder = existing(str(model))
    if folder is None or not folder.is_dir():
        return ()
    return tuple(sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir()))


def _documents(values: Any) -> list[Any]:
    """Documents as a list, so that an iterator is read once."""
    if is_single(values):
        raise DocumentError(f"{described(values)} is a single document; give a list of documents")
    documents = list(documents_of(values))
    if not documents:
        raise DocumentError("there are no documents (0 were given); give at least one")
    for value in documents:
        if not is_single(value):
            as_document(value)
    return documents
