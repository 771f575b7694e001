"""Commands: the docstring is shown unchanged, with its examples; an argument too many is told where it belongs."""

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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments of a call.

        Raises:
            UsageError: There are more than the command takes; it names the options for a pipeline or table.
        """
        ctx.allow_extra_args = True
        super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise click.UsageError(_too_many(self, ctx), ctx)
        return ctx.args


class Group(_AsWritten, click.Group):
    """A command of commands whose docstring is its help."""

    command_class = Command


def _too_many(command: click.Command, ctx: click.Context) -> str:
    """Return what a command takes, and the options for the name of a pipeline or table, which often is the reason."""
    arguments = [parameter.make_metavar(ctx) for parameter in command.params if isinstance(parameter, click.Argument)]
    named = [
        f"{parameter.opts[0]} {ctx.args[0]}"
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name in ("pipeline", "table")
    ]
    hint = f": write {' or '.join(named)}" if named else ""
    return f"{ctx.command_path} takes {' '.join(arguments) or 'no argument'}; {' '.join(ctx.args)} is too much{hint}"
