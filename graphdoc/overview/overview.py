"""An overview of a collection: made from documents or from stored vectors, and given as a table, JSON and a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from ..errors import DocumentError, SettingsError
from ..inference.segmenting import MOST_PASSAGES, AnyDocument, as_document, documents_of
from ..runtime.files import JsonResult, write_csv, write_text
from ..runtime.imports import quick_imports
from ..runtime.progress import Passing, number_of
from ..runtime.text import described, require_seed, require_whole
from ..segmentation.repeats import RepeatList, RepeatLister
from ..segmentation.segmenter import SegmentationConfig, repeats_in
from ..segmentation.spans import Coverage
from ..similarity.background import FEWEST_DOCUMENTS, Background
from ..vectors.folder import read_vectors
from .digests import Digest, Digests, WordCounts
from .names import READ, EditedName, Group, apply_edited_names, name_groups, spread
from .tables import COLUMNS, payload_of, rows_of
from .unspaced import join_pairs

if TYPE_CHECKING:
    import pandas as pd

    from ..encoder import DocumentEncoder
    from ..runtime.arrays import Rows
    from ..segmentation.repeats import RepeatFilter
    from ..vectors.writer import FolderOptions
    from .neighbours import Neighbours

NEIGHBOURS = 10
# Cosine of two vectors from which documents are called near-duplicates.
DUPLICATES = 0.98
PAIRS = 200
OUTLIERS = 50
WORDS_OF_A_GROUP = 8
WORDS_OF_A_NAME = 3
# Several pairs of characters make a word where there are no spaces.
_PAIRS = 3 * WORDS_OF_A_GROUP
TYPICAL = 3


@dataclass(frozen=True)
class Overview(JsonResult):
    """A collection of documents at a glance; it needs no labels.

    Rows are places in ``documents``. ``points`` are places on the map, ``(documents, 2)``, within -1 and 1; ``groups``
    come largest first; ``duplicates`` are sets of near-duplicates; ``model`` and ``settings`` are for the record.
    ``background`` is how alike pairs of the documents are, None of fewer than 50. ``repeats`` is what was left out of
    the documents as repeated, ``coverage`` what of them was encoded.
    """

    documents: Sequence[Digest] = field(repr=False)
    words: WordCounts = field(repr=False)
    points: npt.NDArray[np.float32] = field(repr=False)
    groups: Sequence[Group]
    neighbours: Neighbours = field(repr=False)
    duplicates: Sequence[Rows] = field(repr=False)
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    background: Background | None = None
    repeats: RepeatList = field(default_factory=RepeatList)
    coverage: Coverage = field(default_factory=Coverage)

    @classmethod
    def from_documents(
        cls,
        encoder: DocumentEncoder,
        documents: Iterable[AnyDocument] | AnyDocument,
        *,
        vectors: str | Path | None = None,
        max_passages: int | None = MOST_PASSAGES,
        neighbours: int = NEIGHBOURS,
        duplicates: float = DUPLICATES,
        group_size: int | None = None,
        fit: bool = True,
        seed: int = 0,
        **options: Unpack[FolderOptions],
    ) -> Overview:
        """Encode a collection and look at it as a whole.

        Texts are read once and not held: of every document its title, frequent words and first lines stay.

        Args:
            encoder: what encodes the documents.
            documents: the documents, such as :func:`~graphdoc.read_documents` gives; two at least.
            vectors: a folder for their vectors, from which a run that was interrupted goes on; None keeps none.
            max_passages: passages of a document that are encoded, None for all; whatever the encoder's own limit is.
            neighbours: nearest documents that are kept of each.
            duplicates: cosine of two vectors from which documents count as near-duplicates.
            group_size: documents that a group has at least; None takes what suits the number of documents.
            fit: fit the vectors to the collection, where it has 50 documents or more: without what all documents
                share, and with its own words. All scores but those of duplicates are of these vectors.
            seed: of the map and the groups.
            **options: how they are encoded, see :func:`graphdoc.vectors.writer.encode_to_disk`.

        >>> from graphdoc import DocumentEncoder, Document
        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> texts = ["Rice is steamed.", "Steam the rice.", "Tides rise."]
        >>> overview = Overview.from_documents(encoder, [Document.from_text(text, id=text) for text in texts])
        >>> overview.pairs()[0][:2]
        (0, 1)
        """
        if options.get("level", "document") != "document":
            raise SettingsError(f"level={options['level']!r} gives no vectors of whole documents; leave it out")
        settings = _settings(neighbours, duplicates, group_size, seed, fit)
        encoder = encoder.with_max_passages(max_passages)
        digests = Digests(encoder.model.config.language, _lister(encoder.segmenter.repeats, encoder.segmenter.config))
        given = documents_of(documents)
        coming = map(as_document, given)
        _require_two(first := list(islice(coming, 2)))
        passing = Passing(digests.passing(chain(first, coming)), partial(number_of, given))
        with TemporaryDirectory(prefix="graphdoc-") as temporary:
            folder = vectors or temporary
            coverage = encoder.encode_to_disk(passing, folder, **options).coverage
            ids, found = read_vectors(folder)
        return cls._made(digests, ids, found, encoder.describe(), settings, coverage)

    @classmethod
    def from_vectors(
        cls,
        ids: Sequence[str],
        vectors: npt.ArrayLike,
        documents: Iterable[AnyDocument] = (),
        *,
        model: Mapping[str, Any] | None = None,
        language: str = "en",
        repeats: RepeatFilter | None = None,
        coverage: Coverage | None = None,
        neighbours: int = NEIGHBOURS,
        duplicates: float = DUPLICATES,
        group_size: int | None = None,
        fit: bool = True,
        seed: int = 0,
    ) -> Overview:
        """Look at vectors that are there already, such as :func:`graphdoc.vectors.folder.read_vectors` gives.

        Settings of :meth:`from_documents` mean the same here. Documents may come in any order, for titles and words;
        of those that are missing only ids are shown. ``model`` is what the vectors were made with, for the record,
        ``language`` that of the documents, a two-letter code. ``repeats``, what was left out as repeated
        (:func:`graphdoc.vectors.folder.read_repeats`), is listed; ``coverage`` is what of the documents was encoded.
        """
        settings = _settings(neighbours, duplicates, group_size, seed, fit)
        rows = np.asarray(vectors, np.float32)
        if rows.ndim != 2 or len(rows) != len(ids) or not np.isfinite(rows).all():
            raise SettingsError(
                f"vectors of shape {rows.shape} do not fit {len(ids):,} ids; give one row of finite numbers for each"
            )
        wanted = set(ids)
        if len(wanted) < len(ids):
            twice = Counter(ids).most_common(1)[0][0]
            raise DocumentError(f"the id {twice!r} has two vectors; give document vectors, one for each id")
        sizes = {"passage_words": model["passage_words"]} if model and "passage_words" in model else {}
        digests = Digests(language, _lister(repeats, SegmentationConfig(**sizes, language=language)))
        for document in map(as_document, documents_of(documents)):
            if document.id in wanted:
                digests.add(document)
        for id in ids:
            if id not in digests.by_id:
                digests.add_unread(id)
        return cls._made(digests, ids, rows, model or {}, settings, coverage or Coverage())

    @classmethod
    def _made(
        cls,
        digests: Digests,
        ids: Sequence[str],
        vectors: npt.NDArray[np.float32],
        model: Mapping[str, Any],
        settings: dict[str, Any],
        coverage: Coverage,
    ) -> Overview:
        # After encoding: scikit-learn, which it needs, takes half a second.
        with quick_imports():
            from .groups import LINKED, find_groups, lay_out, move, words_of_groups
            from .neighbours import Neighbours, are_alike, background_of, fit_vectors, unit

        documents, words = digests.chosen(ids)
        _require_two(documents)
        plain = fitted = unit(vectors)
        is_large, seed = len(documents) >= FEWEST_DOCUMENTS and not are_alike(plain), settings["seed"]
        settings["fit"] = settings["fit"] and is_large
        if settings["fit"]:
            fitted = fit_vectors(plain, (model.get("lexical") or {}).get("size", 0), words, seed)
        count = settings["neighbours"]
        near = Neighbours.from_vectors(fitted, max(count, LINKED))
        moved = move(fitted, near)
        points = lay_out(moved, seed)
        rows_of_groups = find_groups(fitted, moved, near, settings["group_size"])
        near = Neighbours(near.rows[:, :count], near.scores[:, :count])
        beginnings = digests.beginnings(ids)
        telling = [
            join_pairs(own, [beginnings[row] for row in spread(rows, READ)])[:WORDS_OF_A_GROUP]
            for own, rows in zip(words_of_groups(words, rows_of_groups, _PAIRS), rows_of_groups, strict=True)
        ]
        phrases = name_groups(beginnings, rows_of_groups, telling, digests.language)
        groups: list[Group] = []
        for number, (rows, own, found) in enumerate(zip(rows_of_groups, telling, phrases, strict=True), 1):
            scores = np.round(fitted[rows] @ fitted[rows].mean(axis=0), 6)
            typical = rows[np.lexsort((rows, -scores))][:TYPICAL]
            name = ", ".join(found or own[:WORDS_OF_A_NAME]) or f"group {number}"
            groups.append(Group(number, name, tuple(own), rows, tuple(typical.tolist())))
        copies = near.duplicates(plain, settings["duplicates"], [digest.sketch for digest in documents])
        background = background_of(fitted) if is_large else None
        seen = documents, words, points, groups, near, copies, model, settings, background
        return cls(*seen, digests.repeats(), coverage)

    @property
    def knows_repeats(self) -> bool:
        """Whether it is known what was left out as repeated, which vectors alone do not say."""
        return not self.model.get("repeats") or self.repeats.documents > 0

    @property
    def group_of(self) -> Rows:
        """The place in :attr:`groups` of every document's group, -1 for those in none, ``(documents,)``."""
        result = np.full(len(self.documents), -1, np.int64)
        for place, group in enumerate(self.groups):
            result[group.rows] = place
        return result

    def pairs(self, top_k: int = PAIRS) -> list[tuple[int, int, float]]:
        """The closest pairs among nearest documents: two rows and their cosine, best first, each pair once."""
        return self.neighbours.pairs(top_k)

    def outliers(self, top_k: int = OUTLIERS) -> list[int]:
        """The rows of the documents that are farthest from all others, by the mean cosine with their five nearest."""
        return self.neighbours.outliers(top_k)

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame with a row for every document: its group, place on the map and nearest document."""
        import pandas as pd

        return pd.DataFrame(rows_of(self.to_dict()), columns=COLUMNS)

    def to_csv(self, path: str | Path) -> Path:
        """Write a row for every document as CSV, atomically, in which a spreadsheet runs nothing."""
        return write_csv(path, COLUMNS, rows_of(self.to_dict()))

    def with_names(self, names: Iterable[EditedName]) -> Overview:
        """The same with names that people gave to its groups (:func:`~graphdoc.overview.names.read_names`)."""
        return replace(self, groups=apply_edited_names(self.groups, [digest.id for digest in self.documents], names))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON; documents are named by their rows, from 0."""
        return payload_of(self)

    @overload
    def to_html(self, path: None = None, **about: Any) -> str: ...
    @overload
    def to_html(self, path: str | Path, **about: Any) -> Path: ...
    def to_html(self, path: str | Path | None = None, **about: Any) -> str | Path:
        """Write the page, one file that needs no network; without a path it is returned.

        Args:
            path: file to write, atomically.
            **about: see :func:`graphdoc.analysis.overview_page.page.render_overview`.
        """
        from ..analysis.overview_page.page import render_overview

        page = render_overview(self.to_dict(), **about)
        return page if path is None else write_text(path, page)


def _lister(repeats: RepeatFilter | None, config: SegmentationConfig) -> RepeatLister | None:
    return RepeatLister(partial(repeats_in, repeats=repeats, config=config)) if repeats else None


def _settings(neighbours: int, duplicates: float, group_size: int | None, seed: int, fit: bool) -> dict[str, Any]:
    require_whole("neighbours", neighbours, may_be_none=False)
    require_whole("group_size", group_size, least=2)
    require_seed(seed)
    if not 0 < duplicates <= 1:
        raise SettingsError(f"duplicates={described(duplicates)} must be a cosine above 0 and not above 1")
    return {"neighbours": neighbours, "duplicates": duplicates, "group_size": group_size, "seed": seed, "fit": fit}


def _require_two(documents: Sequence[Any]) -> None:
    if len(documents) < 2:
        raise DocumentError(f"an overview needs 2 documents at least, and there is {len(documents)}; give more")
