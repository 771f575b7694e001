"""`calve bundle`."""

from __future__ import annotations

from pathlib import Path

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo

__all__ = ["bundle"]


@click.command(cls=Command)
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path), default="calve.tar.gz")
@options.debug
def bundle(path: Path) -> None:
    """Pack Calve for the executors of a Spark cluster into one archive.

    PATH is the archive, by default calve.tar.gz. Executors then need no Calve, only a Python of the same version and
    the same operating system and processor type. Write it again after each upgrade.

    Examples:
      calve bundle
      calve bundle /srv/spark/calve.tar.gz
    """
    from calve.operate.bundle import write  # here, so that `calve bundle --help` is fast

    echo("Packing …", err=True)
    names = write(path)
    echo(f"{path}: {path.stat().st_size >> 20} MiB, {len(names)} packages")
    echo(f"Use it: calve run … --master spark://… --bundle {path}")
