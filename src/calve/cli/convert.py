"""`calve convert`."""

from __future__ import annotations

from pathlib import Path

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.errors import SettingsError

__all__ = ["convert"]


@click.command(cls=Command)
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.debug
def convert(path: Path) -> None:
    """Print the configuration of Kafka Connect's Iceberg sink as a pipeline, in YAML.

    PATH is a connector's configuration: JSON, as {"name": …, "config": {…}} or the configuration alone, or a
    .properties file. A comment says what to do instead of each property that has no counterpart. Pipelines of Data
    Prepper need no conversion: `calve validate` reads them.

    Examples:
      calve convert connector.json > orders.yaml
      calve convert sink.properties
    """
    from calve.migrate.connector_file import read_connector  # here, so that `calve convert --help` is fast
    from calve.migrate.kafka_connect import pipeline_text
    from calve.pipeline.plugins import PLUGINS
    from calve.settings import parse_text

    text = pipeline_text(read_connector(path), path.name)
    echo(text, nl=False)
    try:
        parse_text(text, PLUGINS, "the converted pipeline")
    except SettingsError as error:
        error.hint = "Correct these lines of the output by hand"
        raise
