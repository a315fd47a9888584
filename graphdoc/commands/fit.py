"""graphdoc fit: a model fitted to a corpus without training, by its mean passage vector and its words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..documents.readers import ReadingReport
from ..errors import OutputError, SettingsError
from ..runtime.text import counted
from .options import OUTPUT, MeasuredModel
from .output import Outputs, Terminal
from .sources import LabelledReading, not_empty

if TYPE_CHECKING:
    from ..evaluation import LabelledDocuments
    from ..inference.fitting import Fit
    from ..recipes.fitted_head import WordClassifier

# What is learned of fewer documents says little of others.
_FEW = 100


def fit(
    *sources: str,
    output: Annotated[str, OUTPUT],
    description: Annotated[str, OUTPUT] = "",
    no_centre: bool = False,
    lexical: bool = False,
    classes: bool = False,
    model: MeasuredModel = MeasuredModel(),
    reading: LabelledReading = LabelledReading(),
) -> None:
    """Fit a model to documents such as it will encode, in one pass and without training.

    What all of them have in common, their mean passage vector, is subtracted from all passages from then on (the
    centre). With --lexical a vector also holds the words of its text: 256 numbers of latent semantic analysis next to
    it, which find documents of the same names and terms. From 50 documents on the model also knows how alike
    unrelated pairs are, so that compare says "closer than 99.2 % of unrelated pairs". Under torchrun or accelerate
    launch every process encodes its share. With --classes a head is fitted to the labels of the documents too, so
    that graphdoc predict gives documents their labels; in one process. With --no-centre and without --lexical nothing
    but the head is fitted.

    Usage examples:
      graphdoc fit letters/ --output my-mini
      graphdoc fit corpus.jsonl.gz --lexical --description "letters, 2001-2020" --output my-mini
      graphdoc fit letters.csv --lexical --classes --output my-letters

    Args:
        sources: files, folders, globs, corpora or -
        output: write the model to this folder
        description: what the documents are, for the model card
        no_centre: leave the mean passage vector where it is
        lexical: also learn a lexical part
        classes: also fit a head to the labels of the documents, one each; all vectors are held in memory
    """
    outputs = Outputs(sources, folders=[output])
    if (Path(output) / "config.json").exists():
        raise OutputError(f"{output} holds a model, which is not replaced; choose another folder or remove it")
    report, fitted, head, labelled = ReadingReport(), None, None, None
    from ..runtime.processes import Processes, usable_device

    with Processes(usable_device(model.device)) as processes:
        encoder = model.load()
        encodable = reading.encodable(reading.documents(sources, report), encoder, sources, report)
        documents: Iterable[Any] = not_empty(encodable, sources, report)
        if classes:
            if processes.count > 1:
                raise SettingsError(f"--classes holds all vectors in one process; start one, not {processes.count}")
            # The head that the model may have would not outlive the fit.
            encoder.model.remove_head(subtopics=False)
            documents = list(documents)
            # Documents that cannot be told apart are refused before the long work; passages are encoded once for all.
            _labelled(documents)
            documents = list(encoder.with_passage_vectors(documents))
            labelled = _labelled(documents)
        if not classes or lexical or not no_centre:
            fitted = encoder.fit(
                documents, centre=not no_centre, lexical=lexical, description=description, processes=processes
            )
        if labelled is not None:
            from ..recipes.fitted_head import fit_head

            head = fit_head(encoder, labelled)
        processes.run_first(lambda: encoder.save_pretrained(output))
        if not processes.is_first:
            return
    target = Terminal()
    if fitted is not None:
        target.lines(_lines_of_fit(fitted, encoder.name, encoder.hidden_size))
    if head is not None and labelled is not None:
        target.lines(_lines_of_head(head, labelled, len(list(documents))))
    outputs.report(target, report, Path(output))


def _labelled(documents: list[Any]) -> LabelledDocuments:
    """Documents with one label each, of two labels at least, that no split keeps for measuring."""
    from ..corpus.document import TEST_SPLITS, VALIDATION_SPLITS
    from ..evaluation import LabelledDocuments
    from ..evaluation.labels import plain_document, require_labels, split_of

    labelled = LabelledDocuments.from_documents(
        [one for one in documents if split_of(plain_document(one)) not in VALIDATION_SPLITS + TEST_SPLITS]
    )
    if not labelled.documents and labelled.with_several:
        raise SettingsError(
            f"--classes fits a head to one label a document, and {len(labelled.with_several):,} have several; train "
            "one for these: graphdoc finetune classify"
        )
    require_labels([name for (name,) in labelled.labels], "train")
    return labelled


def _lines_of_head(head: WordClassifier, labelled: LabelledDocuments, given: int) -> list[str]:
    reads = "vectors and words" if head.reads_words else "vectors"
    line = f"head: {len(head.classes):,} classes of {counted(head.documents, 'document')}, read from {reads}"
    if head.held_out_accuracy is not None:
        held_out = counted(head.held_out_documents, "document")
        line += f"; accuracy {head.held_out_accuracy:.3f} on {held_out} that were held out, by a head of the others"
    counts = len(labelled.without_label), len(labelled.with_several), given - len(labelled) - labelled.left_out
    kinds = zip(counts, ("with no label", "with several labels", "whose split is test or validation"), strict=True)
    return [line, *(f"left out of the head: {counted(count, 'document')} {kind}" for count, kind in kinds if count)]


def _lines_of_fit(fitted: Fit, name: str, hidden: int) -> list[str]:
    documents = counted(fitted.documents, "document")
    lines = [f"{name} fitted to {documents}, {counted(fitted.passages, 'passage')}"]
    if fitted.centre_length is not None:
        lines.append(f"centre: a mean of length {fitted.centre_length:.3f} is subtracted from passages of length 1")
    if fitted.terms is not None:
        share = fitted.explained_variance
        held = "random ones" if share is None else f"which hold {share:.0%} of their variance"
        numbers = f"{fitted.lexical_size} numbers over {counted(fitted.terms, 'term')}"
        lines.append(f"lexical part: {numbers}, {held}; length {fitted.lexical_weight:.2f} to 1 of the passages")
    if fitted.background is not None:
        lines.append(f"scores are cosines, beside those of all pairs of {fitted.background.documents:,} documents")
    if fitted.documents < _FEW:
        lines.append(f"warning: {documents} are few to learn from; some hundreds are better")
    return [*lines, f"vectors of {hidden:,} numbers"]
