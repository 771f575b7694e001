"""Reads `.proto` files of proto2 and proto3 (protobuf.dev, "Language Specification").

A registry has compiled the file before it gave it an id. So this is no second compiler that finds mistakes: it reads
what decides how messages are decoded, and skips services, extensions and options.
"""

from __future__ import annotations

from collections.abc import Iterator

from calve.serde.protobuf.descriptors import Enum, File, MessageField, MessageType
from calve.serde.protobuf.tokens import ProtoError, ProtoToken, Tokens, number_of, text_of

__all__ = ["parse"]

_DEEPEST = 32
"""Messages that are declared in each other; protoc has the same limit."""
_FIELD_META = "confluent.field_meta"
_Default = int | float | bytes | str | None


def parse(text: str) -> File:
    """Read a file.

    Raises:
        ProtoError: It is not a `.proto` file of proto2 or proto3.
    """
    tokens, file = Tokens(text), File()
    if tokens.next.text == "edition" and tokens.is_before("="):
        raise ProtoError("Editions of Protobuf are not supported: only proto2 and proto3")
    if tokens.skip("syntax", "="):
        file.is_proto3 = _syntax(tokens)
    while tokens.next.kind != "end":
        _statement(tokens, file)
    return file


def _syntax(tokens: Tokens) -> bool:
    line, version = tokens.next.line, tokens.string()
    tokens.expect(";")
    if version not in (b"proto2", b"proto3"):
        raise ProtoError(f"Line {line} has an unknown syntax: only proto2 and proto3 are supported")
    return version == b"proto3"


def _statement(tokens: Tokens, file: File) -> None:
    if tokens.skip(";"):
        return
    match tokens.word():
        case "package":
            file.package = tokens.name()
            tokens.expect(";")
        case "import":
            _ = tokens.skip("public") or tokens.skip("weak")
            file.imports.append(tokens.string().decode())
            tokens.expect(";")
        case "message":
            file.messages.append(_Body(tokens, file.package, file.is_proto3).message())
        case "enum":
            file.enums.append(_enum(tokens, file.package, file.is_proto3))
        case "option":
            _skip_statement(tokens)
        case "service" | "extend":
            tokens.name()
            _skip_block(tokens)
        case word:
            raise ProtoError(f"Line {tokens.next.line} has an unknown statement: {word}")


class _Body:
    """Reads a message.

    Args:
        tokens: The tokens after the word `message`.
        scope: The full name of what it is declared in.
        is_proto3: The file's syntax.
        depth: In how many messages it is declared.
    """

    def __init__(self, tokens: Tokens, scope: str, is_proto3: bool, depth: int = 0) -> None:
        self._tokens = tokens
        self._scope = scope
        self._is_proto3 = is_proto3
        self._depth = depth
        self._fields: list[MessageField] = []
        self._messages: list[MessageType] = []
        self._enums: list[Enum] = []

    def message(self) -> MessageType:
        if self._depth > _DEEPEST:
            raise ProtoError(f"Messages are declared in each other more than {_DEEPEST} levels deep")
        self._scope = _joined(self._scope, self._tokens.word())
        self._tokens.expect("{")
        while not self._tokens.skip("}"):
            self._statement()
        return MessageType(
            self._scope, tuple(self._fields), tuple(self._messages), tuple(self._enums), is_proto3=self._is_proto3
        )

    def _statement(self) -> None:
        tokens = self._tokens
        if tokens.skip(";"):
            return
        if tokens.skip("message"):
            inner = _Body(tokens, self._scope, self._is_proto3, self._depth + 1)
            self._messages.append(inner.message())
        elif tokens.skip("enum"):
            self._enums.append(_enum(tokens, self._scope, self._is_proto3))
        elif tokens.skip("oneof"):
            self._oneof()
        elif tokens.skip("extend"):
            tokens.name()
            _skip_block(tokens)
        elif tokens.next.text in ("option", "reserved", "extensions"):
            _skip_statement(tokens)
        else:
            self._fields.append(_field(tokens))

    def _oneof(self) -> None:
        tokens, name = self._tokens, self._tokens.word()
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.next.text == "option":
                _skip_statement(tokens)
            elif not tokens.skip(";"):
                self._fields.append(_field(tokens, name))


def _field(tokens: Tokens, oneof: str = "") -> MessageField:
    doc = tokens.next.comment
    label = tokens.next_token().text if tokens.next.text in ("optional", "required", "repeated") and not oneof else ""
    key = ""
    if tokens.skip("map", "<"):
        label, key = "repeated", tokens.word()
        tokens.expect(",")
        kind = tokens.name()
        tokens.expect(">")
    else:
        kind = tokens.name()
    name = tokens.word()
    tokens.expect("=")
    number = tokens.number()
    tags = list[str]()
    options = _options(tokens, tags)
    if kind == "group":
        _skip_block(tokens)
    else:
        doc = doc or tokens.next.remark
        tokens.expect(";")
    return MessageField(name, number, kind, label, options.get("default"), oneof, key, doc, tuple(tags))


def _enum(tokens: Tokens, scope: str, is_proto3: bool) -> Enum:
    name = _joined(scope, tokens.word())
    values: list[tuple[str, int]] = []
    tokens.expect("{")
    while not tokens.skip("}"):
        if tokens.skip(";"):
            continue
        if tokens.next.text in ("option", "reserved") and not tokens.is_before("="):
            _skip_statement(tokens)
            continue
        value = tokens.word()
        tokens.expect("=")
        values.append((value, tokens.number()))
        _options(tokens)
        tokens.expect(";")
    if not values:
        raise ProtoError(f"Enum {name} has no values")
    return Enum(name, tuple(values), is_closed=not is_proto3)


def _options(tokens: Tokens, tags: list[str] | None = None) -> dict[str, _Default]:
    """Read `[…]` after a field, if it is there, and add Confluent's tags to a list; other options are skipped."""
    options: dict[str, _Default] = {}
    if not tokens.skip("["):
        return options
    while True:
        name = [token.text for token in tokens.until("=")]
        tokens.expect("=")
        value = tokens.until(",", "]")
        if name == ["default"]:
            options["default"] = _default(value)
        elif tags is not None and _FIELD_META in "".join(name):
            tags += _tags(value, is_in=name[-1].endswith("tags"))
        if not tokens.skip(","):
            tokens.expect("]")
            return options


def _tags(tokens: list[ProtoToken], is_in: bool) -> Iterator[str]:
    """Yield the texts of `tags`, which is the whole value, or a part of one in braces."""
    for token in tokens:
        if token.kind == "text" and is_in:
            yield text_of(token).decode("utf-8", "replace")
        elif token.kind == "word":
            is_in = token.text == "tags"


def _default(tokens: list[ProtoToken]) -> _Default:
    if not tokens:
        raise ProtoError("A default has no value")
    if tokens[0].kind == "text":
        return b"".join(map(text_of, tokens))
    sign, last = (-1 if tokens[0].text == "-" else 1), tokens[-1]
    if last.kind == "number":
        try:
            return sign * number_of(last)
        except ProtoError:
            return sign * _fraction(last)
    if last.text in ("inf", "nan"):
        return sign * float(last.text)
    return last.text


def _fraction(token: ProtoToken) -> float:
    try:
        return float(token.text.rstrip("fF"))
    except ValueError:
        raise ProtoError(f"Line {token.line} has {token.text!r} instead of a number") from None


def _skip_statement(tokens: Tokens) -> None:
    tokens.until(";")
    tokens.expect(";")


def _skip_block(tokens: Tokens) -> None:
    tokens.expect("{")
    tokens.until("}")
    tokens.expect("}")


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
