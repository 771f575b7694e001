"""The exact converter: one event at a time. It alone decides about rejects, nulls and unusual values.

The compiled core takes only events that certainly fit (`calve.compiled`); all others, or without a core all events,
come here. Readers are closures, compiled once per table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.node import Kind, Node
from calve.columns.options import ConvertOptions
from calve.columns.unknown_fields import finder
from calve.columns.widen import needed, widest
from calve.convert.scalar import MismatchError, Read, Rounded, bad, null_value, reader
from calve.event.column_names import folded
from calve.event.envelope.shape import WRAPPED
from calve.event.exact_json import MalformedError, parse_object
from calve.event.reject import Code, Reject
from calve.event.repeated import RepeatedKeys

__all__ = ["Exact", "ExactResult", "rounded"]


class _RejectedError(Exception):
    """The event is rejected; the message is the reason."""

    def __init__(self, code: Code, field: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.field = field


class _AmbiguousError(_RejectedError):
    """Two fields of an object match the same column when case is ignored; each level adds its step to the path."""

    def __init__(self, column: str, first: str, second: str) -> None:
        super().__init__(Code.AMBIGUOUS_FIELD, column, f"{first!r} and {second!r} are the same when case is ignored")

    def below(self, step: str) -> _AmbiguousError:
        """Add a step at the start of the path."""
        self.field = f"{step}.{self.field}"
        return self


class _DeepMismatchError(MismatchError):
    """A mismatch inside a nested value; `path` is its path below the column."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(cause)
        self.path = path


@dataclass(frozen=True)
class _Column:
    name: str
    required: bool
    read: Read
    null: Any
    wider: Callable[[Any], list[Node]]


@dataclass
class ExactResult:
    """The result of the exact conversion.

    Attributes:
        columns: The good rows' values per column, in the order of the schema.
        rows: The positions of the good rows.
        rejects: The rejected events.
        nulled: Values that cannot be converted and became null: position of each, and column with reason.
        unknown_rows: The positions of events that may have fields without a column.
        wider: Values that fit only a wider column: position, and the needed type (`widen.needed`).
        ignored: The good rows with fields without a column, if these are counted, with repeated keys, or with rounded
            times: positions and dotted paths. Of a repeated key only the last value is written.
    """

    columns: list[tuple[Any, ...]]
    rows: list[int]
    rejects: list[Reject]
    nulled: list[tuple[int, tuple[str, str]]]
    unknown_rows: list[int]
    wider: list[tuple[int, Node]]
    ignored: list[tuple[int, tuple[str, ...]]]


class Exact:
    """Converts parsed events for one schema.

    Args:
        schema: The table's schema.
        options: How to convert.
    """

    def __init__(self, schema: Schema, options: ConvertOptions) -> None:
        self._names = _Names([field.name for field in schema.fields], options.case_insensitive)
        self._columns = [
            _column(field, wide, options) for field, wide in zip(schema.fields, widest(schema).fields, strict=True)
        ]
        self._is_flat = all(isinstance(field.field_type, iceberg.PrimitiveType) for field in schema.fields)
        self._reject_mismatches = options.on_type_mismatch == "dlq"
        self._declared = options.declared
        self._fields = options.fields
        self._may_lack = options.may_lack
        self._ignored = finder(schema.as_struct(), options.case_insensitive) if options.count_ignored else None
        self._repeated = RepeatedKeys()
        columns = enumerate(schema.fields) if options.timestamp_unit else ()
        self._rounding = [at for at, field in columns if _has_times(field.field_type)]

    def convert(self, texts: Iterable[tuple[int, bytes | str | None]]) -> ExactResult:
        """Convert events, as pairs of position and text."""
        outcome, good = ExactResult([], [], [], [], [], [], []), []
        for row, text in texts:
            nulled: list[tuple[str, str]] = []
            wider: list[Node] = []
            try:
                event = self._event(text)
                values = self._values(event, nulled, wider)
            except _RejectedError as error:
                outcome.wider += [(row, node) for node in wider]
                outcome.rejects.append(Reject(row, error.code, error.field, str(error)))
                if error.code is Code.NO_MATCHING_FIELDS:
                    outcome.unknown_rows.append(row)
                continue
            if not (self._is_flat and event.keys() <= self._names.names):
                outcome.unknown_rows.append(row)
            if not_written := self._not_written(event, values):
                outcome.ignored.append((row, not_written))
            outcome.nulled += [(row, loss) for loss in nulled]
            outcome.wider += [(row, node) for node in wider]
            outcome.rows.append(row)
            good.append(values)
        outcome.columns += zip(*good, strict=True) if good else [()] * len(self._columns)
        return outcome

    def value(self, number: int, text: bytes) -> tuple[Any, str | None, list[Node]]:
        """Convert one value, as JSON text, of an optional column in which values that do not fit become null.

        Returns:
            The value, the reason if it became null, and the needed types as in `ExactResult.wider`.
        """
        column, value = self._columns[number], parse_object(b'{"":%b}' % text)[""]
        try:
            return column.read(value), None, []
        except MismatchError as error:
            return None, str(error), column.wider(value)

    def _event(self, text: bytes | str | None) -> dict[str, Any]:
        """Parse an event, and rename its fields to the columns."""
        try:
            event = self._names.match(self._fields.of(self._repeated.parse(text)))
        except MalformedError as error:
            raise _RejectedError(Code.MALFORMED, "", str(error)) from None
        if event.keys().isdisjoint(self._names.names):
            hint = f": {WRAPPED}" if event.keys() == {"schema", "payload"} else ""
            raise _RejectedError(Code.NO_MATCHING_FIELDS, "", f"no field of the event has a column{hint}")
        return event

    def _not_written(self, event: dict[str, Any], values: list[Any]) -> tuple[str, ...]:
        """Return the fields without a column, if they are counted, the repeated keys, and the rounded times."""
        fields = dict.fromkeys(self._ignored(event) if self._ignored else ())
        fields |= dict.fromkeys(rounded(self._columns[at].name) for at in self._rounding if _is_rounded(values[at]))
        repeated = [name for name in self._repeated.top if name in self._fields]
        repeated += self._repeated.within(event[column.name] for column in self._columns if column.name in event)
        return (*fields, *dict.fromkeys(f"{name} (repeated)" for name in repeated))

    def _values(self, event: dict[str, Any], nulled: list[tuple[str, str]], wider: list[Node]) -> list[Any]:
        values = []
        for column in self._columns:
            value = event.get(column.name)
            if value is not None:
                try:
                    value = column.read(value)
                except (MismatchError, _AmbiguousError) as error:
                    wider += column.wider(value)
                    self._mismatch(column, error, nulled)
                    value = None
            elif column.required and (column.name in event or column.name not in self._may_lack):
                why = "is null" if column.name in event else "is missing"
                raise _RejectedError(Code.REQUIRED_MISSING, column.name, f"a required field {why}")
            elif column.name in event:
                value = column.null
            values.append(value)
        return values

    def _mismatch(self, column: _Column, error: MismatchError | _AmbiguousError, nulled: list[tuple[str, str]]) -> None:
        """Replace a value that cannot be converted by null, or reject its event."""
        if isinstance(error, _AmbiguousError):
            raise error.below(column.name)
        path = getattr(error, "path", "")
        if column.required or (self._reject_mismatches and column.name not in self._declared):
            raise _RejectedError(Code.NOT_COERCIBLE, f"{column.name}{path}", str(error)) from None
        nulled.append((column.name, f"{path[1:]}: {error}" if path else str(error)))


def _column(field: iceberg.NestedField, wide: iceberg.NestedField, options: ConvertOptions) -> _Column:
    options = options.of_column(field.name)
    read, null = _compile(field.field_type, options), null_value(field.field_type)
    widens = options.look_for_unknown and field != wide
    wider = _wider(field, wide.field_type, options) if widens else lambda value: []
    return _Column(field.name, field.required, read, null, wider)


def _wider(
    field: iceberg.NestedField, wide: iceberg.IcebergType, options: ConvertOptions
) -> Callable[[Any], list[Node]]:
    """Compile a function that returns the wider column that a value needs."""
    read = _compile(wide, options)

    def find(value: Any) -> list[Node]:
        try:
            return [Node(Kind.STRUCT, {field.name: needed(read(value), field.field_type)})]
        except (MismatchError, _AmbiguousError):
            return []

    return find


def rounded(column: str) -> str:
    """Return how a column is counted in which a time was rounded."""
    return f"{column} (rounded)"


def _is_rounded(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_rounded, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_rounded, value))
    return type(value) is Rounded


def _has_times(kind: iceberg.IcebergType) -> bool:
    return "timestamp" in str(kind)


class _Names:
    """Matches the fields of an object to columns."""

    def __init__(self, names: list[str], case_insensitive: bool) -> None:
        self.names = frozenset(names)
        self._folded: dict[str, list[str]] | None = None
        if case_insensitive:
            self._folded = {}
            for name in names:
                self._folded.setdefault(folded(name), []).append(name)

    def match(self, event: dict[str, Any]) -> dict[str, Any]:
        """Rename the fields of an object to the columns."""
        if self._folded is None or event.keys() <= self.names:
            return event
        origin = {name: name for name in event if name in self.names}
        for name in event:
            if name in self.names:
                continue
            columns = self._folded.get(folded(name), ())
            if len(columns) > 1:
                raise _AmbiguousError(name, columns[0], columns[1])
            for column in columns:
                if column in origin:
                    raise _AmbiguousError(column, origin[column], name)
                origin[column] = name
        matched = {column: event[name] for column, name in origin.items()}
        rest = {name: value for name, value in event.items() if name not in matched}
        return {**rest, **matched}


def _compile(kind: iceberg.IcebergType, options: ConvertOptions) -> Read:
    match kind:
        case iceberg.StructType():
            return _struct(kind, options)
        case iceberg.ListType():
            return _list(kind, options)
        case iceberg.MapType():
            return _map(kind, options)
    return reader(kind, options)


def _struct(kind: iceberg.StructType, options: ConvertOptions) -> Read:
    names = _Names([field.name for field in kind.fields], options.case_insensitive)
    fields = [
        (field.name, field.required, _compile(field.field_type, options), null_value(field.field_type))
        for field in kind.fields
    ]

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise bad(value, "struct")
        value = names.match(value)
        values = {}
        for name, required, read_field, null in fields:
            item = value.get(name)
            if item is not None:
                values[name] = _within(f".{name}", read_field, item)
            elif required:
                raise _DeepMismatchError(f".{name}", "a required field is missing or null")
            else:
                values[name] = null if name in value else None
        return values

    return read


def _list(kind: iceberg.ListType, options: ConvertOptions) -> Read:
    read_element = partial(_within, ".element", _compile(kind.element_type, options))
    required, null = kind.element_required, null_value(kind.element_type)

    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            raise bad(value, "list")
        if required and None in value:
            raise _DeepMismatchError(".element", "a required element is null")
        return [null if item is None else read_element(item) for item in value]

    return read


def _map(kind: iceberg.MapType, options: ConvertOptions) -> Read:
    read_key = partial(_within, ".key", _compile(kind.key_type, options))
    read_value = partial(_within, ".value", _compile(kind.value_type, options))
    null = null_value(kind.value_type)

    def read(value: Any) -> list[tuple[Any, Any]]:
        if type(value) is not dict:
            raise bad(value, "map")
        if kind.value_required and None in value.values():
            raise _DeepMismatchError(".value", "a required value is null")
        pairs = [(read_key(key), null if item is None else read_value(item)) for key, item in value.items()]
        if len({key for key, _ in pairs}) < len(pairs):
            raise _DeepMismatchError(".key", "two keys are the same value")
        return pairs

    return read


def _within(step: str, read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except MismatchError as error:
        raise _DeepMismatchError(f"{step}{getattr(error, 'path', '')}", str(error)) from None
    except _AmbiguousError as error:
        raise error.below(step[1:]) from None
