"""`calve dlq`: show rejected events, and send them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calve.cli import options
from calve.cli.help import Group
from calve.cli.replay import replay_entries

__all__ = ["dlq", "list_entries", "show_entries"]

_SHOWN = 20

_catalog = click.option(
    "--catalog",
    multiple=True,
    callback=options.pairs("type=rest"),
    metavar="KEY=VALUE",
    help="Property of the catalog of `dlq: {table: …}`; repeatable. [default: read the table as of the pipeline's last "
    "commit, with the credentials of the environment; of SQLite and hadoop catalogs the current table]",
)

_config = click.option(
    "--config",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="The YAML of the pipelines, to log in where `dlq: {kafka: …}` needs it. [default: no login]",
)


@click.group(cls=Group)
def dlq() -> None:
    """Show rejected events and the reasons; send them again. Every rejected event has an entry here.

    Examples:
      calve dlq list
      calve dlq show --code NOT_COERCIBLE --limit 5
      calve dlq show --table shop.orders --raw > orders.ndjson
      calve dlq replay orders.yaml
    """


dlq.add_command(replay_entries)


@dlq.command("list")
@options.state
@options.only_pipeline
@_catalog
@_config
@options.json_output
@options.debug
def list_entries(state: str, pipeline: str | None, catalog: dict[str, str], config: Path | None, as_json: bool) -> None:
    """Count the dead letters of each pipeline that wait, by table and code.

    Examples:
      calve dlq list
      calve dlq list --pipeline orders --json
      calve dlq list --catalog type=rest --catalog uri=http://127.0.0.1:8181 --catalog warehouse=s3://wh/
    """
    from calve.cli.entries import StoreAccess, print_counts  # here, so that `calve dlq --help` needs no Arrow

    print_counts(state, pipeline, StoreAccess(catalog, config), as_json)


@dlq.command("show")
@options.state
@options.only_pipeline
@options.code
@options.table
@_catalog
@_config
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Maximum number, as text of reasons; 0: all. [default: {_SHOWN} for text]",
)
@click.option("--replayed", is_flag=True, help="Also those that were sent again; without it, those that wait.")
@click.option("--raw", is_flag=True, help="Only the original events, byte for byte, one per line.")
@options.json_output
@options.debug
def show_entries(state: str, pipeline: str | None, catalog: dict[str, str], config: Path | None, **chosen: Any) -> None:
    """Show dead letters that wait, oldest file first: the target, the reason, and the event.

    As text, those of one code, field and reason are together, with their number and the first event.

    Examples:
      calve dlq show
      calve dlq show --table shop.orders --code REQUIRED_MISSING
      calve dlq show --json --limit 0 | jq .reason
      calve dlq show --raw > orders.ndjson
    """
    from calve.cli.entries import StoreAccess, print_entries

    as_text = not (chosen["raw"] or chosen["as_json"])
    if chosen["limit"] is None:
        chosen["limit"] = _SHOWN if as_text else 0
    print_entries(state, pipeline, StoreAccess(catalog, config), chosen)
