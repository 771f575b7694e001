"""Prints text: what untrusted names in it could do to a terminal is escaped. All commands print through here."""

from __future__ import annotations

import click

from calve.observe.humanize import harmless_text

__all__ = ["echo"]


def echo(text: str, err: bool = False, nl: bool = True) -> None:
    """Print text to stdout or stderr; only its line breaks and tabs control the terminal."""
    click.echo(harmless_text(text), err=err, nl=nl)
