"""Compiles the tree to SQL values."""

from __future__ import annotations

from calve.expression import value
from calve.expression.errors import ExpressionSyntaxError
from calve.expression.functions import call
from calve.expression.lexer import is_plain
from calve.expression.operators import BINARY, UNARY, member, type_of
from calve.expression.probe import refusal
from calve.expression.regex import check_pattern
from calve.expression.scope import ArgumentError, Scope
from calve.expression.sql import duckdb_name
from calve.expression.tree import Binary, Call, Literal, Member, Node, Pointer, TypeOf, Unary
from calve.expression.value import Value

__all__ = ["compile_node", "finish"]


def compile_node(node: Node, text: str, scope: Scope) -> Value:
    """Compile a tree.

    Args:
        node: The tree.
        text: The text of the expression, for errors.
        scope: Collects the fields that are read; its `close` completes the SQL of the value.

    Raises:
        ExpressionSyntaxError: A function or pattern is invalid.
    """
    return _Compiler(text, scope).value(node)


def finish(sql: str, text: str, scope: Scope) -> str:
    """Complete the SQL and check that DuckDB accepts it: an error here would occur for every event.

    Raises:
        ExpressionSyntaxError: DuckDB refuses it, e.g. because it is nested too deeply.
    """
    complete = scope.close(sql)
    columns = "".join(f", NULL::VARCHAR AS {duckdb_name(name)}" for name in scope.metadata)
    reason = refusal(f"SELECT {complete} FROM (SELECT '{{}}' AS json{columns})")
    if reason is not None:
        raise ExpressionSyntaxError(f"an expression that cannot be computed ({reason})", text, 0)
    return complete


_COMPARISONS = ("==", "!=", "=~", "!~")


class _Compiler:
    def __init__(self, text: str, scope: Scope) -> None:
        self.text = text
        self.scope = scope

    def value(self, node: Node) -> Value:
        if isinstance(node, Literal):
            return value.literal(node.value)
        if isinstance(node, Pointer):
            if node.quoted and is_plain(node.path):
                self.doubt(node)
            return value.field(self.scope, node.path)
        if isinstance(node, Unary):
            return UNARY[node.operator](self.value(node.operand))
        if isinstance(node, Binary):
            return self.binary(node)
        if isinstance(node, Member):
            return member(
                self.value(node.operand), [value.literal(option.value) for option in node.members], node.negated
            )
        if isinstance(node, TypeOf):
            return type_of(self.value(node.operand), node.kind)
        return self.call(node)

    def binary(self, node: Binary) -> Value:
        chain: list[Binary] = []  # a loop, because the chain may exceed the recursion limit
        first: Node = node
        while isinstance(first, Binary):
            chain.append(first)
            first = first.left
        result = self.value(first)
        for link in reversed(chain):
            if link.operator in ("=~", "!~"):
                self.check_match(link)
            if link.operator in _COMPARISONS and isinstance(link.left, Pointer | Call):
                self.doubt(link.right)
            result = BINARY[link.operator](result, self.value(link.right))
        return result

    def doubt(self, node: Node) -> None:
        """Note a field in quotes that is probably meant as text."""
        if isinstance(node, Pointer) and node.quoted:
            message = f'"{node.path}" is the field of that name, as in Data Prepper'
            self.scope.doubts.append(f'{message}; text that begins with / needs three quotes: """{node.path}"""')

    def check_match(self, node: Binary) -> None:
        for side in (node.left, node.right):
            if not isinstance(side, (Pointer, Call)) and not (
                isinstance(side, Literal) and isinstance(side.value, str)
            ):
                raise self.error(f"{node.operator} compares a field with a pattern in quotes", side.at)
        if isinstance(node.right, Literal):
            problem = check_pattern(str(node.right.value))
            if problem:
                raise self.error(*problem[:1], node.right.at, problem[1])

    def call(self, node: Call) -> Value:
        try:
            return call(node, self.value, self.scope)
        except ArgumentError as error:
            raise self.error(str(error), error.at, error.hint) from None

    def error(self, problem: str, at: int, hint: str = "") -> ExpressionSyntaxError:
        return ExpressionSyntaxError(problem, self.text, at, hint=hint)
