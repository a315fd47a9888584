"""graphdoc prepare: make the corpus of a run ready before it begins."""

from __future__ import annotations

import argparse

from ..errors import SettingsError
from ..registry import RECIPES, training_commands
from ..runtime.text import one_line
from ..settings.loading import kinds_of, load_chosen
from ..settings.run import RunSettings
from .tables import console, plain

HELP = "cut and tokenise the corpus of a training run before it begins"
DESCRIPTION = """Cut and tokenise the corpus of a training run before it begins, on a machine without accelerators.

It reads the run's configuration file, needs the tokenizer of the model but none of its weights, and takes all cores
(corpus.preparing_processes). The run then finds the corpus in the cache (corpus.cache, which all machines have to
share) and begins at once. A corpus that is ready already is checked and left as it is."""
EPILOG = """examples:
  graphdoc prepare --config configs/pretrain/graph_roberta.yaml corpus.cache=/shared/graphdoc
  graphdoc prepare --config configs/finetune/own_labels.yaml corpus.source=letters.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "settings", metavar="KEY=VALUE", nargs="*", help="settings that replace those of the file, as for the run"
    )
    parser.add_argument("--config", metavar="FILE", required=True, help="settings of the run, as YAML")
    parser.add_argument(
        "--recipe", choices=list(RECIPES), metavar="RECIPE",
        help=f"what the settings are for, where several could be meant: {', '.join(RECIPES)}",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Make the corpus ready, say where it is, and give the exit status."""
    settings = _settings(options)
    if settings.corpus.streaming:
        raise SettingsError(
            "corpus.streaming=true: the run itself reads documents that are streamed; leave it out to prepare them"
        )
    from ..corpus.corpus import prepare_run_corpus
    from ..training.run import load_segmenter

    segmenter, config = load_segmenter(settings.model)
    corpus = prepare_run_corpus(settings, segmenter, config.paragraph)
    console().print(plain(f"{settings.corpus.name}: {corpus.report.summary()}"))
    console().print(plain(f"ready in {corpus.folder}"))
    return 0


def _settings(options: argparse.Namespace) -> RunSettings:
    """The settings of the recipe that they are for.

    Raises:
        SettingsError: they are not valid, or could be for several recipes that prepare a corpus differently.
    """
    names = [options.recipe] if options.recipe else training_commands()
    fitting: dict[str, RunSettings] = {}
    errors: list[SettingsError] = []
    for name in names:
        try:
            fitting[name] = load_chosen(kinds_of(name), options.config, options.settings)
        except SettingsError as error:
            errors.append(error)
    if not fitting:
        # What is wrong for its own recipe; for others the keys of this one are.
        raise min(errors, key=lambda error: "unknown" in str(error))
    found = list(fitting.values())
    if any((one.corpus, one.model) != (found[0].corpus, found[0].model) for one in found):
        raise SettingsError(
            f"{one_line(options.config, 300)}: it could be for {' or '.join(fitting)}; say which with --recipe"
        )
    return found[0]
