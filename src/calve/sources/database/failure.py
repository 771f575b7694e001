"""Turns the errors of a session into errors with a verdict: try again, or stop with the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from calve.errors import SourceError, SourceUnavailableError
from calve.sources.database.connection import ClosedError, ServerError, TrustError

__all__ = ["LOAD_AGAIN", "Verdict", "explained"]

Verdict = Callable[[ServerError], tuple[type[SourceError], str]]
"""Returns what a refusal of a server means: the error, and the hint."""
LOAD_AGAIN = (
    "Set on_lost_position: reload, which removes all rows of the target tables and loads all tables again; or empty "
    "the target, and use a new --state"
)
"""The way out when changes are missing."""
_AWAY = "Start it, or correct `host` and `port`; Calve continues by itself when it answers"


@contextmanager
def explained(server: str, address: str, verdict: Verdict, step: str, what: str = "") -> Iterator[None]:
    """Turn the errors of a session into those of Calve.

    Args:
        server: The product, e.g. `MySQL`.
        address: Its address.
        verdict: What a refusal means.
        step: The step of the pipeline.
        what: What the server may refuse.

    Raises:
        SourceUnavailableError: The server does not answer.
        SourceError: It refuses, as `verdict` says, or is not trusted.
    """
    try:
        yield
    except ClosedError as error:
        text = f"{server} at {address} does not answer: {error}"
        raise SourceUnavailableError(text, step=step, target=address, hint=_AWAY) from error
    except TrustError as error:
        text = f"{server} at {address} is not trusted: {error}"
        raise SourceError(text, step=step, target=address, hint=error.hint) from error
    except ServerError as error:
        kind, hint = verdict(error)
        text = f"{server} at {address} refuses{f' {what}' if what else ''}: {error}"
        raise kind(text, step=step, target=address, hint=hint) from error
