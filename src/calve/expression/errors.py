"""Errors in the text of an expression, with their position."""

from __future__ import annotations

from typing import Any

from calve.errors import SettingsError

__all__ = ["ExpressionSyntaxError"]

_AROUND = 60


class ExpressionSyntaxError(SettingsError):
    """An expression or format string cannot be read; found before anything runs.

    Attributes:
        text: The complete expression or format string.
        offset: The position in `text`, from 0; `len(text)` at the end.
    """

    def __init__(self, message: str, text: str, offset: int, *, hint: str = "") -> None:
        position = f"at character {offset + 1} of `{_excerpt(text, offset)}`"
        super().__init__(f"{message} {position}", step="validate", target=text, hint=hint)
        self.problem = message
        self.text = text
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.problem, self.text, self.offset, self.hint)

    def shifted(self, text: str, by: int) -> ExpressionSyntaxError:
        """Return the same error for a longer text that contains this one from character `by`."""
        return ExpressionSyntaxError(self.problem, text, self.offset + by, hint=self.hint)


def _excerpt(text: str, offset: int) -> str:
    start, end = max(0, offset - _AROUND), offset + _AROUND
    if len(text) <= 2 * _AROUND:
        return text
    return f"{'…' * (start > 0)}{text[start:end]}{'…' * (end < len(text))}"


def _rebuild(problem: str, text: str, offset: int, hint: str) -> ExpressionSyntaxError:
    return ExpressionSyntaxError(problem, text, offset, hint=hint)
