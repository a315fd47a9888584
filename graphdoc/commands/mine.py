"""graphdoc mine: which documents look like answers to queries and are none?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from ..errors import EvaluationError, SettingsError
from ..runtime.memory import quick_imports
from ..runtime.text import left_out_line, one_line
from .options import COUNT, OUTPUT, IndexModel
from .output import Outputs, require_name
from .printing import print_lines
from .search import searched_index
from .sources import CorpusReading

if TYPE_CHECKING:
    from ..evaluation import Judgements
    from ..retrieval.index import DocumentIndex
    from ..retrieval.mining import MiningSettings, NegativeLists

_EXAMPLES, _SHOWN = 3, 3


def mine(
    index: str,
    /,
    *,
    queries: str,
    split: str | None = None,
    query_column: str = "text",
    source_grade: Annotated[int | None, COUNT] = None,
    by: Literal["words", "vectors", "both"] = "both",
    depth: Annotated[int, COUNT] = 100,
    margin: str = "0.05",
    output: Annotated[str, OUTPUT],
    model: IndexModel = IndexModel(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Mine hard negatives: for every query the documents that a search ranks high and that do not answer it.

    A model that is trained for retrieval learns most from these (graphdoc finetune retrieve, negatives.lists). Left
    out, and counted, are documents that were judged to answer the query, copies and near-duplicates of these, and
    those whose score is close to that of the best answer, since they may well answer the query.

    Usage examples:
      graphdoc mine qmsum.index --queries qmsum --split train --output negatives.jsonl
      graphdoc mine letters/ --queries questions.tsv --by words --output negatives.jsonl
      graphdoc mine wiki.index --queries wikir --by vectors --depth 200 --margin none --output negatives.jsonl.gz

    Args:
        index: an index, or a file, folder or corpus, which is indexed for this once
        queries: queries and judgements: a folder in BEIR's layout, or a file of query, tab and document
        split: queries of this split alone, such as train
        query_column: field that holds the text of a query
        source_grade: ignore documents judged so: the query was written from them
        by: what to search by
        depth: negatives of a query, at most
        margin: leave out what scores above the best answer less this share of its score; none for nothing
        output: write the lists there (.jsonl or .jsonl.gz)
    """
    require_name(output)
    outputs = Outputs([index, queries], output=output)

    with quick_imports():
        from ..evaluation import own_documents, read_judgements
        from ..evaluation.trec import leave_out
        from ..retrieval.mining import MiningSettings

    settings = MiningSettings(by, depth, _number("margin", margin))
    # What nothing can be mined for is refused before a model is loaded.
    judged = read_judgements(queries, split=split, text_column=query_column)
    own: Mapping[str, frozenset[str]] = {}
    if source_grade is not None:
        own = own_documents(judged.qrels, source_grade)
        if not own:
            raise EvaluationError(f"{queries}: no judgement has the grade {source_grade}; leave --source-grade out")
        judged = type(judged).of(judged.queries, leave_out(judged.qrels, own), source=judged.source)
    with searched_index(index, model, reading) as opened:
        lists, judged = _mined(opened, judged, own, settings)
    target = outputs.write(output=lists.write)
    assert target is not None
    print_lines(target, lists.describe())
    print_lines(target, [left_out_line(count, reason) for reason, count in judged.left_out.items()])
    for query in [query for query, ids in lists.lists.items() if ids][:_EXAMPLES]:
        shown = ", ".join(lists.lists[query][:_SHOWN])
        answers = ", ".join(judged.positives(query)[:_SHOWN])
        print_lines(
            target, [f"{query}: {one_line(judged.queries[query], 80)}", f"   answers: {answers}; negatives: {shown}"]
        )
    outputs.report(target)


def _number(option: str, value: str) -> float | None:
    """A number, or None for ``none``."""
    if value == "none":
        return None
    try:
        return float(value)
    except ValueError as error:
        raise SettingsError(f"--{option} {value!r} is neither a number nor 'none'") from error


def _mined(
    index: DocumentIndex, judged: Judgements, own: Mapping[str, frozenset[str]], settings: MiningSettings
) -> tuple[NegativeLists, Judgements]:
    """The lists, and the judgements of documents that there are."""
    from ..retrieval.mining import documents_of_index, mine, word_scores

    documents = documents_of_index(index)
    judged = judged.among(documents.rows)
    by_vectors = "vectors" in settings.rankings
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
