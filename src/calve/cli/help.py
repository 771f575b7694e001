"""Help texts: the docstring of a command is shown unchanged, with its examples."""

from __future__ import annotations

import inspect

import click

__all__ = ["Command", "Group"]


class _AsWritten(click.Command):
    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help line by line, without refilling paragraphs."""
        formatter.write_paragraph()
        for line in inspect.cleandoc(self.help or "").splitlines():
            formatter.write(f"  {line}".rstrip() + "\n")


class Command(_AsWritten):
    """A command whose docstring is its help."""


class Group(_AsWritten, click.Group):
    """A command of commands whose docstring is its help."""

    command_class = Command
