"""graphdoc fit: a model fitted to a corpus without training, by its mean passage vector and its words."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..errors import SettingsError
from ..runtime.text import counted, require_seed
from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive
from .evaluate import processes_of
from .outputs import Outputs, require_name, write_json, written
from .sources import encodable, no_documents, read_many, skips_unencodable
from .summaries import list_left_out, list_without_id, print_lines

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder
    from ..evaluation import LabelledDocuments
    from ..inference.fitting import Fit
    from ..recipes.fitted_head import FittedHead
    from ..segmentation.spans import SegmentedDocument

HELP = "fit a model to a corpus without training, and to its labels if asked for"
DESCRIPTION = """Fit a model to documents such as it will encode, in one pass and without training.

What all of them have in common, their mean passage vector, is taken off all passages from then on (the centre).
With --lexical a vector also holds the words of its text: 100 numbers of latent semantic analysis beside it, which
find documents of the same names and terms. Under torchrun or accelerate launch every process encodes its share.

With --classes a head is fitted to the labels of the documents too, on these vectors and on the weight of every word
that the model has, so that graphdoc predict gives documents their labels; in one process. The centre and the words are
learned without labels. With --no-centre and without --lexical nothing but the head is fitted."""
EPILOG = """examples:
  graphdoc fit letters/ --output my-mini
  graphdoc fit corpus.jsonl.gz --lexical --corpus "letters, 2001-2020" --output my-mini
  graphdoc fit corpus.parquet --lexical --hashed --terms 65536 --output my-mini
  graphdoc fit letters.csv --lexical --classes --output my-letters
  graphdoc compare a.md b.md --model my-mini
"""

OUTPUTS = Outputs(folder=False, json=(None, "write what was learned as JSON (- for standard output)"))
# What is learned of fewer documents says little of others.
_FEW = 100
# Options of the lexical part, by the fields of its settings.
_LEXICAL = {
    "numbers": "numbers",
    "projection": "projection",
    "terms": "most_terms",
    "least_documents": "least_documents",
    "hashed": "hashed",
    "sample": "most_documents",
    "seed": "seed",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="files, folders, globs, corpora or -")
    parser.add_argument("--corpus", default="", metavar="WORDS", help="what the documents are, for the model card")
    centre = parser.add_argument_group("centre")
    centre.add_argument("--no-centre", action="store_true", help="leave the mean passage vector where it is")
    words = parser.add_argument_group("words")
    words.add_argument("--lexical", action="store_true", help="also learn a lexical part")
    words.add_argument(
        "--lexical-weight",
        type=float,
        metavar="X",
        help="its length beside vectors of length 1 (default: 0.85, 0.7 for random ones)",
    )
    words.add_argument(
        "--numbers", type=positive, metavar="N", help="numbers of it (default: 100, or 512 random ones)"
    )
    words.add_argument(
        "--projection",
        choices=("decomposition", "random"),
        help="learn the vectors of terms from the documents (default), or draw random ones, which fit any corpus",
    )
    words.add_argument(
        "--terms", type=positive, metavar="N", help="terms of the vocabulary, those of most documents (default: 50000)"
    )
    words.add_argument(
        "--least-documents", type=positive, metavar="N", help="documents that a term occurs in at least (default: 2)"
    )
    words.add_argument(
        "--hashed", action="store_true", default=None, help="hash terms into --terms buckets, without a vocabulary"
    )
    words.add_argument(
        "--sample", type=positive, metavar="N", help="documents that the numbers are learned of (default: 100000)"
    )
    classes = parser.add_argument_group("classes")
    classes.add_argument(
        "--classes",
        action="store_true",
        help="also fit a head to the labels of the documents, one each; vectors of all documents are held in memory",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="draws documents: those of --sample, and those that the settings of --classes are chosen on (default: 0)",
    )
    output = OUTPUTS.add_to(parser)
    output.add_argument("--output", metavar="FOLDER", required=True, help="write the model there")
    add_model_arguments(parser, measures=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, fit, print and write."""
    require_name(options.output)
    OUTPUTS.prepare(options, options.sources, [options.output])
    given = {field: getattr(options, name) for name, field in _LEXICAL.items() if getattr(options, name) is not None}
    if options.classes and not options.lexical:
        given.pop("seed", None)
    if not options.lexical and (given or options.lexical_weight is not None):
        name = next((one for one, field in _LEXICAL.items() if field in given), "lexical_weight")
        others = " or --classes" if name == "seed" else ""
        raise SettingsError(f"--{name.replace('_', '-')} has no effect without --lexical{others}; give both")

    from ..documents.readers import ReadingReport
    from ..settings.lexical import LexicalFit

    lexical = LexicalFit(**given) if options.lexical else False
    require_seed(options.seed or 0)
    report = ReadingReport()
    with processes_of(options) as processes:
        encoder = load_encoder(options)
        read: Any = read_many(options.sources, options, report)
        documents = encodable(read, encoder, report) if skips_unencodable(options, options.sources) else read
        first = next(iter(documents), None)
        if first is None:
            raise no_documents(options.sources, report)
        documents = _again(first, documents)
        labelled = _labelled(encoder, documents, processes.count) if options.classes else None
        found = None
        if labelled is None or lexical or not options.no_centre:
            found = encoder.fit(
                documents if labelled is None else labelled[0],
                centre=not options.no_centre,
                lexical=lexical,
                lexical_weight=options.lexical_weight,
                corpus=options.corpus,
                processes=processes,
            )
        head = None if labelled is None else _fit_head(encoder, labelled[1], options.seed or 0)
        processes.run_first(lambda: encoder.save_pretrained(options.output))
        if not processes.is_first:
            return
    learned = {} if found is None else asdict(found)
    content = {**learned, **({} if head is None else {"classes": asdict(head)}), "model": encoder.describe()}
    target = OUTPUTS.write(options, json=lambda path: write_json(path, content))
    if target is None:
        return
    if found is not None:
        print_lines(target, _lines(found, encoder.name, encoder.hidden_size))
    if head is not None and labelled is not None:
        print_lines(target, _lines_of_head(head, labelled[1]))
    list_left_out(target, report)
    list_without_id(target, report)
    written(target, [options.output])
    OUTPUTS.report(options, target)


def _labelled(
    encoder: DocumentEncoder, documents: Iterable[Document], processes: int
) -> tuple[list[SegmentedDocument], LabelledDocuments]:
    """All documents, with their passages encoded once for all that is fitted, and those that have a label.

    Raises:
        SettingsError: there are several processes.
        EvaluationError: there are fewer than two labels.
    """
    from ..evaluation import LabelledDocuments
    from ..evaluation.labels import require_labels

    if processes > 1:
        raise SettingsError(f"--classes holds all vectors in one process, and there are {processes}; start one")
    # The one that it may have would not outlive the fit.
    encoder.model.remove_head(subtopics=False)
    # What cannot be told apart is refused before the long work.
    plain = list(documents)
    found = LabelledDocuments.of(plain)
    if not found.documents and found.with_several:
        raise SettingsError(
            f"--classes fits a head to one label a document, and {counted(len(found.with_several), 'document')} with "
            "labels have several; train a head for these: graphdoc finetune classify"
        )
    require_labels([name for (name,) in found.labels], "train")
    ready = list(encoder.with_passage_vectors(plain))
    return ready, LabelledDocuments.of(ready)


def _fit_head(encoder: DocumentEncoder, labelled: LabelledDocuments, seed: int) -> FittedHead:
    from ..recipes.fitted_head import fit_head

    return fit_head(encoder, labelled, seed=seed)


def _lines_of_head(head: FittedHead, labelled: LabelledDocuments) -> list[str]:
    """What was learned of labels, in lines."""
    reads = "vectors and words" if head.reads_words else "vectors"
    lines = [f"head: {len(head.classes):,} classes of {counted(head.documents, 'document')}, read from {reads}"]
    if head.held_out_accuracy is not None:
        lines[0] += (
            f"; accuracy {head.held_out_accuracy:.3f} on {counted(head.held_out_documents, 'document')} that were "
            "held out, by a head of the others"
        )
    for ids, what in ((labelled.without_label, "no label"), (labelled.with_several, "several labels")):
        if ids:
            lines.append(f"left out of the head: {counted(len(ids), 'document')} with {what}")
    return lines


def _again(first: Any, others: Any) -> Any:
    yield first
    yield from others


def _lines(found: Fit, name: str, hidden: int) -> list[str]:
    """What was learned, in lines."""
    lines = [f"{name} fitted to {counted(found.documents, 'document')}, {counted(found.passages, 'passage')}"]
    if found.centre_length is not None:
        lines.append(f"centre: a mean of length {found.centre_length:.3f} is taken off passages of length 1")
    if found.terms is not None:
        held = "random ones" if found.explained is None else f"which hold {found.explained:.0%} of their variance"
        lines.append(f"lexical part: {found.numbers} numbers over {counted(found.terms, 'term')}, {held}")
    if found.documents < _FEW:
        lines.append(
            f"warning: {counted(found.documents, 'document')} are few to learn from; some hundreds are better"
        )
    return [*lines, f"vectors of {hidden:,} numbers"]
