"""Decodes batches of values with a schema to typed rows; runs on executors.

With a registry each value begins with a magic byte, 0, and the id of its schema in four bytes. With a given schema it
has nothing before it. All versions of a schema in a batch become one batch, in the order of the events.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.arrays import RowNumbers, text_buffers
from calve.errors import SourceError
from calve.event.columns import EVENT, KEY, MALFORMED, ORIGINAL, ROW, SCHEMA, TYPED
from calve.event.duckdb_session import one_array
from calve.event.envelope.decoder import RECORD_KEY
from calve.event.envelope.shape import SHAPES
from calve.event.reject import Code, Reject, cut, rejects_table
from calve.event.typed import with_text
from calve.event.validate_json import whole_array
from calve.serde.format import DecodedPart, DecodePlan, UnsupportedSchemaError, WriterSchema
from calve.serde.formats import format_of
from calve.serde.registry import Registry
from calve.serde.settings import Serde
from calve.serde.tags import TaggedPlan
from calve.serde.unify import joined

__all__ = ["DecodedRows", "SchemaDecoder", "check"]

_HEADER_BYTES = 5
_FORGET_SECONDS = 10.0
"""How long an unknown id is not asked for again; it may be registered by then."""
_MOST_UNKNOWN = 10_000


class DecodedRows(NamedTuple):
    """A batch after decoding.

    Attributes:
        rows: In the order of the events: `_typed` and `_schema` (for JSON `event` and `_schema`), the original value as
            `_original`, and the metadata of the input.
        rejects: The values that cannot be decoded (`REJECTS`).
    """

    rows: pa.Table
    rejects: pa.Table


class SchemaDecoder:
    """Decodes the batches of one task.

    Args:
        serde: The format, and where the schemas are.
    """

    def __init__(self, serde: Serde) -> None:
        self._serde = serde
        self._plans = _plans(serde)

    def decode(self, events: pa.Table, as_text: bool = False) -> DecodedRows:
        """Decode a table with the column `event` (and perhaps `malformed`).

        With `as_text` rows are texts, which lack what their own schema lacks; as columns it is null beside other rows.
        Of changes and of keyed rows a row without a value stays null. `kafka_key` becomes its text, or JSON, if it has
        an id of a schema; this schema is in `_key` for keyed rows.

        Raises:
            SourceError: The registry does not answer, or refuses.
        """
        values = whole_array(events[EVENT])
        reasons = events[MALFORMED].to_pylist() if MALFORMED in events.column_names else []
        rejects = [Reject(row, Code.MALFORMED, "", reason) for row, reason in enumerate(reasons) if reason is not None]
        waiting = values.is_valid().to_numpy(zero_copy_only=False).copy()
        parts: list[DecodedPart] = []
        is_change = self._serde.format in SHAPES
        if is_change or self._serde.schema.key_format != "text":
            events, refused = self._with_keys(events, self._serde.format if is_change else self._key_format)
            rejects += [] if is_change else [reject for reject in refused if not reasons or reasons[reject.row] is None]
        gone = set(np.flatnonzero(~waiting).tolist()) - {reject.row for reject in rejects}
        if is_change or self._serde.is_keyed:
            parts += [DecodedPart(np.array(sorted(gone)), pa.nulls(len(gone), pa.binary()), "")] if gone else []
        else:
            rejects += [Reject(row, Code.MALFORMED, "", "the record has no value") for row in gone]
        waiting[[reject.row for reject in rejects]] = False
        for plan, at, start in self._planned(values, np.flatnonzero(waiting), rejects):
            decoded = plan.decode(values if len(at) == len(values) else values.take(pa.array(at)), start)
            as_text |= self._serde.is_keyed  # they are joined with their keys
            parts += [_placed(part, at, as_text) for part in decoded.parts if len(part.at)]
            rejects += [Reject(int(at[fault.row]), Code.UNDECODABLE, "", cut(fault.reason)) for fault in decoded.faults]
        return DecodedRows(_with_parts(events, parts), rejects_table(rejects))

    @property
    def _key_format(self) -> str:
        given = self._serde.schema.key_format
        return "avro_key" if given == "avro" else given

    def _with_keys(self, events: pa.Table, format: str) -> tuple[pa.Table, list[Reject]]:
        """Return a table with decoded keys, and why a key with an id stays as it is; so does a key without an id."""
        if self._plans.registry is None or RECORD_KEY not in events.column_names:
            return events, []
        keys = events[RECORD_KEY].to_pylist()
        framed = {row: value for row, key in enumerate(keys) if (value := _framed(key)) is not None}
        if not framed:
            return events, []
        decoder = SchemaDecoder(
            replace(
                self._serde,
                format=format,
                schema=replace(self._serde.schema, version="latest", key_format="text", validate=False),
            )
        )
        at, values = list(framed), pa.array(framed.values(), pa.binary())
        decoded = decoder.decode(pa.table({EVENT: values, ROW: at}))
        rows = with_text(decoded.rows)
        for row, text in zip(rows[ROW].to_pylist(), rows[EVENT].to_pylist(), strict=True):
            keys[row] = None if text is None else text.decode()
        refused = [
            Reject(at[reject["row"]], Code(reject["code"]), "", f"the key: {reject['reason']}")
            for reject in decoded.rejects.to_pylist()
        ]
        column = pa.array(keys, pa.string())
        events = events.set_column(events.column_names.index(RECORD_KEY), RECORD_KEY, column)
        if self._serde.is_keyed and format not in SHAPES:  # keys of envelopes have their schemas in their texts
            codes, declared = np.full(len(events), -1, np.int32), one_array(rows[SCHEMA].unify_dictionaries())
            codes[rows[ROW].to_numpy()] = declared.indices.to_numpy()
            indices = pa.array(codes, mask=codes < 0)
            events = events.append_column(KEY, pa.DictionaryArray.from_arrays(indices, declared.dictionary))
        return events, refused

    def _planned(
        self, values: pa.Array, rows: RowNumbers, rejects: list[Reject]
    ) -> Iterator[tuple[DecodePlan, RowNumbers, int]]:
        """Yield the plans of values, with the positions of theirs; reject those without one."""
        if self._plans.registry is None:
            for plan, at in self._with_plan(-1, rows, rejects):
                yield plan, at, 0
            return
        ids, has_id = _ids(values, rows)
        for row in rows[~has_id].tolist():
            rejects.append(Reject(row, Code.UNDECODABLE, "", _no_header(values[row].as_py())))
        rows, ids = rows[has_id], ids[has_id]
        for number in np.unique(ids).tolist():
            for plan, at in self._with_plan(number, rows[ids == number], rejects):
                yield plan, at, _HEADER_BYTES

    def _with_plan(self, number: int, at: RowNumbers, rejects: list[Reject]) -> Iterator[tuple[DecodePlan, RowNumbers]]:
        plan = self._plans.of(number) if len(at) else None
        if isinstance(plan, str):
            rejects += [Reject(row, Code.UNKNOWN_SCHEMA, "", plan) for row in at.tolist()]
        elif plan is not None:
            yield plan, at


def check(serde: Serde) -> None:
    """Check that the schemas of a source can be had and used; for `validate --connect`.

    Raises:
        SourceError: The registry does not answer or refuses, or it lacks a schema, or Calve cannot use it.
    """
    plans = _Plans(serde)
    for subject in serde.subjects:
        schema = plans.registry.version(subject, serde.schema.version) if plans.registry else plans.given
        if schema is None:
            hint = "Register one, or set `subject`; records with the id of any other subject are read, too"
            text = f"The schema registry has no schema of the subject {subject}, version {serde.schema.version}"
            raise SourceError(text, step="connect", target=subject, hint=hint)
        if isinstance(plan := plans.plan(schema), str):
            hint = "Correct it; otherwise its events become dead letters"
            raise SourceError(f"The events of {subject}: {plan}", step="connect", target=subject, hint=hint)


class _Plans:
    """The plans of one source's schemas, by their ids; -1: the given schema."""

    def __init__(self, serde: Serde) -> None:
        self.registry = Registry(serde.schema) if serde.schema.registry_url else None
        self._serde = serde
        self._format = format_of(serde.format, serde.schema.validate)
        self._plans: dict[int, DecodePlan | str] = {}
        self._unknown: dict[int, float] = {}
        self._reader: WriterSchema | None = None

    def of(self, number: int) -> DecodePlan | str:
        """Return the plan of a schema, or the reason why there is none.

        Raises:
            SourceError: The registry does not answer, or refuses.
        """
        if number not in self._plans:
            if time.monotonic() < self._unknown.get(number, 0):
                return _no_schema(number)
            schema = self.registry.schema(number) if self.registry else self.given
            if schema is None:
                if len(self._unknown) >= _MOST_UNKNOWN:
                    self._unknown.clear()
                self._unknown[number] = time.monotonic() + _FORGET_SECONDS
                return _no_schema(number)
            self._plans[number] = self.plan(schema)
        return self._plans[number]

    @property
    def given(self) -> WriterSchema:
        """The schema of the settings, where there is no registry."""
        return WriterSchema(str(self._serde.schema.inline_schema), kind=_KINDS[self._serde.format])

    def plan(self, schema: WriterSchema) -> DecodePlan | str:
        """Compile a schema; return the reason if it cannot be used."""
        kind, where = _KINDS[self._serde.format], f"the schema {schema.id}" if schema.id >= 0 else "the schema"
        if schema.kind != kind:
            return f"{where} is of type {schema.kind}, not {kind}"
        registry = self.registry
        try:
            reader = self._reading(registry) if registry else None
            plan = self._format.plan(schema, reader, lambda: registry.earlier(schema.id) if registry else [])
            tags = (*schema.tags, *(reader.tags if reader else ()))
            return TaggedPlan(plan, tags) if tags else plan
        except UnsupportedSchemaError as error:
            return f"{where} cannot be used: {error}"

    def _reading(self, registry: Registry) -> WriterSchema | None:
        """Return the schema whose fields are the columns, if the settings choose a version."""
        version = self._serde.schema.version
        if version != "latest" and self._reader is None:
            subject = self._serde.subjects[0]
            self._reader = registry.version(subject, version)
            if self._reader is None:
                raise UnsupportedSchemaError(f"the registry has no version {version} of {subject}")
        return self._reader


_KINDS = {"avro": "AVRO", "avro_key": "AVRO", "debezium": "AVRO", "json_schema": "JSON", "protobuf": "PROTOBUF"}


@lru_cache(16)
def _plans(serde: Serde) -> _Plans:
    """Return the plans of this process: schemas are asked for once, not in each task."""
    return _Plans(serde)


def _ids(values: pa.Array, rows: RowNumbers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the id of the schema of each of these values, and whether it has one."""
    starts, data = text_buffers(values)
    bytes_of = np.frombuffer(data, np.uint8)
    at, ends = starts[rows].astype(np.int64), starts[rows + 1].astype(np.int64)
    has_id = ends - at >= _HEADER_BYTES
    at = np.where(has_id, at, 0)
    if not len(bytes_of):
        return np.zeros(len(rows), np.int64), has_id
    last = len(bytes_of) - 1
    header = [bytes_of[np.minimum(at + number, last)].astype(np.int64) for number in range(_HEADER_BYTES)]
    ids = (header[1] << 24) | (header[2] << 16) | (header[3] << 8) | header[4]
    return ids, has_id & (header[0] == 0)


def _framed(key: str | None) -> bytes | None:
    """Return the bytes of a key with an id; a source has keys as text, in Base64 if they are not UTF-8."""
    if key is None or not key.startswith(("\0", "A")):
        return None
    try:
        data = key.encode() if key.startswith("\0") else base64.b64decode(key, validate=True)
    except ValueError:
        return None
    return data if len(data) > _HEADER_BYTES and not data[0] else None


def _no_header(value: bytes) -> str:
    if len(value) < _HEADER_BYTES:
        return f"the value has {len(value)} bytes: no magic byte and schema id before it"
    return f"the value begins with the byte {value[0]:#04x}, not with the magic byte 0 and a schema id"


def _no_schema(number: int) -> str:
    return f"the schema registry has no schema with the id {number}"


def _placed(part: DecodedPart, at: RowNumbers, as_text: bool) -> DecodedPart:
    """Return a part with the positions of its values in the batch."""
    return part._replace(at=at[part.at], rows=_as_text(part.rows) if as_text else part.rows)


def _as_text(rows: pa.Array) -> pa.Array:
    return whole_array(with_text(pa.table({TYPED: rows}))[EVENT]) if pa.types.is_struct(rows.type) else rows


def _with_parts(events: pa.Table, parts: list[DecodedPart]) -> pa.Table:
    """Return decoded values in the order of the events, with their metadata."""
    rows = events.drop_columns([name for name in (MALFORMED, SCHEMA) if name in events.column_names])
    rows = rows.rename_columns([ORIGINAL if name == EVENT else name for name in rows.column_names])
    if not parts:
        return rows.slice(0, 0).append_column(EVENT, pa.array([], pa.binary()))
    values = parts[0].rows if len(parts) == 1 else joined([part.rows for part in parts])
    if values is None:  # a field changed its type: only its text holds all of its values
        values = pa.concat_arrays([_as_text(part.rows) for part in parts])
    numbers = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part.at) for part in parts])
    at = np.concatenate([part.at for part in parts])
    if len(parts) > 1:
        order = np.argsort(at, kind="stable")
        values, numbers, at = values.take(pa.array(order)), numbers[order], at[order]
    rows = rows if len(at) == len(rows) else rows.take(pa.array(at))
    texts = [part.declaration for part in parts if part.declaration]
    codes = np.array([texts.index(part.declaration) if part.declaration else -1 for part in parts], np.int32)[numbers]
    declared = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(texts, pa.string()))
    rows = rows.add_column(0, TYPED if pa.types.is_struct(values.type) else EVENT, values)
    return rows.append_column(SCHEMA, declared)
