"""Lists of negatives in training for retrieval: made before the first step, and once more by the model itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..corpus.corpus import TrainingCorpus
from ..corpus.document import CorpusReport, values_hash
from ..corpus.parts import PassageVectors
from ..corpus.source import CorpusSource
from ..encoder import DocumentEncoder
from ..errors import EvaluationError, OutputError, SettingsError
from ..evaluation import Judgements
from ..graphs.batch import Packing
from ..graphs.kinds import JoinedGraphs
from ..inference.precision import training_precision
from ..inference.segmenting import WINDOW_PASSAGES, Workers, segment_in_order
from ..modeling.document_model import weights_hash
from ..retrieval.mining import MinedDocuments, MiningSettings, NegativeLists, PassageWords, WordScores, merged, mine
from ..runtime.arrays import Vectors
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..runtime.text import counted, printable
from ..segmentation.spans import SegmentedDocument
from ..settings.finetuning import LIST_MAKERS, RetrievalSettings
from ..settings.run import TrainingSettings
from ..similarity.kinds import similarity_of
from ..training.run import RunContext
from ..training.run_folder import NEGATIVES_FOLDER
from .base import CorpusRecipe, batch_of_parts, vectors_at


def corpus_vectors(
    encoder: DocumentEncoder,
    corpus: TrainingCorpus,
    passage_vectors: PassageVectors | None,
    training: TrainingSettings,
    processes: Processes,
    *,
    show_progress_bar: bool | None = None,
) -> Vectors:
    """Encode all documents of a corpus, each process some of them, in eval mode and in the precision of training.

    Args:
        encoder: the model.
        corpus: the documents.
        passage_vectors: vectors of their passages, where the passage encoder is frozen.
        training: how the transformer computes.
        processes: the processes of the run, all of which have to call.
        show_progress_bar: show a bar in the first process; None shows it on a terminal when the work is long.

    Returns:
        ``(documents, hidden)``, in every process.

    Raises:
        ModelError: a number of a vector is infinite or none.
    """
    model = encoder.model
    packing = Packing.on(model.device, training.token_budget, training.padding)

    def encode(rows: Sequence[int]) -> Vectors:
        examples = [corpus[row] for row in rows]
        graphs = JoinedGraphs.from_sections([one.sections for one in examples], model.config.vector_graph)
        parts = [(number, np.arange(len(one.sections))) for number, one in enumerate(examples)]
        batch = batch_of_parts(examples, parts, graphs, vectors_at(passage_vectors, rows))
        # A training corpus holds tokens and no text, so that there is no lexical part.
        found = encoder.run((), batch, dtype=training_precision(model.device), packing=packing).output.documents
        assert found is not None
        return found.float().cpu().numpy()

    result = np.empty((len(corpus), model.config.hidden_size), np.float32)
    ends = np.cumsum(corpus.passage_counts, dtype=np.int64)
    full = np.flatnonzero(np.diff(ends // WINDOW_PASSAGES, prepend=0)) + 1
    windows = [range(*cuts) for cuts in pairwise(sorted({0, *full.tolist(), len(corpus)}))]
    with progress_bar(show_progress_bar if processes.is_first else False, len(corpus)) as bar:
        for start in range(0, len(windows), processes.count):
            some = windows[start : start + processes.count]
            own = encode(some[processes.rank]) if processes.rank < len(some) else None
            # A window at a time, so that no exchange is large.
            for rows, vectors in zip(some, processes.gather(own), strict=False):
                result[rows.start : rows.stop] = vectors
                bar.update(len(rows))
    return result


_START = "start"


class MinedNegatives:
    """The lists of negatives of a run, each a file in the run's folder, which a resumed run reads again.

    ``negatives/start.jsonl`` holds those that are made before the first step, and ``negatives/step-N.jsonl`` those
    that the model itself makes after N steps (Graph-RoBERTa, section 3.3). All processes have the same.

    Args:
        run: settings, model and processes; its settings name lists.
        data: the documents, and the vectors of their passages where the passage encoder is frozen.
        judgements: the queries that are trained on.
        excluded: documents by query id that queries were made of, which are no negatives.
    """

    def __init__(
        self,
        run: RunContext[RetrievalSettings],
        data: CorpusRecipe[Any],
        judgements: Judgements,
        excluded: Mapping[str, frozenset[str]],
    ) -> None:
        self._run, self._data, self._settings = run, data, run.settings.negatives
        self._judgements, self._excluded = judgements, excluded
        self._refresh_epoch: int | None = None
        self._refresh_step = 0
        self._name: str | None = None
        self._content = ""
        # The lists of a checkpoint, which a resumed run continues with.
        self._begun: Mapping[str, str] = {}

    @property
    def is_given(self) -> bool:
        """Whether the first lists are a file that was made before."""
        return self._settings.kind not in LIST_MAKERS

    def plan(self, steps: int, epoch_steps: int) -> None:
        """Find out when the model makes new lists: at the first epoch after the share of the run has passed."""
        if (share := self._settings.refresh) is None:
            return
        epoch = max(1, math.ceil(share * steps / epoch_steps - 1e-9))
        if epoch * epoch_steps >= steps:
            raise SettingsError(
                f"negatives.refresh={share:g} of {steps:,} steps: no epoch of {epoch_steps:,} steps begins after "
                "that, at which lists could be replaced; train for more epochs, or lower it"
            )
        self._refresh_epoch, self._refresh_step = epoch, epoch * epoch_steps

    def lists_for(self, epoch: int) -> NegativeLists | None:
        """The lists that are drawn from in an epoch; None where they are those that the data has already.

        Every process calls it at the begin of an epoch.

        Raises:
            EvaluationError: no query that is trained on has a negative.
            OutputError: the lists that the run went on with so far are gone or were changed.
        """
        is_own = self._refresh_epoch is not None and epoch >= self._refresh_epoch
        name = f"step-{self._refresh_step}" if is_own else _START
        if name == self._name:
            return None
        processes, path = self._run.processes, self._path(name)
        lists = processes.from_first(lambda: self._read(name))
        if lists is None:
            lists = self._mine("vectors" if is_own else self._settings.kind, self._refresh_step if is_own else 0)
            processes.run_first(lambda: lists.write(path))
        self._name, self._content = name, lists.content
        negatives = {id for query in self._judgements.queries for id in lists.lists.get(query, ())}
        unknown = negatives.difference(self._data.corpus.ids)
        if len(unknown) == len(negatives):
            which = f": not even {min(unknown)!r}" if unknown else ""
            raise EvaluationError(
                f"{path}: no query that is trained on has a negative in it that is in the corpus{which}; lower "
                "negatives.margin, or give lists of the documents that are trained on"
            )
        if processes.is_first:
            aside = f"{counted(len(unknown), 'document')} of these lists not in the corpus, or left out of it"
            for line in (f"negatives: {path}", *lists.describe(), *([aside] if unknown else [])):
                tqdm.write(printable(line))
        return lists

    def state_dict(self) -> dict[str, Any]:
        """Which lists are in use, for a checkpoint."""
        return {"lists": self._name, "content": self._content}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Use the lists that a checkpoint was written with."""
        self._begun = {str(state["lists"]): str(state["content"])}

    def _path(self, name: str) -> Path:
        if name == _START and self.is_given:
            return Path(self._settings.kind)
        return self._run.settings.folder / NEGATIVES_FOLDER / f"{name}.jsonl"

    def _read(self, name: str) -> NegativeLists | None:
        """Lists that are there: given ones, or those that the run itself has made."""
        path, content = self._path(name), self._begun.get(name)
        is_given = name == _START and self.is_given
        if content is None and not is_given and not path.exists():
            return None
        lists = NegativeLists.read(path)
        if content is not None and lists.content != content:
            raise OutputError(
                f"{path} has other lists than those with which the run was begun; put them back, or choose another "
                "output"
            )
        # What a run left that was given up may be of other documents, or of another model.
        is_own = is_given or content is not None or lists.record.get("made_for") == self._made_for(name)
        return lists if is_own else None

    def _made_for(self, name: str) -> str:
        judged, training = self._judgements, self._run.settings.training
        reads_model = name == _START and self._settings.kind != "words"
        weights = weights_hash(self._run.encoder.model.state_dict()) if reads_model else ""
        values: list[object] = [self._data.corpus.content, training.seed, weights]
        values += sorted((name, str(value)) for name, value in self._settings.as_values().items())
        values += [(query, text, *judged.positives(query)) for query, text in judged.queries.items()]
        return values_hash(values)

    def _mine(self, by: Any, step: int) -> NegativeLists:
        run, data, wanted = self._run, self._data, self._settings
        encoder, processes, corpus = run.encoder, run.processes, data.corpus
        # With a margin of 0, as in the paper, all that a search finds are negatives, near-duplicates of answers too.
        masks: dict[str, Any] = {"margin": wanted.margin} if wanted.margin else {"margin": None, "mask_similar": None}
        settings = MiningSettings(by, wanted.depth, **masks)
        queries = dict(self._judgements.queries)
        share = dict(list(queries.items())[processes.rank :: processes.count])
        words = self._word_scores(share) if "words" in settings.rankings else None
        vectors = asked = None
        if "vectors" in settings.rankings:
            vectors = corpus_vectors(
                encoder, corpus, data.vectors, run.settings.training, processes, show_progress_bar=run.show_progress_bar
            )
            asked = encoder.encode_query(list(share.values()), dtype=training_precision(encoder.device))
        record = {
            "model": None if vectors is None else {"weights": weights_hash(encoder.model.state_dict())},
            "step": step,
            "made_for": self._made_for("" if step else _START),
            "corpus": corpus.content,
        }
        kind = similarity_of(encoder.model.config.similarity)
        lists = mine(
            MinedDocuments(corpus.ids, corpus.groups, vectors, kind.vector_similarity),
            {query: self._judgements.positives(query) for query in share},
            settings, words=words, vectors=asked, excluded=self._excluded, record=record, device=encoder.device,
            show_progress_bar=run.show_progress_bar if processes.is_first else False,
        )  # fmt: skip
        return merged(processes.gather(lists), queries)

    def _word_scores(self, queries: Mapping[str, str]) -> WordScores:
        """A search of the words of the corpus, which every process counts for itself."""
        run, name = self._run, "Indexing words"
        source = CorpusSource(run.settings.corpus, run.settings.leaves_out_first_sentence).documents(CorpusReport())
        show_progress_bar = run.show_progress_bar if run.processes.is_first else False
        with progress_bar(show_progress_bar, len(self._data.corpus), name) as bar:

            def counted_documents() -> Iterator[SegmentedDocument]:
                documents = (document for _, document in source)
                for one in segment_in_order(documents, run.encoder.segmenter, Workers.on(run.encoder.device)):
                    if one.passages:
                        yield one
                        bar.update(1)

            words = PassageWords(counted_documents(), run.encoder.model.config.language)
        return lambda query, positives: words.scores(queries[query], positives, self._settings.depth)
