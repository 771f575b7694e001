"""`calve schema`."""

from __future__ import annotations

import json

import click

from calve.cli import options
from calve.cli.help import Command
from calve.pipeline.plugins import PLUGINS
from calve.settings import json_schema, reference

__all__ = ["schema"]


@click.command(cls=Command)
@click.option("--markdown", is_flag=True, help="Print the reference of all options instead, to read.")
@options.debug
def schema(markdown: bool) -> None:
    """Print the JSON Schema of the YAML: every key, its meaning and its default.

    An editor that knows it completes and checks while you type. For one that reads the comment of the YAML language
    server, write this line at the top of a pipeline file:
      # yaml-language-server: $schema=calve.schema.json

    Example:
      calve schema > calve.schema.json
    """
    click.echo(reference(PLUGINS) if markdown else json.dumps(json_schema(PLUGINS), indent=2))
