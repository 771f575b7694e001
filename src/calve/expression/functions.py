"""The functions of the language: their arguments, which are checked at compile time, and the builders of their SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from calve.expression import value
from calve.expression.cidr import cidr_contains
from calve.expression.dates import format_date_time
from calve.expression.scope import TAGS, ArgumentError, Scope
from calve.expression.sql import duckdb_text
from calve.expression.strings import contains, join, length, replace_regex, starts_with, substring
from calve.expression.tree import Call, Literal, Node, Pointer
from calve.expression.value import Value

__all__ = ["call"]


@dataclass(frozen=True)
class _Function:
    """`signatures`: for each allowed number of arguments, their kinds; `...` repeats the previous one.

    `key`: a string in quotes, given to `build` as a str. `field`: a pointer. `text`: a string, a field or a function.
    As in Data Prepper, an argument in quotes is text, even if it begins with `/`.
    """

    build: Callable[..., Value]
    signatures: tuple[tuple[str, ...], ...]

    def kinds(self, count: int) -> tuple[str, ...] | None:
        for signature in self.signatures:
            if signature[-1:] == ("...",) and count >= len(signature) - 1:
                return signature[:-1] + signature[-2:-1] * (count - len(signature) + 1)
            if count == len(signature):
                return signature
        return None


_TWO_TEXTS = (("text", "text"),)
_FUNCTIONS = {
    "cidrContains": _Function(cidr_contains, (("field", "key", "..."),)),
    "contains": _Function(contains, _TWO_TEXTS),
    "formatDateTime": _Function(
        format_date_time, (("field", "key"), ("field", "key", "key"), ("field", "key", "key", "key"))
    ),
    "generateUuid": _Function(lambda: value.text("uuid()::VARCHAR"), ((),)),
    "getEventType": _Function(lambda: value.literal("EVENT"), ((),)),
    "hasTags": _Function(lambda *_: value.literal(False), (("key", "..."),)),  # no processor sets tags
    "join": _Function(join, (("field",), ("key", "field"))),
    "length": _Function(length, (("text",),)),
    "now": _Function(lambda: value.integer("epoch_ms(now())"), ((),)),
    "replaceRegex": _Function(replace_regex, (("text", "key", "key"),)),
    "startsWith": _Function(starts_with, _TWO_TEXTS),
    "substringAfter": _Function(substring(after=True, last=False), _TWO_TEXTS),
    "substringAfterLast": _Function(substring(after=True, last=True), _TWO_TEXTS),
    "substringBefore": _Function(substring(after=False, last=False), _TWO_TEXTS),
    "substringBeforeLast": _Function(substring(after=False, last=True), _TWO_TEXTS),
    "toJsonString": _Function(lambda: value.text("json(json)::VARCHAR"), ((),)),
}
_NAMES = [*_FUNCTIONS, "getMetadata"]
_WORDS = {"key": 'a string in quotes, "text"', "field": "a field, /name", "text": "a string, a field or a function"}


def call(node: Call, compiled: Callable[[Node], Value], scope: Scope) -> Value:
    """Compile a call.

    Args:
        node: The call.
        compiled: Compiles an argument.
        scope: Looks up metadata attributes.

    Raises:
        ArgumentError: An unknown function, or invalid arguments.
    """
    if node.name == "getMetadata":
        function = _Function(lambda key: value.attribute(scope, key), (("key",),))
    elif node.name == "hasTags" and TAGS in scope.metadata:
        function = _Function(lambda *tags: _has_tags(scope, tags), (("key", "..."),))
    elif node.name in _FUNCTIONS:
        function = _FUNCTIONS[node.name]
    else:
        raise ArgumentError(f"unknown function {node.name}", node.at, _hint(node.name))
    kinds = function.kinds(len(node.arguments))
    if kinds is None:
        raise ArgumentError(f"{node.name}() cannot have {len(node.arguments)} arguments", node.at, _usage(function))
    if kinds[:1] == ("text",) and isinstance(first := node.arguments[0], Pointer) and first.quoted:
        scope.doubts.append(
            f'"{first.path}" is text as an argument of {node.name}(); a field is written without quotes'
        )
    given = [
        _argument(node.name, argument, kind, compiled) for argument, kind in zip(node.arguments, kinds, strict=True)
    ]
    try:
        return function.build(*given)
    except ArgumentError as error:
        raise ArgumentError(str(error), node.arguments[error.at].at, error.hint) from None


def _has_tags(scope: Scope, tags: tuple[str, ...]) -> Value:
    tags_sql = f"coalesce({scope.attribute(TAGS)[1]}, '[]')"
    return value.flag(" AND ".join(f"json_contains({tags_sql}, to_json({duckdb_text(tag)}))" for tag in tags))


def _argument(name: str, node: Node, kind: str, compiled: Callable[[Node], Value]) -> Any:
    text = node.value if isinstance(node, Literal) else node.path if isinstance(node, Pointer) and node.quoted else None
    if kind == "key" and isinstance(text, str):
        return text
    if kind == "field" and isinstance(node, Pointer):
        return compiled(node)
    if kind == "text" and isinstance(node, (Literal, Pointer, Call)):
        compiled_value = compiled(node if text is None else Literal(text, node.at))
        if compiled_value.string is not None:
            return compiled_value
    raise ArgumentError(f"{name}() cannot have this argument", node.at, f"It needs {_WORDS[kind]} here")


def _hint(name: str) -> str:
    close = get_close_matches(name, _NAMES, 1, 0.7)
    return f"Did you mean {close[0]}?" if close else f"Functions: {', '.join(sorted(_NAMES))}"


def _usage(function: _Function) -> str:
    return "Arguments: " + " or ".join(f"({', '.join(signature)})" for signature in function.signatures)
