"""The processor for all else: one SELECT of DuckDB over the fields of each event."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from calve.errors import SettingsError
from calve.event import duckdb_session
from calve.expression.probe import refusal
from calve.expression.scope import pointer
from calve.expression.sql import duckdb_name, duckdb_text
from calve.processors.events import copied_event
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import Event, FieldKey, decode_event, encode
from calve.processors.step import ProcessorStep
from calve.settings.option import option

if TYPE_CHECKING:
    from calve.processors.evaluation import Evaluation
    from calve.processors.event_batch import EventBatch

__all__ = ["Sql"]

_STAR = re.compile(r"\bselect\s+(distinct\s+)?(\w+\.)?\*", re.IGNORECASE)
_TEXTS = ("VARCHAR", "TEXT", "STRING")
_EXACT = ("DECIMAL", "NUMERIC", "HUGEINT", "UHUGEINT")


@dataclass(frozen=True)
class Sql:
    """Runs one SELECT of DuckDB for each event, over the table `event` with one row: `SELECT upper(a) AS b FROM event`.

    The columns of the result become entries of the event. Without a row the event is dropped; several rows make several
    events.
    """

    select: str = option(
        doc="The SELECT. Its table is `event`; the columns are `fields`, and `json`, the whole event as JSON.",
        minimum=1,
    )
    fields: dict[str, str] = option(
        {},
        "The fields that are columns of `event`, each with its DuckDB type, such as `bigint`, `varchar` or `double[]`. "
        "An event with a value of another type cannot be processed; a missing value is NULL.",
    )
    keep_fields: bool = option(True, "Keep the other entries of the event; `false` keeps only the result.")
    sql_when: str | None = option(None, "A condition; only events for which it is true are processed.", check=condition)
    tags_on_failure: list[str] = option(
        [], "Tags of events for which the SELECT fails; they continue. Without tags they become dead letters."
    )

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    @property
    def query(self) -> str:
        """The SQL over the relation `events`: for each event the field that has another type, and the result."""
        typed_columns = {name: _typed(name, kind) for name, kind in self.fields.items()}
        columns = "".join(f"{typed} AS {duckdb_name(name)}, " for name, (typed, _) in typed_columns.items())
        faults = ", ".join(
            f"CASE WHEN {fault} THEN {duckdb_text(name)} END" for name, (_, fault) in typed_columns.items()
        )
        event = f"WITH event AS (SELECT {columns.removesuffix(', ') or 'event.json'})"
        rows_sql = f"{event} SELECT list(to_json(r)::VARCHAR) FROM ({self.select}\n) r"
        fault = f"coalesce({faults}, NULL)" if faults else "NULL::VARCHAR"
        outer = 'SELECT "at", json::JSON AS json FROM events'  # so `json` is no column of `event`, which `*` would take
        return f"SELECT {fault} AS fault, ({rows_sql}) AS found FROM ({outer}) event ORDER BY event.at"

    def check(self) -> Iterator[tuple[str, str]]:
        """Require a statement that DuckDB accepts."""
        if ";" in self.select:
            yield "select", "must be one SELECT, without a semicolon"
            return
        if not self.fields and _STAR.search(self.select):
            yield "select", "takes all columns (*), but there are none: declare the fields that it uses in `fields`"
            return
        reason = refusal(f"WITH events AS (SELECT 0 AS at, '{{}}' AS json) {self.query}")
        if reason is not None:
            hint = ". Declare the fields that it uses in `fields`" if "not found in FROM" in reason else ""
            yield "select", f"DuckDB refuses it: {reason}{hint}"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        return [_Select(self, compiler.condition(self.sql_when))]


class _Select:
    """The step of `sql`."""

    splits = True

    def __init__(self, settings: Sql, when: Evaluation | None) -> None:
        self._settings, self._when, self._query = settings, when, settings.query

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        rows = batch.selected(self._when, rows)
        texts_by_row = dict(self._results(batch, list(rows)))
        events, parts = batch.opened(rows), dict[int, list[Event]]()
        for row, texts in texts_by_row.items():
            event = events[row]
            assert event is not None
            if not self._settings.keep_fields:
                event.clear()
            if len(texts) > 1:
                parts[row] = [{**copied_event(event), **decode_event(text)} for text in texts]
            elif texts:
                event.update(decode_event(texts[0]))
                batch.touched[row] = 1
        batch.drop([row for row, texts in texts_by_row.items() if not texts])
        batch.split(parts)

    def _results(self, batch: EventBatch, rows: list[int]) -> Iterator[tuple[int, list[str]]]:
        """Yield the result of each row; of those that fail, find each and reject it."""
        from duckdb import Error  # see `open_duckdb`

        if not rows:
            return
        try:
            results = self._run([batch.json_text(row) for row in rows])
        except Error as error:
            if len(rows) == 1:
                batch.fail(rows[0], str(error).splitlines()[0], "", self._settings.tags_on_failure)
                return
            middle = len(rows) // 2
            yield from self._results(batch, rows[:middle])
            yield from self._results(batch, rows[middle:])
            return
        for row, (fault, texts) in zip(rows, results, strict=True):
            if fault is None:
                yield row, texts or []
            else:
                reason = f"not a value of the type {self._settings.fields[fault]}"
                batch.fail(row, reason, fault.replace("/", "."), self._settings.tags_on_failure)

    def _run(self, texts: list[str]) -> list[tuple[str | None, list[str] | None]]:
        events = pa.table({"at": range(len(texts)), "json": pa.array(texts, pa.string())})
        selected: Any = duckdb_session.run(self._query, events=events)
        return list(zip(selected["fault"].to_pylist(), selected["found"].to_pylist(), strict=True))


def _typed(name: str, kind: str) -> tuple[str, str]:
    """Return SQL for a field as a type, and SQL that is true if its value has another type.

    Raises:
        SettingsError: The type cannot be the text of a type.
    """
    if not kind.strip() or any(sign in kind for sign in ";'-"):
        raise SettingsError(
            f"{kind!r} is not a type of DuckDB", step="settings", hint="Write bigint, varchar or double[]"
        )
    path = duckdb_text(pointer(name))
    if kind.strip().upper() in _TEXTS:
        return f"json_extract_string(event.json, {path})", "false"
    value = f"json_extract(event.json, {path})"
    typed = f"TRY_CAST({value} AS {kind})"
    if kind.strip().upper().startswith(_EXACT):  # a JSON value of DuckDB has the digits of a double
        structure: Any = kind
        typed, names = "", FieldKey(name).parts
        for part in reversed(names):
            structure = {part: structure}
        typed = f"json_transform(event.json, {duckdb_text(encode(structure).decode())})"
        for part in names:
            typed = f"struct_extract({typed}, {duckdb_text(part)})"
    return typed, f"coalesce({value}::VARCHAR, 'null') <> 'null' AND {typed} IS NULL"
