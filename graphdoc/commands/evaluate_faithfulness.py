"""graphdoc evaluate faithfulness: do contributions and attention explain what a model says?"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from ..errors import EvaluationError
from .arguments import (
    add_model_arguments,
    add_reading_arguments,
    check_image,
    fill_outputs,
    load_encoder,
    no_documents,
    positive,
    read_many,
    write_json,
)
from .faithfulness_tables import Measured, Row, print_tables, to_csv, to_json, to_markdown
from .measured_models import with_passages

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder
    from ..evaluation import Pairs
    from ..evaluation.faithfulness.study import FaithfulnessEvaluation

NAME = "faithfulness"
HELP = "do contributions and attention explain? Deletion and insertion curves"
DESCRIPTION = """Take passages out of documents, step by step, and watch what becomes of a similarity (with --pairs) or
of the probability of the predicted class (without): first those with the highest contribution, the most attention, the
most words in common with the other document or the class, or at random. What explains a model makes the number fall
early; put in first, into nothing, the same passages make it rise early.

Every document goes through the transformer once. Of a pair each document is shortened in turn. The table has the areas
under the curves, and by how much each is better than random, with 95 % bootstrap intervals over documents."""
EPILOG = """examples:
  graphdoc evaluate faithfulness --data papers/ --pairs pairs.tsv --model mini --output curves/
  graphdoc evaluate faithfulness --data test.jsonl.gz --model runs/topics/model --sample 200 --plot curves.png
  graphdoc evaluate faithfulness --data corpus.jsonl --pairs test.tsv --similar-only --model mini --model runs/a/model
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    data = parser.add_argument_group("documents and pairs")
    data.add_argument("--data", metavar="SOURCE", nargs="+", required=True, help="corpora that the documents are in")
    data.add_argument(
        "--pairs",
        metavar="FILE",
        help="pairs whose similarity is watched: id_a, id_b, 0 or 1 by tabs; without them it is classes",
    )
    data.add_argument("--similar-only", action="store_true", help="watch the pairs of label 1 alone")
    data.add_argument(
        "--sample", type=positive, metavar="N", help="measure N of the pairs, or of the documents, drawn at random"
    )
    measures = parser.add_argument_group("measures")
    measures.add_argument("--steps", type=positive, default=10, metavar="N", help="steps of a curve (default: 10)")
    measures.add_argument(
        "--orders", type=positive, default=5, metavar="N", help="random orders to average over (default: 5)"
    )
    measures.add_argument(
        "--resamples", type=positive, default=1000, metavar="N", help="bootstrap resamples (default: 1000)"
    )
    measures.add_argument(
        "--seed", type=int, default=0, metavar="N", help="draws orders, resamples and the sample (default: 0)"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write everything as JSON (- for standard output)")
    output.add_argument("--csv", metavar="FILE", help="write the curves with their bands as CSV")
    output.add_argument("--markdown", metavar="FILE", help="write the tables as Markdown")
    output.add_argument("--plot", metavar="FILE", help="draw the curves with their bands (.png, .svg, .pdf)")
    output.add_argument(
        "--output", metavar="FOLDER", help="write faithfulness.json, curves.csv, faithfulness.md and curves.png there"
    )
    add_model_arguments(parser, several=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, encode, shorten, print and write."""
    if options.similar_only and options.pairs is None:
        raise EvaluationError("--similar-only chooses among pairs, and there are none; give --pairs, or leave it out")
    files = {"json": "faithfulness.json", "csv": "curves.csv", "markdown": "faithfulness.md"}
    fill_outputs(options, *options.data, options.pairs, **files, plot="curves.png")
    check_image(options.plot)

    from ..documents.readers import ReadingReport
    from ..evaluation.faithfulness.study import FaithfulnessEvaluation

    pairs = _pairs(options)
    wanted = None if pairs is None else {id for pair in pairs for id in (pair.a, pair.b)}
    report = ReadingReport()
    documents = [one for one in read_many(options.data, options, report) if wanted is None or one.id in wanted]
    if not documents and wanted is None:
        raise no_documents(options.data, report)

    evaluation_of = partial(
        FaithfulnessEvaluation,
        pairs=pairs,
        steps=options.steps,
        orders=options.orders,
        sample=options.sample,
        unknown="leave_out" if options.on_error == "skip" else "stop",
        resamples=options.resamples,
        seed=options.seed,
    )
    # Pairs that nothing can be measured on are told before any model is loaded, and models before they run.
    evaluation = evaluation_of(documents)
    names = list(dict.fromkeys(options.model or ["mini"]))
    encoders = [load_encoder(options, name) for name in names]
    for encoder in encoders:
        evaluation.require_target(encoder)
    if options.on_error == "skip":
        evaluation = evaluation_of(with_passages(documents, encoders[0], report))
    rows = [_measured(evaluation, encoder, name) for encoder, name in zip(encoders, names, strict=True)]
    measured = Measured(evaluation, rows, report)
    if options.json:
        write_json(options.json, to_json(measured))
    for path, content in ((options.csv, to_csv), (options.markdown, to_markdown)):
        if path:
            from ..runtime.files import write_text

            write_text(path, content(measured))
    if options.plot:
        from ..analysis.figures.faithfulness import plot_faithfulness

        plot_faithfulness({row.name: row.scores for row in rows}, options.plot)
    if options.json != "-":
        print_tables(measured, (options.json, options.csv, options.markdown, options.plot))


def _pairs(options: argparse.Namespace) -> Pairs | None:
    """The pairs to watch."""
    from ..evaluation import read_pair_file

    if options.pairs is None:
        return None
    pairs = read_pair_file(options.pairs)
    if not options.similar_only:
        return pairs
    similar = pairs.chosen([number for number, pair in enumerate(pairs) if pair.label == 1])
    if not len(similar):
        raise EvaluationError(f"{pairs.name} has no pair of label 1; leave out --similar-only")
    return similar


def _measured(evaluation: FaithfulnessEvaluation, encoder: DocumentEncoder, name: str) -> Row:
    from ..segmentation.coverage import Coverage

    totals = Coverage()
    scores = evaluation.measure(encoder, totals=totals)
    return Row(name, scores, totals.to_dict(), encoder.describe())
