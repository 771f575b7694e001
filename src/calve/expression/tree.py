"""The tree of an expression, from the parser to the compiler. `at` is the offset in the text."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Binary", "Call", "Literal", "Member", "Node", "Pointer", "TypeOf", "Unary"]


@dataclass(frozen=True)
class Literal:
    """A string, an integer, a float, a boolean or null."""

    value: str | int | float | bool | None
    at: int


@dataclass(frozen=True)
class Pointer:
    """A JSON pointer into the event, with its leading `/`; `quoted`: written `"/a-b"`, which may also be a string."""

    path: str
    at: int
    quoted: bool = False


@dataclass(frozen=True)
class Call:
    """A function with its arguments."""

    name: str
    arguments: tuple[Node, ...]
    at: int


@dataclass(frozen=True)
class Unary:
    """`not` or `-`."""

    operator: str
    operand: Node
    at: int


@dataclass(frozen=True)
class Binary:
    """`and or == != =~ !~ < <= > >= + - * / %`."""

    operator: str
    left: Node
    right: Node
    at: int


@dataclass(frozen=True)
class Member:
    """`in` and `not in` a set of literals of one kind."""

    negated: bool
    operand: Node
    members: tuple[Literal, ...]
    at: int


@dataclass(frozen=True)
class TypeOf:
    """`/pointer typeof integer`."""

    operand: Pointer
    kind: str
    at: int


Node = Literal | Pointer | Call | Unary | Binary | Member | TypeOf
