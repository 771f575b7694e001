"""Prints failures: one sentence on what failed, where, and what to do; a traceback only with `--debug`."""

from __future__ import annotations

import traceback

import click

from calve.cli.output import echo
from calve.credentials import without_credentials
from calve.errors import CalveError, EngineError, InvariantError, SettingsError
from calve.observe.log import Log
from calve.settings.problems import SettingsErrors

__all__ = ["DEBUG", "FAILED", "JSON_LOG", "WRONG_SETTINGS", "print_error", "print_unexpected"]

FAILED = 1
WRONG_SETTINGS = 2

DEBUG = "calve.debug"
JSON_LOG = "calve.json_log"
"""Keys of `Context.meta`, which a command shares with the group that prints its failures."""


def print_error(error: CalveError, ctx: click.Context) -> int:
    """Print an error to stderr and return its exit code."""
    if ctx.meta.get(JSON_LOG):
        Log().error(error)
    else:
        echo(_sentence(error), err=True)
        if ctx.meta.get(DEBUG):
            echo(without_credentials("".join(traceback.format_exception(error))), err=True, nl=False)
    return WRONG_SETTINGS if isinstance(error, SettingsError) else FAILED


def print_unexpected(error: Exception, ctx: click.Context) -> int:
    """Print an unexpected error: with the operating system's message, or as a bug in Calve."""
    calve_error: CalveError
    if isinstance(error, OSError) and error.strerror:
        calve_error = EngineError(f"{error.strerror}: {error.filename}" if error.filename else error.strerror)
    elif isinstance(error, ImportError):
        calve_error = EngineError(f"a Python package cannot be imported: {error}", hint="Install Calve again")
    else:
        hint = "" if ctx.meta.get(DEBUG) else "Run it again with --debug to see the traceback"
        calve_error = InvariantError(f"this is a bug in Calve: {type(error).__name__}: {error}", hint=hint)
    calve_error.__cause__ = error
    return print_error(calve_error, ctx)


def _sentence(error: CalveError) -> str:
    if isinstance(error, SettingsErrors):
        count = len(error.problems)
        return f"{error}\n{count} error{'s' * (count > 1)} in the configuration"
    return f"Error: {error}"
