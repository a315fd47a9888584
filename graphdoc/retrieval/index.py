"""DocumentIndex: documents that are kept, brought up to date and searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, Unpack, get_args

import numpy as np

from ..documents.document import Document
from ..documents.readers.reading import OnUnencodable
from ..encoder import DocumentEncoder
from ..errors import ModelError, RetrievalError, SettingsError
from ..inference.levels import with_sentences
from ..inference.segmenting import MOST_PASSAGES, AnyDocument, documents_of
from ..runtime.files import FolderLock
from ..runtime.text import require_one_of
from ..segmentation.spans import SegmentedDocument
from ..settings.document import Paragraph
from ..similarity.comparison import Comparison
from ..similarity.encoded_document import EncodedDocument
from ..similarity.hierarchical import SENTENCE_SCORINGS
from ..similarity.kinds import similarity_of
from ..vectors.folder import origin_of
from .fusion import Scores
from .lance import DOCUMENT, IS_DOCUMENT, PASSAGE, RANDOM_SCORE, LanceStore, State, folder_of, is_one_of
from .results import Hit, SearchResults
from .search import BY_PASSAGES, RANKINGS, Search, SearchOptions, SearchSettings
from .sentences import SentenceSearch, stored_sentences
from .table import (
    DOCUMENT_COLUMNS,
    REPEATED,
    SENTENCE_COLUMNS,
    Boilerplate,
    Fields,
    document_of,
    field_columns,
    filter_columns,
    ids_of,
    kind_name,
    rows_of,
    schema_of,
    table_of,
)
from .terms import Query, QueryFactory, random_queries, word_settings
from .updating import Update, UpdateReport, encode_with_known

FORMAT, FORMAT_VERSION = "graphdoc index", 5
# Documents that are written to an index of words at once.
_WRITE_BATCH_DOCUMENTS = 2_000
# A query whose best hit is below what this share of random queries stays below is not answered.
_RANDOM_SHARE = 0.95


class DocumentIndex:
    """An index of documents in a folder or an object store, made with :meth:`create` or opened with :meth:`open`."""

    def __init__(self, store: LanceStore, encoder: DocumentEncoder | None = None) -> None:
        self._store, self.path, self._encoder = store, store.path, encoder
        self._loading: dict[str, Any] = {}
        self._queries = QueryFactory(store, lambda: self.encoder, self._encoded_query)

    @classmethod
    def create(
        cls,
        path: str | Path,
        encoder: DocumentEncoder,
        *,
        sentences: bool | Paragraph = False,
        repeats: bool = False,
        max_passages: int | None = MOST_PASSAGES,
    ) -> DocumentIndex:
        """Make an empty index.

        Args:
            path: a folder, or an address such as ``s3://bucket/folder``.
            encoder: encodes documents and queries.
            sentences: whether the vectors of sentences are kept as well, so that documents can be ranked by them;
                ``section``, ``blank_line`` or ``passage`` says which belong together (default: the encoder's setting).
            repeats: whether passages that repeat in the index, such as licences, count. If not, maintenance finds
                them (:mod:`graphdoc.segmentation.repeats`), and rebuilds the documents that have them.
            max_passages: passages of a document that are encoded, None for all; whatever the encoder's own limit is.

        Raises:
            ModelError: the encoder reads two documents together, and has no vectors of single ones.
            RetrievalError: the path holds something already, or cannot be written.
            MissingExtraError: LanceDB is not installed.
        """
        if not isinstance(sentences, bool):
            require_one_of("sentences", sentences, get_args(Paragraph))
        encoder.require_vectors()
        # What repeats is found in the index itself.
        encoder = encoder.without_repeats(None).with_max_passages(max_passages)
        config = encoder.model.config
        paragraph = config.paragraph if sentences is True else sentences or None
        origin = origin_of(encoder, {}, has_sentences=paragraph is not None)
        record = {
            **{"format": FORMAT, "format_version": FORMAT_VERSION, "source": encoder.source},
            "similarity": similarity_of(config.similarity).vector_similarity,
            # The query of a model that puts sections together is a document, which no passage is compared with.
            "search_by": "document" if encoder.model.readout.has_sections else config.search_by,
            "words": word_settings(config.language),
            **({"sentences": {"paragraph": paragraph}} if paragraph else {}),
            **({} if repeats else {"repeats": "leave-out"}),
            **{name: origin[name] for name in ("model", "weights", "versions")},
        }
        sizes = encoder.hidden_size, encoder.vector_size("passage"), config.passage_size
        schema = schema_of(*sizes, sentences=paragraph is not None, repeats=not repeats)
        return cls(LanceStore.create(path, schema, record), encoder)

    @classmethod
    def open(cls, path: str | Path, encoder: DocumentEncoder | None = None, **loading: Any) -> DocumentIndex:
        """Open an index.

        Args:
            path: its folder or address, as for :meth:`create`.
            encoder: the encoder that it was made with, whatever its ``max_passages``; None loads it when it is needed.
            **loading: arguments of ``DocumentEncoder.from_pretrained`` for that; it is then loaded at once.

        Raises:
            RetrievalError: there is none, or one of another version of graphdoc.
            ModelError: it was made with another model.
        """
        index = cls(LanceStore.open(path))
        version = index.record["format_version"]
        if version != FORMAT_VERSION or index.record.get("format") != FORMAT:
            raise RetrievalError(
                f"{index.path} is an index of format version {version}, this graphdoc reads {FORMAT_VERSION}; index "
                "the documents again into another path, or install the version that wrote it"
            )
        if encoder is not None:
            encoder = encoder.with_max_passages(loading.get("max_passages", index.record["model"].get("max_passages")))
            index._require_same_model(encoder)
            index._encoder = encoder.without_repeats(None)
        elif loading:
            index._loading = loading
            _ = index.encoder
        return index

    @classmethod
    def exists(cls, path: str | Path) -> bool:
        """Whether there is an index at a path."""
        return LanceStore.exists(path)

    @property
    def _latest(self) -> LanceStore:
        """The store as other processes have left it; every read begins with it."""
        self._store.refresh()
        return self._store

    @property
    def encoder(self) -> DocumentEncoder:
        """The encoder of the index, loaded when it is needed first; ModelError if it has changed since."""
        if self._encoder is None:
            source, model = self.record["source"], self.record["model"]
            if source is None:
                raise ModelError(
                    f"{self.path} was made with the encoder {model['name']!r}, which was not loaded from a folder or "
                    "the hub; give it to DocumentIndex.open(path, encoder)"
                )
            settings = {"dtype": model["dtype"], "max_passages": model["max_passages"], **self._loading}
            encoder = DocumentEncoder.from_pretrained(**{**source, **settings})
            self._require_same_model(encoder)
            self._encoder = encoder
        return self._encoder

    def _require_same_model(self, encoder: DocumentEncoder) -> None:
        """Refuse an encoder of other vectors than it holds; of ``auto`` the index decides the precision."""
        if encoder.is_precision_open:
            encoder.settle_precision(self.record["model"]["dtype"])
        origin = origin_of(encoder, {}, has_sentences=self.paragraph is not None)
        before, now = ({**made["model"], "name": "", "weights": made["weights"]} for made in (self.record, origin))
        changed = [name for name in {**now, **before} if before.get(name) != now.get(name)]
        differences = [f"{name} was {before.get(name)!r}, now {now.get(name)!r}" for name in changed]
        if differences:
            raise ModelError(
                f"{self.path} was made with {self.record['model']['name']!r}, not with this {encoder.name!r}: "
                f"{'; '.join(differences[:3])}; open it with that model, or index the documents into another path"
            )

    def __len__(self) -> int:
        """Number of documents."""
        return self.state().documents

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and len(self._latest.select(["id"], IS_DOCUMENT, ids=ids_of(id))) > 0

    def __repr__(self) -> str:
        state = self.state()
        return f"DocumentIndex({self.path!r}: {state.documents:,} documents, {state.passages:,} passages)"

    def describe(self) -> dict[str, Any]:
        """Path, size, model and fields as plain values."""
        return self._about(self.state()) | {"sentences": self.record.get("sentences"), "fields": self.fields}

    @property
    def paragraph(self) -> Paragraph | None:
        """Which of its sentences belong together; None where it keeps no sentences."""
        return self._store.paragraph

    @property
    def record(self) -> Mapping[str, Any]:
        """What it was made with: the model, the hash of its weights, how texts become terms, versions."""
        return self._store.record

    @property
    def columns(self) -> list[str]:
        """What a filter can name: fields of documents, and what every index has."""
        return list(filter_columns(self._latest.schema))

    @property
    def fields(self) -> dict[str, str]:
        """Fields of documents, with what each holds: ``text``, ``numbers``, ``lists of texts`` and so on."""
        return {name: kind_name(column.kind) for name, column in field_columns(self._latest.schema).items()}

    def state(self) -> State:
        """How large it is, and what is waiting for maintenance."""
        return self._latest.state()

    def update(
        self,
        documents: Iterable[AnyDocument] | AnyDocument,
        *,
        on_error: OnUnencodable = "stop",
        maintain: bool | None = None,
        show_progress_bar: bool | None = None,
        workers: int | None = None,
    ) -> UpdateReport:
        """Add documents, and replace those that have changed; only passages whose text changed are encoded.

        Some thousands of passages make one commit: a reader sees all of a document, or what was there before. An
        update that was interrupted goes on when it is run again.

        Args:
            documents: the documents, read once and never held.
            on_error: whether a document that cannot be indexed stops the update or is skipped and listed.
            maintain: whether maintenance follows; None where more than a twentieth of the rows wait for it, and before
                that for search structures alone, so that searches stay quick.
            show_progress_bar: show a bar; None shows it on a terminal when the work is long.
            workers: processes that cut and tokenize ahead; None for as many as suit the machine.

        Raises:
            DocumentError: a document has no text, an id that is taken, or metadata that do not fit.
            RetrievalError: the index cannot be written.
        """
        require_one_of("on_error", on_error, get_args(OnUnencodable))
        with self._writing():
            update = Update(self._latest, self.encoder, on_error, show_progress_bar, workers)
            report = update.run(documents_of(documents))
            report.rebuilt = self._maintain_if_due(maintain, show_progress_bar)
        return report

    def delete(self, ids: Iterable[str] | str, *, maintain: bool | None = None) -> int:
        """Remove documents, and give how many of them were there; ``maintain`` as for :meth:`update`."""
        named = ids_of(ids)
        with self._writing():
            count = self._latest.delete(named) if named else 0
            self._maintain_if_due(maintain)
        return count

    def maintain(self) -> None:
        """Bring statistics of words, repeats and search structures up to date, and remove what no reader needs."""
        with self._writing():
            self._store.refresh()
            self._maintain_if_due(True)

    def rows(self, columns: Iterable[str] | None = None, *, level: str | None = None) -> Iterator[Any]:
        """The rows of the table, of ``document`` or ``passage`` or both, some at a time (Arrow record batches)."""
        if level is not None:
            require_one_of("level", level, (DOCUMENT, PASSAGE))
        store = self._latest
        yield from store.batches(columns or store.schema.names, None if level is None else f"level = '{level}'")

    def document(self, id: str) -> Document:
        """A document as it was indexed; RetrievalError if the index does not have it."""
        rows = self._latest.select(DOCUMENT_COLUMNS, IS_DOCUMENT, ids=ids_of(id)).to_pylist()
        if not rows:
            raise RetrievalError(f"{self.path} has no document {id!r}; check the id, or index the document")
        return document_of(rows[0])

    def encoded(self, id: str, *, sentences: bool = False) -> EncodedDocument:
        """A document with its vectors, and those of its sentences where wanted, to be compared with others."""
        encoder = self.encoder.without_repeats(Boilerplate.from_store(self._latest, [id]))
        encoded = self._encoded(encoder, self.document(id))
        if not sentences:
            return encoded
        known = None
        if self.paragraph is not None:
            stored = stored_sentences(self._store.select(["id", *SENTENCE_COLUMNS], IS_DOCUMENT, ids=[id]))[1]
            known = stored.vectors.astype(np.float32) if stored else None
        return with_sentences(encoder, encoded, known=known, paragraph=self.paragraph)

    def _encoded(self, encoder: DocumentEncoder, document: Document) -> EncodedDocument:
        """Encode a document; passages that the index has of it go through the graph alone."""
        segmented = encoder.segment_with_text(document)
        ((encoded, _, _),) = encode_with_known(encoder, [segmented], self._store, [document.id])
        return encoded

    def _encoded_query(self, document: Document) -> EncodedDocument:
        encoded = self._encoded(self.encoder, document)
        encoded.segmented.coverage.warn(document.id)
        return encoded

    def comparer(self, query: Document, by: str = "hybrid") -> Callable[[Hit], Comparison]:
        """A function that compares a query document with a hit of a search, for :meth:`SearchResults.to_html`."""
        has_sentences = by in SENTENCE_SCORINGS
        encoded = self._encoded_query(query)
        if has_sentences:
            encoded = with_sentences(self.encoder, encoded, paragraph=self.paragraph)
        return lambda hit: self.encoder.compare(encoded, self.encoded(hit.id, sentences=has_sentences))

    def search(self, query: str | Document, top_k: int = 10, **settings: Unpack[SearchOptions]) -> SearchResults:
        """Find documents.

        Args:
            query: words, a question, or a whole document; one that is in the index is not its own hit.
            top_k: how many.
            **settings: fields of :class:`~graphdoc.retrieval.search.SearchSettings`, such as ``by`` (``hybrid``,
                ``words`` or ``vectors``; with a document also ``sentences``, ``flat``, ``paragraphs`` or
                ``document``) and ``where`` (a filter such as ``year >= 2010``).

        Raises:
            SettingsError: the query is empty, the filter cannot be read, a setting is out of range, or the index does
                not keep what is searched by.
            RetrievalError: the index cannot be read.
        """
        chosen, store = SearchSettings(top_k=top_k, **settings), self._latest
        state = store.state()
        search: Search | SentenceSearch
        if chosen.by in SENTENCE_SCORINGS:
            if not isinstance(query, Document):
                raise SettingsError(f"by={chosen.by!r} ranks by a document; give one, such as Document.from_text(...)")
            shown: dict[str, Any] = {"text": query.text, "document": query.id, "title": query.title}
            search = SentenceSearch(store, lambda: self.encoder, query, lambda: self._queries.query(query), chosen)
        else:
            terms = self._queries.query(query)
            shown = {"text": terms.shown, "document": terms.id, "title": terms.title}
            search = Search(store, terms, chosen)
        hits = search.run() if state.documents else ()
        warnings = search.warnings
        if state.is_maintenance_due:
            warnings.append(
                f"maintenance is due: {state.waiting:,} of {state.rows:,} rows came after the last one (maintain)"
            )
        if not state.documents:
            warnings.append("the index is empty")
        elif not hits:
            warnings.append("nothing was found" + (f" where {chosen.where}" if chosen.where else ""))
        about = self._about(state)
        return SearchResults(hits, shown, chosen.by, chosen.fused_by, chosen.where, top_k, about, tuple(warnings))

    def scores(
        self, query: str | Document, *, ids: Sequence[str] | None = None, **settings: Unpack[SearchOptions]
    ) -> dict[str, Scores]:
        """Scores by document of ``words``, ``vectors`` or both, before they are fused and cut (see :meth:`search`).

        Args:
            query: words, a question, or a whole document.
            ids: the documents that are scored; None for all.
            **settings: as for :meth:`search`.
        """
        search = self._search(self.query(query), SearchSettings(**settings))
        rankings = search.rankings(None if ids is None else is_one_of("id", ids))
        return {name: ranking.scores for name, ranking in rankings.items()}

    def query(self, value: str | Document) -> Query:
        """A query that is asked several times: its words are weighed, and it is encoded, once."""
        _ = self._latest
        return self._queries.query(value)

    def ranked(self, query: Query, top_k: int = 10, **settings: Unpack[SearchOptions]) -> Scores:
        """Scores by document as :meth:`search` gives them, best first."""
        rounds = self._search(query, SearchSettings(top_k=top_k, **settings)).rounds()
        return {fused.id: fused.score for _, added in rounds for fused in added}

    def _search(self, query: Query, chosen: SearchSettings) -> Search:
        require_one_of("by", chosen.by, BY_PASSAGES)
        return Search(self._latest, query, chosen)

    def _about(self, state: State) -> dict[str, Any]:
        model = dict(self.record["model"])
        return {"path": self.path, "documents": state.documents, "passages": state.passages, "model": model}

    def _maintain_if_due(self, wanted: bool | None, show_progress_bar: bool | None = None) -> int:
        """Maintain, and give the number of documents that were encoded again."""
        state, rebuilt = self._store.state(), 0
        if wanted is None and state.is_search_slow and not state.is_maintenance_due:
            self._store.admit()
        elif wanted or (wanted is None and state.is_maintenance_due):
            can_load = self._encoder is not None or self.record["source"] is not None
            if REPEATED in self._store.schema.names and can_load and state.documents:
                rebuilt = Update(self._store, self.encoder, show_progress_bar=show_progress_bar).reindex_boilerplate()
            self._store.maintain()
            if self._encoder is not None and state.documents:
                self._measure_random_score(self._encoder)
        return rebuilt

    def _measure_random_score(self, encoder: DocumentEncoder) -> None:
        """Keep what queries of random words reach, so that a search can say that no hit stands out."""
        column = RANKINGS["vectors"][self.record["search_by"]]
        vectors = encoder.encode_query(random_queries(encoder.tokenizer), show_progress_bar=False)
        found = (self._store.find(self._store.by_vector(vector, column, 1))[0] for vector in vectors)
        best = [rows.scores.max(initial=-1.0) for rows in found]
        self._store.keep(RANDOM_SCORE, float(np.quantile(best, _RANDOM_SHARE)))

    def _writing(self) -> AbstractContextManager[Any]:
        """The right to write; an object store keeps writers apart itself."""
        folder = folder_of(self._store.path)
        return nullcontext() if folder is None else FolderLock(folder, "another change")


def index_words(documents: Iterable[SegmentedDocument], language: str, path: str = "memory://") -> DocumentIndex:
    """Index the words of documents without vectors, to search by words alone; it takes a fraction of the time."""
    about = {"format": FORMAT, "format_version": FORMAT_VERSION, "similarity": "cosine", "source": None}
    model = {"model": {"name": "none: words alone"}, "weights": None}
    schema = schema_of(1, 1, 1)
    store = LanceStore.create(path, schema, {**about, **model, "words": word_settings(language)})
    fields, waiting = Fields(schema), iter(documents)
    while window := list(islice(waiting, _WRITE_BATCH_DOCUMENTS)):
        rows = [row for segmented in window for row in rows_of(segmented, fields)]
        store.write(table_of(rows, schema, store.tokens), [segmented.document.id for segmented in window])
    store.maintain()
    return DocumentIndex(store)
