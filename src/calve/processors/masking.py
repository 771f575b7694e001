"""Masks the columns of events, in tasks: typed rows column by column, texts event by event, with equal results.

The text of a value, which a mask gets, is the one that a column of strings would have. So a number in JSON and one in a
typed column have the same hash.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve import structs
from calve.event.columns import EVENT, JSON, MALFORMED, MASKED, ORIGINAL, ROW, SCHEMA, TYPED, WITHHELD
from calve.event.duckdb_session import one_array
from calve.event.envelope.schema import Field, field_of, text_of
from calve.event.reject import Code, Reject, rejects_table
from calve.event.typed import is_typed, joined, with_text
from calve.event.validate_json import HALF_SURROGATE, half_surrogates, validated, whole_array
from calve.processors.column_masking import ColumnMasking
from calve.processors.field_masking import FieldMasking
from calve.processors.fields import decode_event, encode, opened
from calve.processors.mask import TEXT_ACTIONS, ColumnMask, MaskColumns, UnmaskableError

__all__ = ["MaskedRows", "Masker", "Masks", "description"]

Fault = tuple[str, str]
"""A field, and why its value cannot be masked."""
_TOGETHER = _REMEMBERED = 4096
"""The most events that are masked together: they stay in the processor's cache. And the fields whose masks are kept."""
_NUMBER = "_number"
_WITHHELD = "the event cannot be read, so it cannot be masked: its text is withheld (mask: {unmasked: keep} keeps it)"


class MaskedRows(NamedTuple):
    """Events after masking.

    Attributes:
        rows: As they came, with masked values and without the original; marked as masked.
        malformed: Events that are no JSON objects (`REJECTS`); positions in the input.
        failed: Events with a value that cannot be masked (`REJECTS`); positions in `failed_rows`.
        failed_rows: These events, masked; that value is null.
    """

    rows: pa.Table
    malformed: pa.Table
    failed: pa.Table
    failed_rows: pa.Table


@dataclass(frozen=True)
class Masks:
    """The masks of a pipeline; pickled into the tasks.

    Attributes:
        processors: In order.
        attributes: The metadata attributes of the source that have values of rows.
        done: Names of columns that are masked already, in dead letters.
    """

    processors: tuple[MaskColumns, ...]
    attributes: tuple[str, ...] = ()
    done: tuple[str, ...] = ()

    @property
    def keeps_unmasked(self) -> bool:
        """Whether what cannot be masked is kept."""
        return any(processor.unmasked == "keep" for processor in self.processors)

    def of(self, path: str) -> tuple[ColumnMask, MaskColumns] | None:
        """Return the mask of a field, given by its names joined by dots."""
        if self.is_done(path):
            return None
        for processor in self.processors:
            for entry in processor.columns:
                if _matches(path, entry.names):
                    return entry, processor
        return None

    def is_done(self, path: str) -> bool:
        """Return whether a field is masked already."""
        return _matches(path, self.done)

    @property
    def names(self) -> tuple[str, ...]:
        """All names of masked columns, those that are masked already among them."""
        entries = [entry for processor in self.processors for entry in processor.columns]
        return tuple(dict.fromkeys([*self.done, *(name for entry in entries for name in entry.names)]))

    @property
    def has_tags(self) -> bool:
        """Whether a schema decides which columns are masked."""
        return any(entry.tags for processor in self.processors for entry in processor.columns)

    def of_schema(self, declaration: str | None) -> Masks:
        """Return the masks of rows with a schema: the names of its tagged columns are in the place of tags."""
        row = Field("", "struct") if declaration is None else field_of(declaration)
        tagged = [("*", row.tags), *_tagged(row, "")]

        def named(entry: ColumnMask) -> ColumnMask:
            names = [name for name, tags in tagged if not {*tags}.isdisjoint(entry.tags)]
            return replace(entry, names=[*entry.names, *names], tags=[])

        return replace(self, processors=tuple(replace(at, columns=[*map(named, at.columns)]) for at in self.processors))

    @property
    def reaches_inside(self) -> bool:
        """Whether a field of an object may have a mask."""
        return any(not {*name}.isdisjoint(".*?[") for name in self.names)

    @property
    def hidden(self) -> frozenset[str]:
        """The attributes that nobody may read: they have values of rows, and no mask."""
        return frozenset(() if self.keeps_unmasked else (name for name in self.attributes if self.of(name) is None))

    def declared(self, row: Field) -> Field:
        """Return the declaration of masked rows."""
        return replace(row, fields=tuple(self._fields(row.fields, "")))

    def _fields(self, fields: Sequence[Field], prefix: str) -> Iterator[Field]:
        for field in fields:
            path = prefix + field.name
            if (mask := self.of(path)) is None:
                yield self._inside(field, path)
            elif mask[0].action != "drop":
                doc = description(field.doc, *mask)
                is_text = mask[0].action in TEXT_ACTIONS
                yield Field(field.name, "string", doc=doc) if is_text else replace(field, doc=doc)

    def _inside(self, field: Field, path: str) -> Field:
        if field.kind == "struct":
            return replace(field, fields=tuple(self._fields(field.fields, f"{path}.")))
        if field.kind == "array" and field.fields:
            return replace(field, fields=(self._inside(field.fields[0], path), *field.fields[1:]))
        return field


def _tagged(field: Field, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the patterns of the tagged fields inside of a field, with their tags."""
    for number, inner in enumerate(field.fields):
        inner_path = path
        if field.kind == "struct":
            inner_path = f"{path}.{_literal(inner.name)}" if path else _literal(inner.name)
        elif field.kind == "map":
            inner_path = f"{path}.*"
        if inner.tags:
            yield inner_path, inner.tags
        if field.kind == "struct" or number == 0:  # not the keys of a map
            yield from _tagged(inner, inner_path)


def _literal(name: str) -> str:
    """Return a pattern that only a name matches."""
    return re.sub(r"[*?[]", r"[\g<0>]", name)


def _matches(path: str, names: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(path.casefold(), name.casefold()) for name in names)


def description(doc: str, entry: ColumnMask, processor: MaskColumns) -> str:
    """Return the description of a masked column."""
    key = f", key {processor.key_id}" if entry.action == "hash" and processor.key_id else ""
    note = f"masked: {entry.action}{key}"
    return f"{doc} ({note})" if doc else note


class Masker:
    """Masks the events of one task."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._functions: dict[str, ColumnMasking | None] = {}
        self._reaches_inside = masks.reaches_inside
        entries = [(entry, processor) for processor in masks.processors for entry in processor.columns]
        self._fields = FieldMasking(entries, masks.of, self._reaches_inside)
        self._of_schema = functools.lru_cache(64)(lambda text: Masker(masks.of_schema(text)))
        self._declared = functools.lru_cache(256)(lambda text: text_of(masks.declared(field_of(text))))

    def mask(self, events: pa.Table) -> MaskedRows:
        """Mask decoded events: `event` or `_typed`, perhaps `json`, `_schema`, `_original`, `event_masked`."""
        if MASKED in events.column_names and len(events):
            done = tuple(structs.decode(events[MASKED][0].as_py(), list[str]))
            return Masker(replace(self._masks, done=done)).mask(events.drop_columns([MASKED]))
        if self._masks.has_tags:
            return self._by_schema(events)
        masked = self._typed(events) if is_typed(events) else None
        return masked or self._texts(with_text(events))

    def _by_schema(self, events: pa.Table) -> MaskedRows:
        """Mask the events of each schema by its own tags."""
        if SCHEMA not in events.column_names:
            return self._of_schema(None).mask(events)
        column = one_array(events[SCHEMA].unify_dictionaries())
        codes = column.indices.fill_null(-1).to_numpy()
        maskers = {code: self._of_schema(column.dictionary[code].as_py() if code >= 0 else None) for code in {*codes}}
        if len(maskers) < 2:
            return next(iter(maskers.values()), self._of_schema(None)).mask(events)
        every, malformed, failed, failed_rows = [], [], [], list[pa.Table]()
        for code, masker in maskers.items():
            at = pa.array(np.flatnonzero(codes == code))
            masked = masker.mask(events.take(at).append_column(_NUMBER, at))
            every.append(masked.rows)
            malformed.append(masked.malformed.set_column(0, "row", at.take(masked.malformed["row"])))
            before = pa.scalar(sum(map(len, failed_rows)))
            failed.append(masked.failed.set_column(0, "row", pc.add(masked.failed["row"], before)))
            failed_rows.append(masked.failed_rows.drop_columns([_NUMBER]))
        rows = joined(every).combine_chunks()
        rows = rows.take(pa.array(np.argsort(rows[_NUMBER].to_numpy(), kind="stable"))).drop_columns([_NUMBER])
        return MaskedRows(rows, pa.concat_tables(malformed), pa.concat_tables(failed), joined(failed_rows))

    def withheld(self, events: pa.Table, rejects: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return rejected events that cannot be masked without their texts, and `REJECTS` of all of them."""
        if self._masks.keeps_unmasked or not len(rejects):
            return events, rejects
        rows = with_text(events.take(rejects["row"]))
        texts = rows[ORIGINAL if ORIGINAL in rows.column_names else EVENT]
        lengths = pc.binary_length(texts).cast(pa.int64())
        rows = _without(rows, (EVENT, ORIGINAL, JSON, WITHHELD, *self._masks.attributes))
        rows = rows.append_column(EVENT, pa.nulls(len(rows), pa.binary())).append_column(WITHHELD, lengths)
        reasons = [Reject(row, Code(code), "", _WITHHELD) for row, code in enumerate(rejects["code"].to_pylist())]
        return rows, rejects_table(reasons)

    def _texts(self, events: pa.Table) -> MaskedRows:
        is_valid, failed = JSON in events.column_names, dict[int, Fault]()
        rows, malformed, texts = events, rejects_table(()), None
        has_reasons = MALFORMED in events.column_names and events[MALFORMED].null_count < len(events)
        if not (is_valid or has_reasons):
            texts = self._fields.mask(whole_array(events[EVENT]))
        if texts is None or texts.null_count:  # else all are plain objects
            rows, malformed = (events, malformed) if is_valid else validated(events)
            failed |= {row: (field, HALF_SURROGATE) for row, field in half_surrogates(rows).items()}
            texts = self._texts_of(whole_array(rows[JSON]).cast(pa.binary()), failed)
        rows = rows.set_column(rows.column_names.index(EVENT), EVENT, texts)
        if is_valid:
            rows = rows.set_column(rows.column_names.index(JSON), JSON, texts.cast(pa.string()))
        else:
            rows = _without(rows, (JSON, ROW, MALFORMED))
        return self._masked(rows, malformed, failed)

    def _texts_of(self, objects: pa.Array, failed: dict[int, Fault]) -> pa.Array:
        """Return masked objects, and keep the first fault of each that has one: by the core as far as it is certain."""
        parts = [pa.array([], pa.binary())]
        for start in range(0, len(objects), _TOGETHER):
            part = objects.slice(start, _TOGETHER)
            texts = self._fields.mask(part)
            remaining = np.arange(len(part)) if texts is None else np.flatnonzero(texts.is_null())
            if len(remaining):
                events = list(map(decode_event, part.take(pa.array(remaining)).to_pylist()))
                faults = self._objects_inside(events) if self._reaches_inside else self._objects(events)
                failed |= {start + int(remaining[number]): fault for number, fault in faults.items()}
                exact = pa.array(map(encode, events), pa.binary())
                texts = exact if texts is None else pc.replace_with_mask(texts, texts.is_null(), exact)
            parts.append(texts)
        return pa.concat_arrays(parts)

    def _typed(self, events: pa.Table) -> MaskedRows | None:
        """Mask typed rows by columns; None if their texts must be masked."""
        rows, failed = one_array(events[TYPED]), dict[int, Fault]()
        arrays, fields = [], []
        for array, field in zip(rows.flatten(), rows.type, strict=True):
            mask = self._of(field.name)
            if mask is None and self._reaches_inside and self._is_masked_inside(field.type, field.name):
                return None
            if mask is not None and mask.action == "drop":
                continue
            try:
                masked, reasons = (array, {}) if mask is None else mask.column(array)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return None
            for row, why in reasons.items():
                failed.setdefault(row, (field.name, why))
            arrays.append(masked)
            fields.append(field.with_type(masked.type))
        typed = (
            pa.StructArray.from_arrays(arrays, fields=fields) if arrays else pa.array([{}] * len(rows), pa.struct([]))
        )
        at = events.column_names.index(TYPED)
        return self._masked(events.set_column(at, TYPED, typed), rejects_table(()), failed)

    def _masked(self, rows: pa.Table, malformed: pa.Table, failed: Mapping[int, Fault]) -> MaskedRows:
        """Mask the attributes and the declaration of rows, and divide off those that failed."""
        rows = _without(rows, (ORIGINAL, MASKED))
        if SCHEMA in rows.column_names:
            column = one_array(rows[SCHEMA].unify_dictionaries())
            texts = pa.array([self._declared(text) for text in column.dictionary.to_pylist()], pa.string())
            declared = pa.DictionaryArray.from_arrays(column.indices, texts)
            rows = rows.set_column(rows.column_names.index(SCHEMA), SCHEMA, declared)
        names = pa.array([encode(self._masks.names).decode()])
        codes = pa.repeat(pa.scalar(0, pa.int32()), len(rows))
        rows = self._with_attributes(rows).append_column(MASKED, pa.DictionaryArray.from_arrays(codes, names))
        if not failed:
            return MaskedRows(rows, malformed, rejects_table(()), rows.slice(0, 0))
        has_failed = np.zeros(len(rows), bool)
        has_failed[list(failed)] = True
        rejects = [
            Reject(number, Code.PROCESSOR_FAILED, path, f"mask: {why}")
            for number, (_, (path, why)) in enumerate(sorted(failed.items()))
        ]
        failed_rows = rows.filter(pa.array(has_failed))
        return MaskedRows(rows.filter(pa.array(~has_failed)), malformed, rejects_table(rejects), failed_rows)

    def _with_attributes(self, rows: pa.Table) -> pa.Table:
        """Mask the attributes that have values of rows, or remove them."""
        for name in self._masks.attributes:
            if name not in rows.column_names or self._masks.is_done(name):
                continue
            if (mask := self._of(name)) is None:
                rows = rows if self._masks.keeps_unmasked else rows.drop_columns([name])
                continue
            at, column = rows.column_names.index(name), one_array(rows[name])
            texts = pa.nulls(len(rows), pa.string()) if mask.action == "drop" else mask.column(column)[0]
            rows = rows.set_column(at, name, texts)
        return rows

    def _of(self, path: str) -> ColumnMasking | None:
        if path not in self._functions:
            mask = self._masks.of(path)
            if len(self._functions) >= _REMEMBERED:
                self._functions.clear()
            self._functions[path] = mask and ColumnMasking(*mask)
        return self._functions[path]

    def _objects(self, events: Sequence[dict[str, Any]]) -> dict[int, Fault]:
        """Mask the fields of events in place, field by field; return the first fault of each event that has one."""
        failed: dict[int, Fault] = {}
        for name in dict.fromkeys(itertools.chain.from_iterable(events)):
            if (mask := self._of(name)) is None:
                continue
            having = [number for number, event in enumerate(events) if name in event]
            if mask.action == "drop":
                for number in having:
                    del events[number][name]
                continue
            values, reasons = mask.of_each([events[number][name] for number in having])
            for number, value in zip(having, values, strict=True):
                events[number][name] = value
            for at, why in reasons.items():
                failed.setdefault(having[at], (name, why))
        return failed

    def _objects_inside(self, events: Sequence[dict[str, Any]]) -> dict[int, Fault]:
        """Mask the fields of events in place, and those inside of them; return the first fault of each event."""
        failed: dict[int, Fault] = {}
        for number, event in enumerate(events):
            faults = list[Fault]()
            self._object(event, "", faults)
            if faults:
                failed[number] = faults[0]
        return failed

    def _object(self, event: dict[str, Any], prefix: str, faults: list[Fault]) -> None:
        """Mask the fields of an object in place."""
        for name in list(event):
            path = prefix + name
            mask = self._of(path)
            if mask is None:
                if self._reaches_inside:
                    event[name] = self._inside(event[name], path, faults)
            elif mask.action == "drop":
                del event[name]
            else:
                try:
                    event[name] = mask.of(event[name])
                except UnmaskableError as error:
                    event[name] = None
                    faults.append((path, str(error)))

    def _inside(self, value: Any, path: str, faults: list[Fault]) -> Any:
        """Mask what is inside of a value; a list has the path of its elements."""
        if bytes(value)[:1] not in (b"{", b"["):
            return value
        inner = opened(value)
        if type(inner) is dict:
            self._object(inner, f"{path}.", faults)
            return inner
        return [self._inside(item, path, faults) for item in inner]

    def _is_masked_inside(self, kind: pa.DataType, path: str) -> bool:
        if pa.types.is_struct(kind):
            inside = [(f"{path}.{field.name}", field.type) for field in kind]
            return any(self._of(name) is not None or self._is_masked_inside(inner, name) for name, inner in inside)
        if pa.types.is_map(kind):
            return True
        if pa.types.is_nested(kind):
            return self._is_masked_inside(kind.value_type, path)
        return False


def _without(rows: pa.Table, names: Collection[str]) -> pa.Table:
    return rows.drop_columns([name for name in names if name in rows.column_names])
