"""Parses command lines of documents and files with the real command line, without running anything."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from unittest.mock import patch

import click

from calve.cli.main import calve

__all__ = ["check_arguments", "command_lines", "commands"]

_START = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S* )*calve(?= |$)")
_END = re.compile(r"\s(?:\||>>?|2>|&&|&)(?:\s|$)|;")


def check_arguments(arguments: Sequence[str], *, may_lack: bool = False) -> None:
    """Parse what follows `calve`: commands, options and their values; paths need not exist.

    Args:
        arguments: The words of the command line.
        may_lack: Whether required arguments may be missing, as where a text only names a command.

    Raises:
        click.UsageError: The command line would refuse it.
    """
    words, command, context = list(arguments), calve, click.Context(calve)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"there is no command {name}")
        command, context = found, click.Context(found, parent=context)
    if isinstance(command, click.Group) and not words and may_lack:
        return
    try:
        with patch.object(click.Path, "convert", lambda self, value, *_: value):
            command.make_context(command.name, words, parent=context.parent)
    except click.exceptions.Exit:
        pass  # --help
    except click.MissingParameter:
        if not may_lack:
            raise


def command_lines(block: str) -> Iterator[list[str]]:
    """Yield the words after `calve` of each such line of a code block, up to a pipe or redirection."""
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        if _START.match(line.strip()):
            command = _END.split(_START.sub("", line.strip()))[0]
            if words := shlex.split(command, comments=True):
                yield words


def commands(command: click.Command = calve, name: str = "calve") -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name, those of commands too."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from commands(found, f"{name} {child}")
