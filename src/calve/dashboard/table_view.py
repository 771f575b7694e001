"""A table as its catalog has it: columns, partitions, location and its newest rows, in bounded time and memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from calve.credentials import without_credentials
from calve.errors import CalveError
from calve.observe.humanize import harmless, many, size

__all__ = ["ColumnView", "Contents", "TableReader"]

_ANSWER_SECONDS = 20.0
_AT_ONCE = 2
_MOST_ROWS, _MOST_COLUMNS, _MOST_CHARACTERS = 20, 40, 120
_MOST_DESCRIBED = 1_000
_BUSY = "Other pages are reading tables; open this one again in some seconds"


@dataclass(frozen=True)
class ColumnView:
    """A column: its name, its Iceberg type, and what is special about it."""

    name: str
    kind: str
    notes: str
    doc: str


@dataclass
class Contents:
    """What is shown of a table; texts are harmless, and short enough.

    Attributes:
        facts: Location, partitions and so on, by title.
        columns: The columns.
        headings: The names of the columns of `rows`.
        rows: The newest rows.
        notes: What is not shown, and why.
    """

    facts: dict[str, str] = field(default_factory=dict)
    columns: list[ColumnView] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class TableReader:
    """Reads tables for the pages, some at once; a catalog that does not answer costs a page 20 seconds.

    Args:
        shows_rows: Whether rows are read.
        answer_seconds: How long a page waits.
    """

    def __init__(self, shows_rows: bool = True, answer_seconds: float = _ANSWER_SECONDS) -> None:
        self._shows_rows, self._answer_seconds = shows_rows, answer_seconds
        self._free = threading.Semaphore(_AT_ONCE)

    def read(self, properties: Mapping[str, str], table: str) -> Contents:
        """Return what a table has; what cannot be read is a note.

        Args:
            properties: Of its catalog.
            table: Its identifier.
        """
        if not self._free.acquire(blocking=False):
            return Contents(notes=[_BUSY])
        answer: Future[Contents] = Future()
        threading.Thread(target=self._answer, args=(answer, properties, table), name="table", daemon=True).start()
        try:
            return answer.result(self._answer_seconds)
        except TimeoutError:
            return Contents(notes=[f"The catalog has not answered within {self._answer_seconds:.0f} s"])

    def _answer(self, answer: Future[Contents], properties: Mapping[str, str], table: str) -> None:
        contents = Contents()
        try:
            self._fill(contents, properties, table)
        except CalveError as error:
            contents.notes.append(_shown(str(error), 2_000))
        except Exception as error:  # each catalog and format has errors of its own libraries
            contents.notes.append(_shown(f"The table cannot be read: {error}", 2_000))
        finally:
            self._free.release()
            answer.set_result(contents)

    def _fill(self, contents: Contents, properties: Mapping[str, str], table: str) -> None:
        from calve.catalog.open_tables import OpenTables  # brings PyIceberg, which other pages do not need

        opened = OpenTables(properties).open(table)
        contents.facts = _facts(opened)
        contents.columns = _columns(opened)
        if not self._shows_rows:
            contents.notes.append("Rows are not shown: the dashboard was started with --no-rows")
            return
        from calve.catalog.newest_rows import newest_rows

        newest = newest_rows(opened, _MOST_ROWS, _MOST_COLUMNS)
        contents.headings = [_shown(name) for name in newest.schema.names]
        contents.rows = _rows(newest)
        if len(opened.schema().fields) > _MOST_COLUMNS:
            contents.notes.append(f"The rows have the first {_MOST_COLUMNS} columns")


def _facts(table: Any) -> dict[str, str]:
    schema, snapshot = table.schema(), table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    spec, order = table.spec(), table.sort_order()
    partitions = [f"{field.transform}({_column(schema, field.source_id)})" for field in spec.fields]
    sorted_by = [f"{field.transform}({_column(schema, field.source_id)})" for field in order.fields]
    facts = {
        "Location": table.location(),
        "Partitions": ", ".join(partitions) or "none",
        "Sort order": ", ".join(sorted_by) or "none",
        "Format version": str(table.format_version),
        "Rows": f"{int(summary.get('total-records', 0)):,}",
        "Data files": f"{many(int(summary.get('total-data-files', 0)), 'file')}, "
        f"{size(int(summary.get('total-files-size', 0)))}",
        "Snapshots": f"{len(table.metadata.snapshots):,}",
        "Branches and tags": ", ".join(sorted(table.metadata.refs)) or "none",
    }
    return {title: _shown(value, 1_000) for title, value in facts.items()}


def _column(schema: Any, number: int) -> str:
    return str(schema.find_column_name(number) or "a dropped column")


def _columns(table: Any) -> list[ColumnView]:
    schema = table.schema()
    keys = set(schema.identifier_field_ids)
    return [
        ColumnView(
            _shown(column.name),
            _shown(str(column.field_type), 400),
            ", ".join(["key"] * (column.field_id in keys) + ["required"] * column.required),
            _shown(column.doc or "", 400),
        )
        for column in schema.fields[:_MOST_DESCRIBED]
    ]


def _rows(rows: Any) -> list[list[str]]:
    from calve.event.json_text import unquoted, value_texts  # brings pyarrow

    texts = [value_texts(column.combine_chunks(), decimals_as_strings=True).to_pylist() for column in rows.columns]
    return [[_shown(unquoted(text.decode())) for text in row] for row in zip(*texts, strict=True)]


def _shown(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Return a text without credentials and control characters, cut."""
    text = harmless(without_credentials(text[: 10 * most]))
    return text if len(text) <= most else f"{text[: most - 1]}…"


Catalogs = Callable[[str, str], Mapping[str, str] | None]
"""Returns the properties of the catalog of a pipeline's table; None: it is not known."""
