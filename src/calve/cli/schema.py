"""`calve schema`."""

from __future__ import annotations

import json

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.settings import json_schema, reference

__all__ = ["schema"]


@click.command(cls=Command)
@click.option("--markdown", is_flag=True, help="Print the reference of all options as Markdown instead.")
@options.debug
def schema(markdown: bool) -> None:
    """Print the JSON Schema of the YAML: every key with its meaning and its default.

    With it an editor completes and checks keys while you type. If your editor uses the YAML language server, add this
    line at the top of a pipeline file:
      # yaml-language-server: $schema=calve.schema.json

    Example:
      calve schema > calve.schema.json
    """
    from calve.pipeline.plugins import PLUGINS  # here, so that `calve schema --help` needs no Spark

    echo(reference(PLUGINS) if markdown else json.dumps(json_schema(PLUGINS), indent=2))
