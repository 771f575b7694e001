"""From text to tree: Data Prepper's grammar by recursive descent.

From loose to tight: `and` and `or` (one level, left to right) · `== !=` · `=~ !~` · `< <= > >= typeof` · `in`, `not in` ·
`not` · `+ -` · `* / %` · unary `-`. So `not /a in {1}` is `(not /a) in {1}`, as in Data Prepper.
"""

from __future__ import annotations

from calve.expression.errors import ExpressionSyntaxError
from calve.expression.lexer import Token, tokens
from calve.expression.tree import Binary, Call, Literal, Member, Node, Pointer, TypeOf, Unary

__all__ = ["KINDS", "parse"]

KINDS = ("integer", "long", "boolean", "big_decimal", "double", "string", "map", "array")
"""The words behind `typeof`."""
_LEVELS = (("and", "or"), ("==", "!="), ("=~", "!~"), ("<", "<=", ">", ">=", "typeof"), ("in", "not in"))
_ADDITIVE, _MULTIPLICATIVE = ("+", "-"), ("*", "/", "%")
_CONSTANTS = {"true": True, "false": False, "null": None}
_LONG = 2**63
_DEPTH = 100


def parse(text: str) -> Node:
    """Read an expression.

    Raises:
        ExpressionSyntaxError: With the place and, where it can be guessed, how to write it.
    """
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(tokens(text))
        self.next = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def whole(self) -> Node:
        node = self.condition()
        if self.token.kind != "end":
            raise self.unexpected()
        return node

    def take(self, *operators: str) -> Token | None:
        token = self.token
        if token.kind != "operator" or token.text not in operators:
            return None
        self.next += 1
        return token

    def need(self, operator: str) -> None:
        if not self.take(operator):
            raise self.unexpected(f"expected {operator}")

    def condition(self, level: int = 0) -> Node:
        if level == len(_LEVELS):
            return self.negation()
        node = self.condition(level + 1)
        while token := self.take(*_LEVELS[level]):
            node = self.operation(node, token, level)
        return node

    def operation(self, left: Node, token: Token, level: int) -> Node:
        if token.text == "typeof":
            return self.type_of(left, token)
        if token.text in ("in", "not in"):
            return Member(token.text == "not in", left, self.members(), token.at)
        return Binary(token.text, left, self.condition(level + 1), token.at)

    def type_of(self, left: Node, token: Token) -> Node:
        if not isinstance(left, Pointer):
            raise self.error("typeof needs a field before it", token.at, "Write /field typeof integer")
        kind = self.token
        if kind.kind != "name" or kind.text not in KINDS:
            raise self.error(f"unknown type {kind.text!r}", kind.at, f"One of: {', '.join(KINDS)}")
        self.next += 1
        return TypeOf(left, kind.text, token.at)

    def members(self) -> tuple[Literal, ...]:
        self.need("{")
        members = [self.member()]
        while self.take(","):
            members.append(self.member())
        self.need("}")
        return tuple(members)

    def member(self) -> Literal:
        at = self.token.at
        minus = self.take("-")
        node = self.unary() if minus is None else self.negative(at)
        if isinstance(node, Literal):
            return node
        raise self.error("a set holds literals only", at, 'Write {"a", "b"} or {1, 2}')

    def negative(self, at: int) -> Node:
        node = self.unary()
        if isinstance(node, Literal) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return Literal(-node.value, at)
        raise self.error("- needs a number behind it", at)

    def negation(self) -> Node:
        token = self.take("not")
        if token is None:
            return self.sum()
        self.enter()
        node = Unary("not", self.negation(), token.at)
        self.depth -= 1
        return node

    def sum(self) -> Node:
        node = self.product()
        while token := self.take(*_ADDITIVE):
            node = Binary(token.text, node, self.product(), token.at)
        return node

    def product(self) -> Node:
        node = self.unary()
        while token := self.take(*_MULTIPLICATIVE):
            node = Binary(token.text, node, self.unary(), token.at)
        return node

    def unary(self) -> Node:
        self.enter()
        token = self.take("-")
        node = self.term() if token is None else Unary("-", self.unary(), token.at)
        self.depth -= 1
        return node

    def term(self) -> Node:
        if self.take("("):
            node = self.condition()
            self.need(")")
            return node
        token = self.token
        if token.kind in ("operator", "end"):
            raise self.unexpected()
        self.next += 1
        if token.kind == "name":
            return self.named(token)
        if token.kind in ("pointer", "escaped"):
            return Pointer(token.text, token.at, token.kind == "escaped")
        return Literal(self.value(token), token.at)

    def named(self, name: Token) -> Node:
        if self.take("("):
            return Call(name.text, self.arguments(), name.at)
        if name.text in _CONSTANTS:
            return Literal(_CONSTANTS[name.text], name.at)
        self.next -= 1
        raise self.unexpected()

    def arguments(self) -> tuple[Node, ...]:
        if self.take(")"):
            return ()
        found = [self.condition()]
        while self.take(","):
            found.append(self.condition())
        self.need(")")
        return tuple(found)

    def value(self, token: Token) -> str | int | float:
        if token.kind == "integer":
            if int(token.text) >= _LONG:
                raise self.error("a number beyond 64 bits", token.at)
            return int(token.text)
        return float(token.text) if token.kind == "float" else token.text

    def enter(self) -> None:
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.error(f"more than {_DEPTH} levels deep", self.token.at)

    def unexpected(self, problem: str = "") -> ExpressionSyntaxError:
        token = self.token
        seen = "the end" if token.kind == "end" else repr(token.text)
        return self.error(f"{problem}, not {seen}" if problem else f"unexpected {seen}", token.at, _hint(token))

    def error(self, problem: str, at: int, hint: str = "") -> ExpressionSyntaxError:
        return ExpressionSyntaxError(problem, self.text, at, hint=hint)


def _hint(token: Token) -> str:
    word = token.text.lower()
    if token.kind == "name" and word in ("and", "or", "in", "typeof", "not"):
        return f'"{word}" is written in lower case with one blank before and behind it'
    if token.kind == "name":
        return f'A field is written /{token.text}, a string "{token.text}", a function {token.text}(…)'
    if token.kind == "pointer":
        return "A division is written with blanks: /a / 2"
    if token.text == "}":
        return "A set holds at least one literal"
    return ""
