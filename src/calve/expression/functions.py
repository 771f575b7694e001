"""The functions of the language: what they take, and their SQL."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from calve.expression import value
from calve.expression.errors import ExpressionSyntaxError
from calve.expression.scope import Scope
from calve.expression.tree import Call, Literal, Node, Pointer
from calve.expression.value import Value

__all__ = ["call"]


def call(
    node: Call, compiled: Callable[[Node], Value], error: Callable[..., ExpressionSyntaxError], scope: Scope
) -> Value:
    """x."""
    if node.name != "getMetadata":
        raise error(f"unknown function {node.name}", node.at)
    arg = node.arguments[0]
    key = arg.value if isinstance(arg, Literal) else arg.path
    return value.attribute(scope, key)
