"""An Iceberg schema as one DuckDB SELECT that gives typed values and says of each row whether they are proven exact.

Every struct is one level: `json_transform` gives its fields as raw text (VARCHAR) or as JSON text (JSON, which still
shows whether a value was a string), `try_cast` types them, and a proof says that the typed value is the text. A row
without a proof is not wrong: it goes to the exact converter. What DuckDB does too kindly fails its proof.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.convert.fields import ALL_FIELDS, Fields
from calve.convert.schema import VariantType

__all__ = ["Leaf", "Level", "Select", "compile_select", "distinct", "literal"]


@dataclass(frozen=True)
class Leaf:
    """A column of the SELECT's result: a primitive, list or map, or (with `level`) a struct's presence."""

    column: str
    kind: iceberg.IcebergType
    level: Level | None = None


@dataclass
class Level:
    """One struct: its fields' leaves, in order, and the SQL of its JSON text and of what it is transformed to."""

    text: str
    alias: str
    path: tuple[str, ...] = ()
    names: list[str] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)


@dataclass(frozen=True)
class Select:
    """The compiled statement over a relation `events` with the column `json`.

    Attributes:
        sql: Gives, for events that are not NULL, the leaves' columns and `ok` (BOOLEAN): what it types is proven.
        keys_sql: Gives, for `odd` events, one column of key lists per level (NULL: the struct is absent).
        root: The levels as a tree, to build the structs again.
        levels: All levels in the order of the columns of `keys_sql`.
        strings: The string columns of the result, raw, with the fields that lead to them; `proof.finish` proves them.
        quoted_sql: Gives, for few events, of each string column whether its value is a JSON string.
        texts: The columns of the result that are still text, though strings they shall not be; `proof.finish` types
            them.
        long_digits: Whether numbers of more than 15 digits need the exact converter (there are decimals).
        fields: The fields that are read; the columns of all others are NULL.
        is_flat: Whether there are neither structs, lists nor maps.
        scale: The digits of a second that numbers count in columns of timestamps; None: they cannot be proven.
    """

    sql: str
    keys_sql: str
    root: Level
    levels: list[Level]
    strings: dict[str, tuple[str, ...]]
    quoted_sql: str
    texts: dict[str, iceberg.IcebergType]
    long_digits: bool
    fields: Fields
    is_flat: bool
    scale: int | None = 3


_READABLE = "(SELECT * FROM events WHERE json IS NOT NULL)"


def compile_select(schema: Schema, fields: Fields = ALL_FIELDS, timestamp_unit: str = "ms") -> Select | None:
    """Compile a schema, or give None where DuckDB cannot hold it.

    That is so of names of which two differ by case only, of none at all, and of variants, which need the exact text.
    """
    maker = _Maker(fields)
    root = maker.level(schema.as_struct(), "json", ())
    if not maker.possible:
        return None
    keys = ["json_keys(json) AS k0"]
    levels = [level for depth in maker.depths for level in depth]
    keys += [f"json_keys({level.text}) AS k{i}" for i, level in enumerate(levels) if i]
    proof = " AND ".join(maker.proofs) or "true"
    return Select(
        f"SELECT {', '.join(maker.values)}, coalesce({proof}, false) AS ok FROM {maker.source(_READABLE)}",
        f"SELECT {', '.join(keys)} FROM {maker.source()}",
        root,
        levels,
        maker.paths,
        f"SELECT {', '.join(maker.strings.values()) or 'NULL'} FROM {maker.source(raw='JSON')}",
        maker.texts,
        maker.long_digits,
        fields,
        all(isinstance(each.field_type, iceberg.PrimitiveType) for each in schema.fields),
        {"s": 0, "ms": 3, "us": 6}.get(timestamp_unit),
    )


def distinct(names: list[str]) -> bool:
    """Whether DuckDB can tell names apart: it ignores case, and reads none that is empty or holds a NUL."""
    return len({name.lower() for name in names}) == len(names) and all(name and "\0" not in name for name in names)


def literal(text: str) -> str:
    """Quote a text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _transform(text: str, spec: dict[str, str], raw: str) -> str:
    return f"json_transform({text}, {literal(json.dumps({name: kind or raw for name, kind in spec.items()}))})"


class _Maker:
    """Collects the parts of the statement while it walks the schema."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.values: list[str] = []
        self.proofs: list[str] = []
        self.depths: list[list[Level]] = []
        self.specs: dict[str, dict[str, str]] = {}
        self.strings: dict[str, str] = {}
        self.paths: dict[str, tuple[str, ...]] = {}
        self.texts: dict[str, iceberg.IcebergType] = {}
        self.possible = True
        self.long_digits = False

    def source(self, relation: str = "events", raw: str = "VARCHAR") -> str:
        """Give a relation with all levels; raw texts come as this type."""
        for depth in self.depths:
            added = [f"{_transform(level.text, self.specs[level.alias], raw)} AS {level.alias}" for level in depth]
            relation = f"(SELECT *, {', '.join(added)} FROM {relation})"
        return relation

    def level(self, kind: iceberg.StructType, text: str, path: tuple[str, ...]) -> Level:
        depth = len(path)
        if depth == len(self.depths):
            self.depths.append([])
        level = Level(text, f"s{len(self.specs)}", path)
        self.depths[depth].append(level)
        spec = self.specs[level.alias] = {}
        level.names = [each.name for each in kind.fields]
        if not level.names or not distinct(level.names):
            self.possible = False
            return level
        for each in kind.fields:
            if depth == 0 and each.name not in self.fields:
                level.leaves.append(self._left_out(each))
                continue
            self.possible &= not isinstance(each.field_type, VariantType)
            spec[each.name] = _leaf_type(each.field_type)
            raw = f"struct_extract({level.alias}, {literal(each.name)})"
            if spec[each.name]:
                raw = f"CAST({raw} AS VARCHAR)"
            level.leaves.append(self._leaf(each, raw, (*path, each.name)))
        self.possible &= bool(spec)
        return level

    def _left_out(self, each: iceberg.NestedField) -> Leaf:
        column = f"c{len(self.values)}"
        self.values.append(f"NULL AS {column}")
        if each.required:
            self.proofs.append("false")
        return Leaf(column, each.field_type)

    def _leaf(self, each: iceberg.NestedField, raw: str, path: tuple[str, ...]) -> Leaf:
        column, kind = f"c{len(self.values)}", each.field_type
        if isinstance(kind, iceberg.StructType):
            self.values.append(f"{raw} IS NOT NULL AS {column}")
            absent = "" if each.required and len(path) == 1 else f"{raw} IS NULL OR "
            self.proofs.append(f"({absent}starts_with({raw}, '{{'))")
            below = self.level(kind, raw, path)
            if any(inner.required for inner in kind.fields):
                self._require(raw, below, kind)
            return Leaf(column, kind, below)
        value, proof = _typed(kind, raw)
        self.values.append(f"{value} AS {column}")
        required = each.required and len(path) == 1
        if proof != "true":
            self.proofs.append(proof if required else f"({raw} IS NULL OR ({proof}))")
        elif required:
            self.proofs.append(f"{raw} IS NOT NULL")
        if isinstance(kind, iceberg.StringType):
            self.paths[column] = path
            self.strings[column] = f"coalesce(starts_with({raw}::VARCHAR, '\"'), false) AS {column}"
        elif proof == "true":
            self.texts[column] = kind
        self.long_digits |= isinstance(kind, iceberg.DecimalType)
        return Leaf(column, kind)

    def _require(self, raw: str, below: Level, kind: iceberg.StructType) -> None:
        for inner in kind.fields:
            if inner.required:
                found = f"struct_extract({below.alias}, {literal(inner.name)})"
                self.proofs.append(f"({raw} IS NULL OR {found} IS NOT NULL)")


def _leaf_type(kind: iceberg.IcebergType) -> str:
    """Give the type that shows enough of a value: JSON, or nothing for its raw text."""
    plain = (iceberg.StringType, iceberg.IntegerType, iceberg.LongType, iceberg.BooleanType)
    return "" if isinstance(kind, plain) else "JSON"


def _typed(kind: iceberg.IcebergType, raw: str) -> tuple[str, str]:
    """Give the SQL of the typed value and of its proof, for a raw value that is not NULL."""
    bare = f"substr({raw}, 2, strlen({raw}) - 2)"
    match kind:
        case iceberg.DecimalType():
            return _decimal(kind, raw)
        case iceberg.UUIDType():
            hexed = f"replace({bare}, '-', '')"
            proof = f"regexp_full_match({raw}, '\"[0-9a-fA-F]{{8}}(-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}\"')"
            return f"CASE WHEN {proof} THEN unhex({hexed}) END", proof
        case iceberg.BinaryType() | iceberg.FixedType():
            value = f"CASE WHEN starts_with({raw}, '\"') THEN try(from_base64({bare})) END"
            if isinstance(kind, iceberg.FixedType):
                value = f"CASE WHEN octet_length({value}) = {len(kind)} THEN {value} END"
            return value, f"to_base64({value}) = {bare}"
        case iceberg.ListType() | iceberg.MapType():
            return _nested(kind, raw)
        case iceberg.UnknownType():
            return "NULL", "false"
        case iceberg.DateType():
            return _date(raw, bare)
        case iceberg.TimeType():
            return _time(raw, bare)
    return raw, "true"  # what is plain: `proof.finish`


def _decimal(kind: iceberg.DecimalType, raw: str) -> tuple[str, str]:
    value = f"try_cast(trim({raw}, '\"') AS DECIMAL({kind.precision}, {kind.scale}))"
    fraction = f"(\\.[0-9]{{1,{kind.scale}}}0?)?" if kind.scale else "(\\.0)?"
    form = f"regexp_full_match({raw}, '-?[0-9]+{fraction}|\"-?[0-9]+{fraction}\"')"
    tiny = f"CASE WHEN {raw} = '0.0' OR {raw} = '-0.0' THEN NOT regexp_matches(json, '[eE]-') ELSE true END"
    return value, f"{value} IS NOT NULL AND {form} AND {tiny}"


def _date(raw: str, bare: str) -> tuple[str, str]:
    text, whole = f"starts_with({raw}, '\"')", f"regexp_full_match({raw}, '-?[0-9]{{1,5}}|[0-9]{{6}}')"
    iso = f"try_cast({bare} AS DATE)"
    value = f"CASE WHEN {text} THEN {iso} WHEN {whole} THEN DATE '1970-01-01' + try_cast({raw} AS INTEGER) END"
    form = f"{_form(raw, '[0-9]{4}-[0-9]{2}-[0-9]{2}')} AND NOT starts_with({raw}, '\"0000') AND {iso} IS NOT NULL"
    return value, f"CASE WHEN {text} THEN {form} ELSE {whole} END"


def _time(raw: str, bare: str) -> tuple[str, str]:
    form = _form(raw, r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?")
    return f"CASE WHEN {form} THEN try_cast({bare} AS TIME) END", form


def _form(raw: str, pattern: str) -> str:
    return f"regexp_full_match({raw}, '\"{pattern}\"')"


def _nested(kind: iceberg.IcebergType, raw: str) -> tuple[str, str]:
    """Lists and maps of plain values: the typed value, printed as JSON again, is the text."""
    spec = _spec(kind)
    if spec is None:
        return "NULL", "false"
    value = f"json_transform({raw}, {literal(json.dumps(spec))})"
    return value, f"to_json({value})::VARCHAR = {raw}"


_PLAIN: dict[type[iceberg.IcebergType], str] = {
    iceberg.BooleanType: "BOOLEAN",
    iceberg.IntegerType: "INTEGER",
    iceberg.LongType: "BIGINT",
    iceberg.DoubleType: "DOUBLE",
    iceberg.StringType: "VARCHAR",
}


def _spec(kind: iceberg.IcebergType) -> object | None:
    """Give the structure for `json_transform` of what prints again as it was read; None for anything else."""
    match kind:
        case iceberg.ListType() if not kind.element_required:
            element = _spec(kind.element_type)
            return None if element is None else [element]
        case iceberg.MapType() if not kind.value_required and isinstance(kind.key_type, iceberg.StringType):
            value = _PLAIN.get(type(kind.value_type))
            return None if value is None else f"MAP(VARCHAR, {value})"
        case iceberg.StructType() if not any(each.required for each in kind.fields):
            specs = {each.name: _spec(each.field_type) for each in kind.fields}
            return None if None in specs.values() or not specs or not distinct(list(specs)) else specs
    return _PLAIN.get(type(kind))
