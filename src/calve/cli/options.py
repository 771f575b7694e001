"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import click

from calve.cli import failures
from calve.settings.units import duration
from calve.state.store_folder import StoreFolder

__all__ = [
    "as_duration",
    "catalog",
    "catalog_of_source",
    "code",
    "conf",
    "debug",
    "give_up_after",
    "json_output",
    "master",
    "maybe_duration",
    "only_pipeline",
    "pairs",
    "state",
    "table",
]


def as_duration(ctx: click.Context, parameter: click.Parameter, value: str) -> timedelta:
    """Parse a duration; a click callback."""
    try:
        return duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def maybe_duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> timedelta | None:
    """Parse an optional duration; a click callback."""
    return None if value is None else as_duration(ctx, parameter, value)


def pairs(example: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, str]]:
    """Return the callback of a repeatable option KEY=VALUE."""

    def read(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
        parts = [value.partition("=") for value in values]
        for key, equals, _ in parts:
            if not (key and equals):
                raise click.BadParameter(f"{key!r} is not KEY=VALUE, e.g. {example}")
        return {key: value for key, _, value in parts}

    return read


def _known_code(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    from calve.event.reject import Code  # brings PyArrow, which `--help` does not need

    if value is None or value.upper() in set(Code):
        return value and value.upper()
    raise click.BadParameter(f"{value} is not a code. The codes are {', '.join(Code)}")


def _remember_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    ctx.meta[failures.DEBUG] = value


def _a_state(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check that a state can be kept there, before anything tries to reach another store."""
    if "://" in value and not value.startswith("file://"):
        StoreFolder.at(value)
    return value


state = click.option(
    "--state",
    default="./calve-state",
    show_default=True,
    metavar="URI",
    callback=_a_state,
    help="Folder for progress, rejects and status: a path, or s3://, gs:// or az:// with bucket and prefix.",
)
give_up_after = click.option(
    "--give-up-after",
    default="2m",
    show_default=True,
    metavar="DURATION",
    callback=as_duration,
    help="How long --once, and a run that is stopping, retry if a server does not answer.",
)
only_pipeline = click.option("--pipeline", metavar="NAME", help="Only this pipeline.")
code = click.option(
    "--code", metavar="CODE", callback=_known_code, help="Only entries with this code, e.g. NOT_COERCIBLE."
)
table = click.option("--table", metavar="NAME", help="Only entries of this table.")
master = click.option(
    "--master", metavar="URL", help="Spark master, e.g. local[4] or spark://host:7077. [default: local[*]]"
)
conf = click.option(
    "--conf",
    multiple=True,
    callback=pairs("spark.driver.memory=2g"),
    metavar="KEY=VALUE",
    help="Spark setting; repeatable.",
)
catalog = click.option(
    "--catalog",
    multiple=True,
    callback=pairs("type=rest"),
    metavar="KEY=VALUE",
    help="Catalog property, as in `catalog:` of a sink; repeatable. [default: the catalog in ./lakehouse]",
)
catalog_of_source = click.option(
    "--catalog",
    multiple=True,
    callback=pairs("type=rest"),
    metavar="KEY=VALUE",
    help="Property of the catalog of an Iceberg table; repeatable. [default: the catalog in ./lakehouse]",
)
json_output = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_remember_debug,
    help="Show tracebacks and more log lines.",
)
