"""Converts events to lines for `_bulk`, in one SELECT: the action, the document's id, and the event's unchanged text.

Every document has a version, so that repeated lines change nothing, and older events never overwrite newer ones.
Without an id the version becomes the id, and the document is only created.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.columns.fields import Fields
from calve.event import duckdb_session
from calve.event.columns import JSON, PART, VERSION
from calve.event.reject import Code, reject_rows
from calve.expression import compile_condition, compile_format
from calve.expression.sql import duckdb_text
from calve.sinks.opensearch.settings import ACTIONS, KEYED, OpenSearchSettings

__all__ = ["BulkLines", "Shape", "compile_shape"]

_DOCUMENT, _NTH = "calve_document", "calve_nth"
_LONGEST_ID = 512
_TOLD = '${getMetadata("bulk_action")}'
"""The action of a source of changes: always `index` or `delete`."""
_ID = "document_id"
"""The attribute with the key of a row; an event that lacks a field of this name has it as its id (source RFC, 3)."""
_CREATES = '{"create":'
_FAULTS = {
    "action": (Code.UNKNOWN_OPERATION, "action", f"is missing, or not one of {', '.join(ACTIONS)}"),
    "key": (Code.NO_KEY, "document_id", "has no value, but the action needs one"),
    "empty": (Code.NO_KEY, "document_id", "is an empty text, which OpenSearch does not accept as an id"),
    "long": (Code.NO_KEY, "document_id", f"is longer than {_LONGEST_ID} bytes"),
    "version": (Code.EXPRESSION_ERROR, "document_version", "is not an integer"),
}


@dataclass(frozen=True)
class Shape:
    """How a sink's events become lines; pickled into tasks.

    Attributes:
        sql: The SELECT over `events`.
        metadata: The metadata attributes that it reads.
        keyed: Whether documents have their own ids; else a conflict means that an earlier try wrote the event.
        reads: Whether an event may change a document that must be read first (create, update, upsert).
        has_actions: Whether events have a `bulk_action`: then an event that the next one overwrites is left out, such
            as the old row of an update.
    """

    sql: str
    metadata: frozenset[str]
    keyed: bool
    reads: bool
    has_actions: bool = False

    def lines(self, events: pa.Table, fields: Fields) -> BulkLines:
        """Convert events with `json`, `event_version` and the metadata columns."""
        texts = fields.texts(events[JSON])
        if pc.any(pc.match_substring(texts, "\n")).as_py():  # between tokens, because strings have it escaped
            texts = pc.replace_substring(texts, "\n", " ")
        nth = _suffixes(events[VERSION])
        if PART in events.column_names:  # it is the same if only this part is replayed
            nth = pc.coalesce(pc.binary_join_element_wise("-p", duckdb_session.one_array(events[PART]), ""), nth)
        documents = duckdb_session.run(self.sql, events=events.append_column(_DOCUMENT, texts).append_column(_NTH, nth))
        faults = duckdb_session.one_array(documents["fault"])
        text = duckdb_session.one_array(documents["line"]).cast(pa.large_string())
        derived = pc.starts_with(text, _CREATES) if self.keyed else pa.array([], pa.bool_())
        overwritten = _overwritten(documents["id"], text) if self.has_actions else None
        return BulkLines(
            text=text if overwritten is None else pc.if_else(overwritten, pa.scalar(None, pa.large_string()), text),
            derived=pc.sum(derived).as_py() or 0,
            overwritten=0 if overwritten is None else pc.sum(overwritten).as_py() or 0,
            rejects=_rejects(faults) if faults.null_count < len(faults) else None,
            steps=documents.select(_STEPS) if self.reads else None,
        )


@dataclass(frozen=True)
class BulkLines:
    """The lines of events for `_bulk`.

    Attributes:
        text: Each event's lines, with line feeds; null if it is rejected or left out, or its document must be read
            first.
        rejects: `REJECTS`, or None for none.
        steps: If documents are read first: `fault`, `action`, `id`, `routing`, `pipeline`, `version`, `document`.
        overwritten: How many events are left out because the next event writes the same document.
        derived: Of how many documents the id is derived from the event's position, although the sink has a
            `document_id`.
    """

    text: pa.LargeStringArray
    rejects: pa.Table | None
    steps: pa.Table | None
    overwritten: int = 0
    derived: int = 0


def compile_shape(settings: OpenSearchSettings, metadata: Collection[str], prefix: str) -> Shape:
    """Compile the conversion of a sink's events.

    Args:
        settings: The sink's settings.
        metadata: The attributes that events have.
        prefix: The prefix of ids for documents without their own; the same for every run of a state.
    """
    id_ = compile_format(settings.id_text or "", metadata, {_ID} & set(metadata))
    routing, pipeline, version = (
        compile_format(text or "", metadata)
        for text in (settings.routing_text, settings.pipeline, settings.document_version)
    )
    kinds = [(expression.when, expression.type) for expression in settings.actions] or [(None, settings.action)]
    whens = [compile_condition(when or "true", metadata) for when, _ in kinds]
    types = [compile_format(kind, metadata) for _, kind in kinds]
    cases = " ".join(f"WHEN {when.sql} THEN lower({kind.sql})" for when, kind in zip(whens, types, strict=True))
    number = f"CASE WHEN regexp_full_match({version.sql}, '[0-9]+') THEN try_cast({version.sql} AS BIGINT) END"
    used = [expression.metadata for expression in (id_, routing, pipeline, version, *types)] + [
        expression.metadata for expression in whens
    ]
    statics = {expression.static.lower() if expression.static is not None else None for expression in types}
    has_actions = settings.id_text is not None and [kind for _, kind in kinds] == [_TOLD] and "bulk_action" in metadata
    reads = settings.id_text is not None and not has_actions and not statics <= {"index", "delete"}
    sql = _SELECT.format(
        action=f"CASE {cases} END",
        id=f"nullif({id_.sql}, '')",
        empty=f"CASE WHEN {id_.sql} = '' THEN {id_.given} ELSE false END" if settings.id_text else "false",
        routing=f"nullif({routing.sql}, '')",
        pipeline=f"nullif({pipeline.sql}, '')",
        version=VERSION if settings.document_version is None else number,
        position=VERSION,
        nth=_NTH,
        document=_DOCUMENT,
        fault=_fault(),
        reads=_READS,
        steps="".join(f", {name}" for name in _STEPS[1:]) if reads else ", id" if has_actions else "",
        keyed=_keyed_line(settings.document_version_type),
        created=_created_line(prefix),
    )
    return Shape(
        sql,
        frozenset().union(*used),
        settings.id_text is not None,
        reads,
        has_actions and settings.document_version is None,
    )


_SELECT = """SELECT fault,
CASE WHEN fault IS NOT NULL OR {reads} THEN NULL WHEN id IS NULL THEN {created} ELSE {keyed} END AS line{steps}
FROM (SELECT *, {fault} AS fault FROM (SELECT {action} AS action, {id} AS id, {empty} AS empty,
{routing} AS routing, {pipeline} AS pipeline, {version} AS version, {position} AS position,
{nth} AS nth, {document} AS document FROM events))"""
_STEPS = ("fault", "action", "id", "routing", "pipeline", "version", "document")
_READS = "(action IN ('create', 'update', 'upsert') AND id IS NOT NULL)"


def _overwritten(ids: pa.ChunkedArray, text: pa.LargeStringArray) -> pa.BooleanArray:
    """Mask the events that the next event, of the same document, overwrites."""
    whole = duckdb_session.one_array(ids)
    same = pc.and_(pc.equal(whole[:-1], whole[1:]), text[1:].is_valid())
    return pa.concat_arrays([pc.fill_null(same, False), pa.array([False] * min(len(ids), 1), pa.bool_())])


def _fault() -> str:
    keyed = ", ".join(map(duckdb_text, sorted(KEYED)))
    actions = ", ".join(map(duckdb_text, ACTIONS))
    return (
        f"CASE WHEN coalesce(action, '') NOT IN ({actions}) THEN 'action' "
        f"WHEN empty THEN 'empty' WHEN id IS NULL AND action IN ({keyed}) THEN 'key' "
        f"WHEN octet_length(encode(id)) > {_LONGEST_ID} THEN 'long' WHEN version IS NULL THEN 'version' END"
    )


def _keyed_line(version_type: str) -> str:
    return (
        """CASE WHEN action = 'delete' THEN '{"delete":{"_id":' ELSE '{"index":{"_id":' END || to_json(id)::VARCHAR"""
        f""" || ',"version":' || version || ',"version_type":"{version_type}"'{_optional("routing")}"""
        f""" || CASE WHEN action = 'delete' THEN '' ELSE ''{_optional("pipeline")} END"""
        """ || '}}' || chr(10) || CASE WHEN action = 'delete' THEN '' ELSE document || chr(10) END"""
    )


def _created_line(prefix: str) -> str:
    start = duckdb_text(f'{_CREATES}{{"_id":"{prefix}')
    more = _optional("routing") + _optional("pipeline")
    position = "format('{:x}', position) || nth"
    return f"""{start} || {position} || '"'{more} || '}}}}' || chr(10) || document || chr(10)"""


def _optional(name: str) -> str:
    return f""" || coalesce(',"{name}":' || to_json({name})::VARCHAR, '')"""


def _suffixes(versions: pa.ChunkedArray) -> pa.Array:
    """Number the rows of each event, which are consecutive and share its version: nothing, `-1`, `-2` and so on."""
    numbers = versions.to_numpy()
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(numbers)))
    nth = np.arange(len(numbers)) - first
    if not nth.any():
        return pa.repeat("", len(numbers))
    return pa.array([f"-{number}" if number else "" for number in nth.tolist()], pa.string())


def _rejects(faults: pa.Array) -> pa.Table:
    return pa.concat_tables(
        reject_rows(pc.indices_nonzero(pc.fill_null(pc.equal(faults, name), False)).cast(pa.int64()), *has_actions)
        for name, has_actions in _FAULTS.items()
    )
