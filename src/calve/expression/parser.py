"""Parses text to a tree: Data Prepper's grammar, by precedence.

From loose to tight: `and` and `or` (one level, left to right) · `== !=` · `=~ !~` · `< <= > >= typeof` · `in` and
`not in` · `not` · `+ -` · `* / %` · unary `-`. So `not /a in {1}` is `(not /a) in {1}`, as in Data Prepper.
Two harmless extensions: strings may be joined anywhere, and sets may contain negative numbers.
"""

from __future__ import annotations

from calve.expression.errors import ExpressionSyntaxError
from calve.expression.lexer import Token, tokens
from calve.expression.tree import Binary, Call, Literal, Member, Node, Pointer, TypeOf, Unary

__all__ = ["KINDS", "parse"]

KINDS = ("integer", "long", "boolean", "big_decimal", "double", "string", "map", "array")
"""The types of `typeof`."""
_LEVELS = (
    ("and", "or"),
    ("==", "!="),
    ("=~", "!~"),
    ("<", "<=", ">", ">=", "typeof"),
    ("in", "not in"),
    ("not",),
    ("+", "-"),
    ("*", "/", "%"),
)
_LEVEL = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
_CONSTANTS = {"true": True, "false": False, "null": None}
_WORDS = ("and", "or", "in", "typeof", "not")
_LONG = 2**63
_DEPTH, _OPERATORS = 50, 400  # DuckDB allows expressions 1,000 levels deep


def parse(text: str) -> Node:
    """Read an expression.

    Raises:
        ExpressionSyntaxError: It has the position and, if possible, a correction.
    """
    return _Parser(text).complete()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(tokens(text))
        self.next = 0
        self.depth = 0
        self.operators = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def complete(self) -> Node:
        node = self.expression()
        if self.token.kind != "end":
            raise self.unexpected()
        return node

    def expression(self, least: int = 0) -> Node:
        """Parse operands joined by operators of level `least` or tighter."""
        node = self.operand(least)
        while self.token.kind == "operator" and _LEVEL.get(self.token.text, -1) >= least and self.token.text != "not":
            node = self.operation(node, self.next_token())
        return node

    def operation(self, operand: Node, token: Token) -> Node:
        self.operators += 1
        if self.operators > _OPERATORS:
            raise self.error(f"more than {_OPERATORS} operators", token.at, "Compare many values with in {…}")
        if token.text == "typeof":
            return self.type_of(operand, token)
        if token.text in ("in", "not in"):
            return Member(token.text == "not in", operand, self.members(), token.at)
        return Binary(token.text, operand, self.expression(_LEVEL[token.text] + 1), token.at)

    def type_of(self, operand: Node, token: Token) -> Node:
        if not isinstance(operand, Pointer):
            raise self.error("typeof needs a field before it", token.at, "Write /field typeof integer")
        kind = self.token
        if kind.kind != "name" or kind.text not in KINDS:
            raise self.error(f"unknown type {kind.text!r}", kind.at, f"One of: {', '.join(KINDS)}")
        self.next += 1
        return TypeOf(operand, kind.text, token.at)

    def members(self) -> tuple[Literal, ...]:
        self.need("{")
        nodes = self.listed("}")
        for node in nodes:
            if not isinstance(node, Literal):
                raise self.error("a set may contain only literals", node.at, _literal_hint(node))
        return tuple(node for node in nodes if isinstance(node, Literal))

    def operand(self, least: int) -> Node:
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.error(f"more than {_DEPTH} levels deep", self.token.at)
        token = self.next_token()
        if token.kind == "operator":
            node = self.prefixed(token, least)
        elif token.kind == "name":
            node = self.named(token)
        elif token.kind in ("pointer", "escaped"):
            node = Pointer(token.text, token.at, token.kind == "escaped")
        else:
            node = Literal(self.value(token), token.at)
        self.depth -= 1
        return node

    def prefixed(self, token: Token, least: int) -> Node:
        if token.text == "-":
            return _folded(Unary("-", self.operand(len(_LEVELS)), token.at))
        if token.text == "not" and least <= _LEVEL["not"]:
            return Unary("not", self.expression(_LEVEL["not"]), token.at)
        if token.text != "(":
            raise self.unexpected(-1)
        node = self.expression()
        self.need(")")
        return node

    def named(self, name: Token) -> Node:
        if self.token.text == "(" and self.token.kind == "operator" and name.text not in _WORDS:
            self.next += 1
            return Call(name.text, self.arguments(), name.at)
        if name.text in _CONSTANTS:
            return Literal(_CONSTANTS[name.text], name.at)
        raise self.unexpected(-1)

    def arguments(self) -> tuple[Node, ...]:
        if self.token.text == ")" and self.token.kind == "operator":
            self.next += 1
            return ()
        return self.listed(")")

    def listed(self, end: str) -> tuple[Node, ...]:
        nodes = [self.expression()]
        while self.token.kind == "operator" and self.token.text == ",":
            self.next += 1
            nodes.append(self.expression())
        self.need(end)
        return tuple(nodes)

    def value(self, token: Token) -> str | int | float:
        if token.kind == "string":
            return token.text
        if token.kind == "end":
            raise self.unexpected(-1)
        number = int(token.text) if token.kind == "integer" else float(token.text)
        if number >= (_LONG if token.kind == "integer" else float("inf")):
            raise self.error("a number beyond 64 bits", token.at)
        return number

    def next_token(self) -> Token:
        token = self.token
        self.next += 1
        return token

    def need(self, operator: str) -> None:
        if self.token.kind != "operator" or self.token.text != operator:
            raise self.unexpected(problem=f"expected {operator}")
        self.next += 1

    def unexpected(self, back: int = 0, problem: str = "") -> ExpressionSyntaxError:
        token = self.tokens[self.next + back]
        actual = "the end" if token.kind == "end" else repr(token.text)
        unexpected = "the expression ends here" if token.kind == "end" else f"unexpected {actual}"
        return self.error(f"{problem}, not {actual}" if problem else unexpected, token.at, _hint(token))

    def error(self, problem: str, at: int, hint: str = "") -> ExpressionSyntaxError:
        return ExpressionSyntaxError(problem, self.text, at, hint=hint)


def _literal_hint(node: Node) -> str:
    if isinstance(node, Pointer) and node.quoted:
        return f'Text that begins with / needs three quotes: """{node.path}"""'
    return 'Write {"a", "b"} or {1, 2}'


def _folded(node: Node) -> Node:
    """Replace a minus before a literal by a negative literal."""
    if isinstance(node, Unary) and node.operator == "-" and isinstance(node.operand, Literal):
        value = node.operand.value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return Literal(-value, node.at)
    return node


def _hint(token: Token) -> str:
    word = token.text.lower()
    if token.kind == "name" and word in _WORDS:
        return f'"{word}" needs lower case, with one space before and after it'
    if token.kind == "name":
        return f'Write a field as /{token.text}, a string as "{token.text}", a function as {token.text}(…)'
    if token.kind == "pointer":
        return "Write a division with spaces: /a / 2"
    if token.text == "}":
        return "A set needs at least one literal"
    return ""
