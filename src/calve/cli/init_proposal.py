"""What `calve init` finds in a source: tables, records or objects, and what it proposes because of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calve.cli.table import columns
from calve.observe.humanize import harmless, many
from calve.sources.preview import DatabasePreview, TablePreview

if TYPE_CHECKING:
    from calve.sources.kafka.preview import TopicPreview
    from calve.sources.s3.preview import BucketPreview

__all__ = ["Answers", "Proposal", "proposal"]

_MOST_SHOWN = 24
"""The characters of a value that are shown."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


def _preview(source: str, settings: Any) -> Any:
    """Open what looks into a source."""
    from calve.pipeline.plugins import preview_source  # brings Arrow, as no `--help` needs it

    return preview_source(source, settings)


@dataclass(frozen=True)
class Answers:
    """What was asked, or given by options.

    Attributes:
        source: The kind of source.
        location: Its place.
        table: The table to write.
        tables: Patterns of tables of a database; none: all that the place names.
        key: The columns that identify a row; none: what the source says.
        registry: The address of a schema registry.
        catalog: The properties of the catalog of a table; none: the embedded one.
    """

    source: str
    location: str
    table: str
    tables: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    registry: str = ""
    catalog: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Proposal:
    """What becomes of a source.

    Attributes:
        seen: What was found, line by line.
        excluded: Tables that cannot be followed.
        comments: Lines for the YAML about the source.
        serde_format: The format of a topic's records; empty: unknown.
        codec: The codec of objects; empty: unknown.
        delimiter: What divides the cells of CSV, as YAML has it between double quotes; empty: the usual one.
        key: The columns that identify a row.
        times: Columns that partitions may be made of.
        is_change: Whether records are changes of rows.
        sample: Content that `calve try` can show, with its name.
    """

    seen: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    serde_format: str = ""
    codec: str = ""
    delimiter: str = ""
    key: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    is_change: bool = False
    sample: tuple[str, bytes] | None = None


def proposal(answers: Answers, settings: Any) -> Proposal:
    """Return what a source is found to have; its server is asked, and nothing is changed there.

    Args:
        answers: What was answered.
        settings: The settings of the source.

    Raises:
        CalveError: The server does not answer, or refuses.
    """
    finders: dict[str, Callable[[Answers, Any], Proposal]] = {
        "postgres": _database,
        "mysql": _database,
        "kafka": _topic,
        "s3": _bucket,
        "file": _files,
        "iceberg": _iceberg_tables,
    }
    finder = finders.get(answers.source)
    return replace(finder(answers, settings), **_given(answers)) if finder else Proposal(key=answers.key)


def _given(answers: Answers) -> dict[str, Any]:
    return {"key": answers.key} if answers.key else {}


def _database(answers: Answers, settings: Any) -> Proposal:
    preview_of_tables: DatabasePreview = _preview(answers.source, settings)
    lacking = tuple(table.name for table in preview_of_tables.tables if not table.key)
    return Proposal(
        seen=tuple(_tables(preview_of_tables, settings.shown)),
        excluded=lacking,
        comments=tuple(_described(table) for table in preview_of_tables.tables),
        times=tuple(dict.fromkeys(name for table in preview_of_tables.tables for name in table.times)),
    )


def _files(answers: Answers, settings: Any) -> Proposal:
    from calve.sources.file.csv_check import OtherDelimiter

    other = OtherDelimiter.of(settings)
    if other is None:
        return Proposal()
    seen = f"The first row of {other.path} is one cell with {other.delimiter} in it: taken for the delimiter"
    return Proposal(seen=(harmless(seen),), delimiter=other.delimiter)


def _iceberg_tables(answers: Answers, settings: Any) -> Proposal:
    from calve.catalog.sqlite import embedded
    from calve.operate.table_preview import preview

    catalog = preview(answers.catalog or embedded(Path("lakehouse")), answers.location)
    chosen = next((table for table in catalog.tables if table.name == answers.location), None)
    place = answers.catalog.get("uri") or answers.catalog.get("warehouse") or "The catalog in ./lakehouse"
    count = len(catalog.tables) + catalog.others
    more = f"; the first {len(catalog.tables)}:" if catalog.others else ":"
    absence = () if chosen else (harmless(f"There is no table {answers.location}: correct table_name"),)
    return Proposal(
        seen=(harmless(f"{place} has {many(count, 'table')}{more}"), *_described_tables(catalog), *absence),
        comments=(_described(chosen),) if chosen else (),
        key=chosen.key if chosen else (),
        times=chosen.times if chosen else (),
    )


def _tables(selection: DatabasePreview, server: str) -> Iterator[str]:
    count = len(selection.tables) + selection.others
    yield f"{server} has {many(count, 'table')} that {'is' if count == 1 else 'are'} selected" + (
        f"; the first {len(selection.tables)}:" if selection.others else ":"
    )
    lacks_key = (
        "    no key: it is excluded, as PostgreSQL and MySQL send changes by key; "
        "no_key: mirror finds its rows by all columns"
    )
    yield from _described_tables(selection, lacks_key)


def _described_tables(selection: DatabasePreview, lacks_key: str = "") -> Iterator[str]:
    """Yield each table with its columns and first rows; `lacks_key` below those without a key."""
    for table in selection.tables:
        yield f"  {_described(table)}"
        if table.rows:
            rows = [list(map(_shown, row)) for row in table.rows]
            names = [_shown(name) for name, _, _ in table.columns][: len(rows[0])]
            yield from (f"    {line}" for line in columns(names, rows))
        if lacks_key and not table.key:
            yield lacks_key


def _described(table: TablePreview) -> str:
    names = ", ".join(f"{name} {kind}{' (key)' * is_key}" for name, kind, is_key in table.columns)
    return harmless(f"{table.name}: {names}")


def _shown(value: str | None) -> str:
    text = "NULL" if value is None else harmless(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def _topic(answers: Answers, settings: Any) -> Proposal:
    records: TopicPreview = _preview(answers.source, settings)
    topic = settings.topics[0].name
    if records.others or not (records.serde_format or records.schema_ids):
        is_missing = bool(records.others)
        what = (
            f"The topic {topic} does not exist; there are: {', '.join(records.others[:20])}"
            if is_missing
            else (f"The topic {topic} has no records yet, or does not exist")
        )
        return Proposal(seen=(harmless(what),))
    key = f", with the key {', '.join(records.key)}" if records.key else ""
    if records.schema_ids:
        return _registered(answers, topic, records.schema_ids, records.key)
    comments = ("Connect's schema in the values gives the types of the columns",) if records.has_schema else ()
    return Proposal(
        seen=(harmless(f"The records of {topic} are {_FORMATS[records.serde_format]}{key}"),),
        comments=comments,
        serde_format=records.serde_format,
        key=records.key,
        times=_times(records.events) if records.serde_format == "json" else (),
        is_change=records.serde_format == "debezium",
        sample=("the first records", b"\n".join(records.events) + b"\n") if records.events else None,
    )


_FORMATS = {
    "json": "JSON objects",
    "debezium": "changes of rows, as Debezium writes them",
    "plaintext": "text: the field message",
    "bytes": "bytes: the field message, in Base64",
}


_KINDS = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}
"""The value of `serde_format`, by the registry's name of a format."""


def _registered(answers: Answers, topic: str, ids: Sequence[int], key: tuple[str, ...]) -> Proposal:
    """Return the proposal for records with schemas of a registry."""
    sentence = f"The records of {topic} have schemas of a registry (ids {', '.join(map(str, ids[:5]))})"
    if not answers.registry:
        return Proposal(seen=(harmless(f"{sentence}; name it: --registry https://registry:8081"),))
    from calve.serde.registry import Registry
    from calve.serde.settings import SchemaSettings

    schema = Registry(SchemaSettings(registry_url=answers.registry)).schema(ids[0])
    if schema is None:
        return Proposal(seen=(harmless(f"{sentence}, which {answers.registry} does not have"),))
    kind = _KINDS.get(schema.kind, "avro")
    is_change = kind == "avro" and '"Envelope"' in schema.text
    return Proposal(
        seen=(harmless(f"{sentence}: {schema.kind}" + (", changes of Debezium" if is_change else "")),),
        serde_format="debezium" if is_change else kind,
        key=key,
        is_change=is_change,
    )


def _times(events: Sequence[bytes]) -> tuple[str, ...]:
    """Return the fields of the first event that are date-times."""
    first = json.loads(events[0])
    return tuple(str(name) for name, value in first.items() if isinstance(value, str) and _TIME.match(value))


def _bucket(answers: Answers, settings: Any) -> Proposal:
    objects: BucketPreview = _preview(answers.source, settings)
    if not objects.count:
        return Proposal(seen=("The bucket has no object with this prefix yet",))
    what = f"{objects.codec} by their names" if objects.codec else "of a format that their names do not tell: set codec"
    sample = (objects.name, objects.sample) if objects.name else None
    most = "at least " * (objects.count >= 1_000)
    return Proposal(
        seen=(f"There are {most}{many(objects.count, 'object')}, {what}",), codec=objects.codec, sample=sample
    )
