"""`calve init`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.errors import SettingsError

__all__ = ["init"]


class _Source(NamedTuple):
    """A kind of source: the question for its location, a default, and its YAML with `{…}` for the answer."""

    question: str
    default: str
    yaml: str


_SOURCES = {
    "http": _Source(
        "Port to listen on",
        "2021",
        """\
    http:
      port: {location}                        # POST JSON or NDJSON to /log/ingest; only from this machine
""",
    ),
    "kafka": _Source(
        "Broker and topic",
        "localhost:9092/events",
        """\
    kafka:
      bootstrap_servers: [{broker}]
      topics:
        - name: {topic}
          group_id: calve
          serde_format: json
""",
    ),
    "file": _Source(
        "Files, as a path or a pattern",
        "in/*.ndjson",
        """\
    file:
      path: {location}                        # NDJSON, JSON, CSV or Parquet; each file is read once
""",
    ),
}
_PIPELINE = """\
# A pipeline of Calve. All options: docs/reference.md; completion in your editor: calve schema --help
{name}:
  source:
{source}  sink:
    - iceberg:
        table_identifier: {table}
        auto_create: true                  # create the table from the events, in ./lakehouse
        schema_evolution: true             # add a column for each new field
        flush_interval: 1s                 # how long events wait before they are written
        commit_interval: 10s               # how often readers see new rows
        # catalog: {{type: rest, uri: "https://…", warehouse: …}}   a catalog of yours instead of ./lakehouse
        # operation: "${{/op}}"              UPDATE and DELETE rows by key:
        # identifier_columns: [id]
"""


@click.command(cls=Command)
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False), default="pipeline.yaml")
@click.option("--source", type=click.Choice(list(_SOURCES)), help="Where events come from.")
@click.option("--from", "location", metavar="LOCATION", help="The port, broker/topic, or path of the source.")
@click.option("--table", metavar="NAMESPACE.TABLE", help="The table to write.")
@options.debug
def init(path: Path, source: str | None, location: str | None, table: str | None) -> None:
    """Ask three questions and write a pipeline that runs. Options answer questions in advance.

    Examples:
      calve init
      calve init orders.yaml --source kafka --from localhost:9092/orders --table shop.orders
    """
    if path.exists():
        raise _refused(path, f"{path} exists already", "Choose another name: calve init NAME.yaml")
    chosen: str = source or click.prompt("Where do events come from", "http", type=click.Choice(list(_SOURCES)))
    kind = _SOURCES[chosen]
    location = location or click.prompt(kind.question, kind.default)
    table = table or click.prompt("Table to write", "shop.events")
    _write(path, _pipeline(kind, str(location), str(table)))
    echo(f"Wrote {path}. Next:\n  calve run {path}    # until Ctrl-C; calve status shows rows and rejects")
    if chosen == "http":
        echo(f"""  curl -d '{{"id": 1}}' localhost:{location}/log/ingest""")


def _pipeline(kind: _Source, location: str, table: str) -> str:
    broker, _, topic = location.rpartition("/")
    if "{broker}" in kind.yaml and not (broker and topic):
        raise SettingsError(f"{location!r} is not BROKER/TOPIC", step="settings", hint=f"E.g. {kind.default}")
    location = location if location.isdecimal() else json.dumps(location, ensure_ascii=False)
    source = kind.yaml.format(location=location, broker=json.dumps(broker), topic=json.dumps(topic))
    name = re.sub("[^A-Za-z0-9]+", "-", table).strip("-")  # the last part alone may be a word of the YAML's own
    return _PIPELINE.format(name=name or "events", source=source, table=json.dumps(table))


def _write(path: Path, text: str) -> None:
    """Check a pipeline and write it to a new file."""
    from calve.pipeline.plugins import PLUGINS
    from calve.settings import parse_text

    parse_text(text, PLUGINS, str(path))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _refused(path, f"{path} cannot be written: {error.strerror or error}", "Choose another path") from error


def _refused(path: Path, message: str, hint: str) -> SettingsError:
    return SettingsError(message, step="settings", target=str(path), hint=hint)
