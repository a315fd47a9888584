"""graphdoc settings: what can be set of a recipe, for editors and programs."""

from __future__ import annotations

import argparse
import json

from ..registry import RECIPES, training_commands
from ..settings.loading import settings_of
from .tables import Table, console, names

HELP = "list the recipes, or print a JSON Schema of their settings"
DESCRIPTION = """List the recipes, or print a JSON Schema of the settings of one of them, or of any.

An editor checks and completes a configuration file by the schema that its first line names:
# yaml-language-server: $schema=graphdoc.schema.json"""
EPILOG = """examples:
  graphdoc settings
  graphdoc settings --schema > graphdoc.schema.json
  graphdoc settings --schema "finetune classify" > classify.schema.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--schema", nargs="?", const="", choices=["", *RECIPES], metavar="RECIPE", help="print JSON Schema"
    )


def run(options: argparse.Namespace) -> int:
    """List the recipes or print a schema, and give the exit status."""
    if options.schema is None:
        rows = Table([names("recipe"), names("purpose")])
        commands = training_commands()
        for words, recipe in RECIPES.items():
            kind = settings_of(recipe)
            chosen = "" if words in commands else f" (recipe: {words.rpartition(' ')[2]})"
            rows.add(words, f"{kind.purpose}{chosen}")
        rows.print(console())
        return 0
    wanted = [options.schema] if options.schema else list(RECIPES)
    schemas = [settings_of(RECIPES[words]).model_json_schema() for words in wanted]
    definitions = {name: part for schema in schemas for name, part in schema.pop("$defs").items()}
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    print(json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": definitions}))
    return 0
