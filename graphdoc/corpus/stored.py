"""Opening the corpus of a run, with the vectors of its passages where they stand still."""

from __future__ import annotations

from ..encoder import DocumentEncoder
from ..graphs.packing import Packing
from ..runtime.processes import Processes
from ..settings.run import RunSettings
from .passage_vectors import PassageVectors, prepare_passage_vectors
from .prepare import TrainingCorpus, prepare_run_corpus


def open_corpus(
    settings: RunSettings, encoder: DocumentEncoder, processes: Processes, show_progress: bool | None = None
) -> tuple[TrainingCorpus, PassageVectors | None]:
    """Cut, tokenise and, for a passage encoder that is not trained, encode a corpus, or open what was made before.

    Args:
        settings: the settings of the run.
        encoder: the model and its tokenizer.
        processes: the processes of the run.
        show_progress: show bars; None shows them on a terminal.

    Returns:
        The corpus, and its passage vectors where the passage encoder is frozen.
    """
    training = settings.training
    corpus = prepare_run_corpus(
        settings, encoder.segmenter, encoder.model.config.paragraph, processes, show_progress=show_progress
    )
    if settings.model.tune != "frozen":
        return corpus, None
    precision = None if training.precision == "float32" else training.precision
    packing = Packing.on(encoder.model.device, training.token_budget, training.padding)
    return corpus, prepare_passage_vectors(
        corpus, encoder.model, packing, precision, processes, show_progress=show_progress
    )
