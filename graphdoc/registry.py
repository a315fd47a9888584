"""Names of all that can be chosen, and where it lives: a new part has its line here."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Literal, NamedTuple

# Name in settings and checkpoints -> "module:Class". Nothing is imported before it is asked for, so that settings can
# be checked without torch.
GRAPH_KINDS: dict[str, str] = {
    "full": "graphdoc.graphs.kinds:FullGraph",
    "section": "graphdoc.graphs.kinds:SectionGraph",
    "window": "graphdoc.graphs.kinds:WindowGraph",
    "hierarchical": "graphdoc.graphs.kinds:HierarchicalGraph",
}
READOUTS: dict[str, str] = {
    "document_node": "graphdoc.modeling.readouts:DocumentNodeReadout",
    "mean": "graphdoc.modeling.readouts:MeanReadout",
    "initial_mean": "graphdoc.modeling.readouts:InitialMeanReadout",
    "attention": "graphdoc.modeling.readouts:AttentionReadout",
    "sections": "graphdoc.modeling.section_readout:SectionReadout",
}
# How the tokens of a passage become its vector.
POOLINGS: dict[str, str] = {
    "cls": "graphdoc.modeling.passage_encoder:cls_pooling",
    "mean": "graphdoc.modeling.passage_encoder:mean_pooling",
    "last": "graphdoc.modeling.passage_encoder:last_pooling",
}
# How two documents are compared.
SIMILARITIES: dict[str, str] = {
    "cosine": "graphdoc.similarity.kinds:Cosine",
    "dot": "graphdoc.similarity.kinds:Dot",
    "maxsim": "graphdoc.similarity.kinds:MaxSim",
    "evidence": "graphdoc.similarity.evidence:Evidence",
}
# How a loss compares two vectors, and which of both looks for the other.
VectorSimilarity = Literal["cosine", "dot"]
Directions = Literal["both", "one"]
# Below it, exponents and gradients of a loss leave the range of float32.
LEAST_TEMPERATURE = 1e-4
# Ways to find the subtopics of a pair of documents.
SUBTOPICS: dict[str, str] = {
    "words": "graphdoc.subtopics.subtopics:WordSubtopics",
    "vectors": "graphdoc.subtopics.subtopics:VectorSubtopics",
    "adaptive": "graphdoc.inference.learned_subtopics:AdaptiveSubtopics",
}
# How a model reads the two views of a pair.
VIEW_READERS: dict[str, str] = {
    "cross": "graphdoc.matching.reader:CrossReader",
    "dual": "graphdoc.matching.reader:DualReader",
}
# Ways to choose the sentences of a view.
VIEW_SAMPLINGS: dict[str, str] = {
    "soft": "graphdoc.sampling.views:soft",
    "hard": "graphdoc.sampling.views:hard",
    "uniform": "graphdoc.sampling.views:uniform",
    "random": "graphdoc.sampling.views:run_of_sentences",
    "negative": "graphdoc.sampling.views:negative",
    "truncated": "graphdoc.sampling.views:first_sentences",
}


class RecipeTargets(NamedTuple):
    """A way to train a model: the classes of its settings and of its recipe."""

    settings: str
    recipe: str


# By the words of its command: one word, or that of a group, such as "finetune", and one more. Where one word is a
# command, words that begin with it are further recipes of that command, of which the key ``recipe`` says which.
RECIPES: dict[str, RecipeTargets] = {
    "pretrain": RecipeTargets(
        "graphdoc.settings.pretraining:SubDocumentSettings", "graphdoc.recipes.sub_documents:SubDocumentRecipe"
    ),
    "pretrain sentence_pairs": RecipeTargets(
        "graphdoc.settings.pretraining:SentencePairSettings", "graphdoc.recipes.sentence_pairs:SentencePairRecipe"
    ),
    "finetune classify": RecipeTargets(
        "graphdoc.settings.finetuning:ClassificationSettings", "graphdoc.recipes.classify:ClassRecipe"
    ),
    "finetune compare": RecipeTargets(
        "graphdoc.settings.finetuning:ComparisonSettings", "graphdoc.recipes.compare:ComparisonRecipe"
    ),
    "finetune retrieve": RecipeTargets(
        "graphdoc.settings.finetuning:RetrievalSettings", "graphdoc.recipes.retrieve:RetrievalRecipe"
    ),
    "finetune views": RecipeTargets(
        "graphdoc.settings.finetuning:ViewRunSettings", "graphdoc.recipes.views:ViewRecipe"
    ),
    "finetune subtopics": RecipeTargets(
        "graphdoc.settings.finetuning:SubtopicRunSettings", "graphdoc.recipes.subtopics:SubtopicRecipe"
    ),
}


def recipes_of(command: str) -> dict[str, RecipeTargets]:
    """The recipes of a command by their words, the one that it takes without the key ``recipe`` first.

    >>> next(iter(recipes_of("pretrain"))), list(recipes_of("finetune compare"))
    ('pretrain', ['finetune compare'])
    """
    return {words: recipe for words, recipe in RECIPES.items() if words == command or words.startswith(f"{command} ")}


@cache
def load(target: str) -> Any:
    """Import what a line of a registry stands for.

    >>> load("graphdoc.errors:GraphdocError").__name__
    'GraphdocError'
    """
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
