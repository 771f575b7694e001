"""Compiles expressions of processors, on the driver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from calve.expression import compile_condition, compile_format, compile_value
from calve.expression.condition import Condition
from calve.expression.format import Format
from calve.processors.evaluation import Evaluation, Expression

if TYPE_CHECKING:
    from calve.processors.key_filter import KeyFilter

__all__ = ["Compiler", "condition", "format_string", "value_expression"]


class Compiler:
    """Compiles the expressions of a pipeline's processors, each once.

    Args:
        metadata: The metadata attributes of events.
        known: Expressions that are compiled already, by kind and text.
        begun_tenths: When the batch was begun, in tenths of a second since the epoch; the same over retries.
        key_filter: Remembers the keys of events; None: no event is a duplicate.

    Attributes:
        known: All expressions so far.
        begun_tenths: As given.
        key_filter: As given.
    """

    def __init__(
        self,
        metadata: Collection[str],
        expressions: Mapping[tuple[str, str], Expression] | None = None,
        begun_tenths: int = 0,
        key_filter: KeyFilter | None = None,
    ) -> None:
        self.begun_tenths = begun_tenths
        self.key_filter = key_filter
        self.known: dict[tuple[str, str], Expression] = dict(expressions or {})
        self._metadata = metadata

    def condition(self, text: str | None, if_unknown: bool = False) -> Evaluation | None:
        """Compile a condition; None: always true. Events for which it cannot be evaluated have the value `if_unknown`.

        Raises:
            ExpressionSyntaxError: It cannot be read.
        """
        if text is None:
            return None
        if if_unknown:
            return self._compiled("condition or unknown", text, partial(compile_condition, if_unknown=True))
        return self._compiled("condition", text, compile_condition)

    def format(self, text: str) -> Evaluation:
        """Compile a format string; its value is text, or None.

        Raises:
            ExpressionSyntaxError: It cannot be read.
        """
        return self._compiled("format", text, compile_format)

    def value(self, text: str) -> Evaluation:
        """Compile an expression; its value is JSON text, or None if it cannot be evaluated.

        Raises:
            ExpressionSyntaxError: It cannot be read.
        """
        return self._compiled("value", text, compile_value)

    def _compiled(self, kind: str, text: str, make: Callable[[str, Collection[str]], Condition | Format]) -> Evaluation:
        if (kind, text) not in self.known:
            self.known[kind, text] = Expression.of(make(text, self._metadata))
        return Evaluation(self.known[kind, text])


def condition(text: str | None) -> object:
    """Check a condition of the settings."""
    return None if text is None else compile_condition(text)


def format_string(text: str | None) -> object:
    """Check a format string of the settings."""
    return None if text is None else compile_format(text)


def value_expression(text: str | None) -> object:
    """Check a value expression of the settings."""
    return None if text is None else compile_value(text)
