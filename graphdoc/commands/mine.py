"""graphdoc mine: which documents look like answers to queries and are none?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console

from ..errors import EvaluationError
from ..runtime.memory import quick_imports
from ..runtime.text import left_out_line, one_line
from .arguments import add_model_arguments, add_query_arguments, add_reading_arguments, positive
from .outputs import check_apart, check_files, require_name, write_json, written
from .searched import searched_index
from .summaries import print_lines
from .tables import console

if TYPE_CHECKING:
    from ..evaluation import Judgements
    from ..retrieval.index import DocumentIndex
    from ..retrieval.mining import MiningSettings
    from ..retrieval.negatives import NegativeLists

HELP = "documents that look like answers to queries and are none, to train on"
DESCRIPTION = """Mine negatives: for every query the documents that a search ranks high and that do not answer it. A
model that is trained for retrieval learns most from these (graphdoc finetune retrieve, negatives.lists).

Left out, and counted, are documents that were judged to answer the query, copies and near-duplicates of these, and
documents whose score is within a share of that of the best answer, or above it, since they may well answer the query
and nobody has judged them.

INDEX is what graphdoc index has written. A file, folder or corpus in its place is indexed for this once. Queries and
judgements are in the layout of BEIR, or a file of pairs: the text of a query, a tab and the id of a document."""
EPILOG = """examples:
  graphdoc mine qmsum.index --data qmsum --split train --output negatives.jsonl
  graphdoc mine letters/ --data questions.tsv --by words --output negatives.jsonl
  graphdoc mine wiki.index --data wikir --by vectors --depth 200 --margin 0 --output negatives.jsonl.gz
"""

_EXAMPLES, _SHOWN = 3, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("index", metavar="INDEX", help="an index, or a file, folder or corpus")
    data = parser.add_argument_group("data")
    add_query_arguments(data)
    group = parser.add_argument_group("negatives")
    group.add_argument(
        "--by", choices=("words", "vectors", "both"), default="both", help="what to search by (default: both)"
    )
    group.add_argument(
        "--depth", type=positive, default=100, metavar="N", help="negatives of a query, at most (default: 100)"
    )
    group.add_argument(
        "--margin",
        type=_number_or_none,
        default=0.05,
        metavar="SHARE",
        help="leave out what scores above the best answer less this share of its score; 'none' for nothing "
        "(default: 0.05)",
    )
    group.add_argument(
        "--similar",
        type=_number_or_none,
        default=0.98,
        metavar="COSINE",
        help="leave out what has a higher cosine with an answer; 'none' for exact copies alone (default: 0.98)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--output", metavar="FILE", required=True, help="the lists (.jsonl or .jsonl.gz)")
    output.add_argument("--json", metavar="FILE", help="write what was done as JSON (- for standard output)")
    add_model_arguments(parser)
    parser.set_defaults(model=None)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, search, write and print."""
    require_name(options.output)
    check_files({"output": options.output, "json": options.json})
    check_apart([options.index, options.data], [path for path in (options.output, options.json) if path])

    with quick_imports():
        from ..evaluation import own_documents, read_judgements
        from ..evaluation.judgements import TEXT_COLUMN
        from ..evaluation.trec import leave_out
        from ..retrieval.mining import MiningSettings

    settings = MiningSettings(options.by, options.depth, options.margin, options.similar)
    # What nothing can be mined for is refused before a model is loaded.
    judged = read_judgements(
        options.data, split=options.split, only=options.only, text_column=options.query_column or TEXT_COLUMN
    )
    own: Mapping[str, frozenset[str]] = {}
    if options.own_grade is not None:
        own = own_documents(judged.qrels, options.own_grade)
        if not own:
            raise EvaluationError(
                f"{options.data}: no judgement has the grade {options.own_grade}; leave --own-grade out"
            )
        judged = type(judged).of(judged.queries, leave_out(judged.qrels, own), source=judged.source)
    with searched_index(options) as index:
        lists, judged = _mined(index, judged, own, settings)
    lists.write(options.output)
    if options.json:
        write_json(options.json, {"format": "graphdoc.mine/1", **lists.record, "left_out": judged.left_out})
        if options.json == "-":
            return
    target = console()
    _print(target, lists, judged)
    written(target, [options.output, options.json])


def _number_or_none(value: str) -> float | None:
    """A number, or None for ``none``."""
    if value == "none":
        return None
    try:
        return float(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{value!r} is neither a number nor 'none'") from error


def _mined(
    index: DocumentIndex, judged: Judgements, own: Mapping[str, frozenset[str]], settings: MiningSettings
) -> tuple[NegativeLists, Judgements]:
    """The lists, and the judgements of documents that there are."""
    from ..retrieval.candidates import documents_of_index, word_scores
    from ..retrieval.mining import mine

    documents = documents_of_index(index)
    judged = judged.among(documents.rows)
    by_vectors = "vectors" in settings.ways
    model = index.record
    lists = mine(
        documents,
        {query: judged.positives(query) for query in judged.queries},
        settings,
        words=word_scores(index, judged.queries, settings.depth),
        vectors=index.encoder.encode_query(list(judged.queries.values())) if by_vectors else None,
        never=own,
        record={"model": {"name": model["model"]["name"], "weights": model["weights"]}},
        device=index.encoder.device if by_vectors else "cpu",
    )
    return lists, judged


def _print(target: Console, lists: NegativeLists, judged: Judgements) -> None:
    lines = lists.describe()
    lines += [left_out_line(count, reason) for reason, count in judged.left_out.items()]
    print_lines(target, lines)
    for query in [query for query, ids in lists.lists.items() if ids][:_EXAMPLES]:
        shown = ", ".join(lists.lists[query][:_SHOWN])
        answers = ", ".join(judged.positives(query)[:_SHOWN])
        print_lines(
            target, [f"{query}: {one_line(judged.queries[query], 80)}", f"   answers: {answers}; negatives: {shown}"]
        )
