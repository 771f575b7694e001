"""Prints dead letters: their counts, or the entries themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace as structs_replace

from calve.cli.letters import tables_of
from calve.cli.output import echo
from calve.cli.states import no_pipelines
from calve.cli.table import columns
from calve.dead_letters.reader import (
    DeadLetter,
    LetterStore,
    Skips,
    Summary,
    Unreadable,
    locations_of,
    read,
    stores_at,
    summarise,
)
from calve.dead_letters.replay.reader import REPLAYS
from calve.dead_letters.replay.replayed import Spans, records_in, replayed_entries
from calve.dead_letters.topic import LetterTopic
from calve.observe.humanize import harmless, many
from calve.observe.standard_output import flush_output, write_output
from calve.observe.state_folder import Folder
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse
from calve.sources.kafka.settings import RECORD

__all__ = ["StoreAccess", "print_counts", "print_entries"]

UNREADABLE_SHOWN = 3
_MOST_GROUPS = 10_000


@dataclass(frozen=True)
class StoreAccess:
    """How to reach tables and topics of dead letters.

    Attributes:
        catalog: Properties of the catalog of dead-letter tables.
        config: The YAML of the pipelines, with the logins to topics.
    """

    catalog: Mapping[str, str]
    config: Path | None

    def stores(self, state: str, pipeline: str) -> list[LetterStore]:
        """Return where the dead letters of a pipeline are.

        Raises:
            CalveError: A folder, a catalog or the YAML cannot be read.
        """
        return stores_at(locations_of(state, pipeline), tables_of(self.catalog), self._topics)

    @cached_property
    def _topics(self) -> list[LetterTopic]:
        pipelines = parse(self.config, PLUGINS).pipelines if self.config else ()
        settings = (sink.value.dlq_topic for pipeline in pipelines for sink in pipeline.sinks)
        return [LetterTopic.of(topic) for topic in settings if topic]


def print_counts(state: str, pipeline: str | None, access: StoreAccess, as_json: bool) -> None:
    """Print how many entries of each pipeline wait, by table and code, and how many were replayed.

    Raises:
        CalveError: There is no pipeline, or entries cannot be read.
    """
    counted = []
    for name in _pipelines(state, pipeline):
        records = records_in(state, name)
        summary = summarise(name, access.stores(state, name), Spans(records.load()).has)
        counted.append((summary, records.count(summary.files)))
    if as_json:
        echo(json.dumps({"pipelines": [_as_json(*counts) for counts in counted]}, indent=2))
    else:
        echo("\n\n".join("\n".join(_lines(*counts)) for counts in counted))


def print_entries(state: str, pipeline: str | None, access: StoreAccess, chosen: Mapping[str, Any]) -> None:
    """Print entries, oldest file first; as text those of one code, field and reason together, with one event.

    Args:
        state: The state folder.
        pipeline: Only this pipeline.
        access: How to reach tables and topics.
        chosen: `code` and `table` (None: all), `replayed` (those that were sent again, too), `raw`, `as_json`, and
            `limit` (0: all).

    Raises:
        CalveError: There is no pipeline, or entries cannot be read.
    """
    as_text = not (chosen["raw"] or chosen["as_json"])
    limit = chosen["limit"]
    locations = {name: access.stores(state, name) for name in _pipelines(state, pipeline)}
    skips = {name: _nothing if chosen["replayed"] else replayed_entries(state, name).has for name in locations}
    entries = _found(locations, skips, chosen["code"], chosen["table"])
    forms = (
        map(_text, _grouped(entry for entry, _ in entries)) if as_text else (_form(*pair, chosen) for pair in entries)
    )
    printed = 0
    for form in islice(forms, limit or None):
        write_output(form + b"\n")
        printed += 1
    flush_output()
    if as_text and printed == 0:
        filters = [f"--{name} {value}" for name in ("code", "table") if (value := chosen[name])]
        echo(f"No dead letters{' with ' * bool(filters)}{' and '.join(filters)}.", err=True)
    if as_text and limit and next(forms, None):
        echo(f"There are more. Use --limit {limit * 10}, or --limit 0 for all.", err=True)


def _nothing(file: str, start: int) -> bool:
    return False


def _grouped(entries: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
    """Yield the first entry of each code, field and reason of a target, with the count of all."""
    groups: dict[tuple[str | None, ...], DeadLetter] = {}
    for entry in entries:
        key = entry.pipeline, entry.sink, entry.table, entry.code, entry.field, entry.reason
        first = groups.get(key)
        groups[key] = structs_replace(first, count=first.count + entry.count) if first else entry
        if len(groups) > _MOST_GROUPS:
            yield groups.pop(next(iter(groups)))
    yield from groups.values()


def _pipelines(state: str, pipeline: str | None) -> list[str]:
    names = [name for name in Folder.at(state).folders() if pipeline in (None, name)]
    if not names:
        raise no_pipelines(state, pipeline)
    return names


def _found(
    locations: Mapping[str, list[LetterStore]], skips: Mapping[str, Skips], code: object, table: object
) -> Iterator[tuple[DeadLetter, bytes]]:
    for pipeline, stores in locations.items():
        for entry, line in chain.from_iterable(read(store, skips[pipeline]) for store in stores):
            if isinstance(entry, Unreadable):
                echo(f"Skipped {entry.file}:{entry.line}: {entry.reason}", err=True)
            elif entry.is_of(pipeline) and code in (None, entry.code) and table in (None, entry.table):
                yield entry, line


def _form(entry: DeadLetter, line: bytes, chosen: Mapping[str, Any]) -> bytes:
    if chosen["raw"]:
        return b"\n".join([entry.original()] * entry.count)
    return line


def _text(entry: DeadLetter) -> bytes:
    sink = entry.sink if entry.sink and "." in entry.sink else ""  # otherwise there is only one sink
    times = f"{entry.count:,} times" if entry.count > 1 else ""
    tries = (entry.metadata or {}).get(REPLAYS)
    sent = f"sent again {many(tries, 'time')}" if isinstance(tries, int) else ""
    head = (entry.time(), entry.pipeline, sink, entry.table or "no table", entry.code, entry.field or "", times, sent)
    lines = [" · ".join(part for part in head if part), f"  reason:   {entry.reason or ''}"]
    if metadata := {name: value for name, value in (entry.metadata or {}).items() if name != RECORD}:
        lines.append(f"  metadata: {json.dumps(metadata, ensure_ascii=False)}")
    lines.append(f"  event:    {entry.original().decode(errors='backslashreplace')}")
    return ("\n".join(harmless(line) for line in lines) + "\n").encode()


def _lines(summary: Summary, replayed: int) -> Iterator[str]:
    total = sum(summary.counts.values())
    span = f", {summary.first} … {summary.last}" if total else ""
    sent = f", {replayed:,} more replayed" if replayed else ""
    yield f"{summary.pipeline}: {many(total, 'dead letter')}{sent}{span}"
    if total:
        rows = [(table or "-", code, f"{count:,}") for (table, code), count in summary.counts.most_common()]
        yield from (f"  {line}" for line in columns(("table", "code", ">events"), rows))
        yield from (f"  in the table {table}" for table in summary.tables)
        yield from (f"  in the topic {topic}" for topic in summary.topics)
        yield from ["  newest files:"] * bool(summary.newest_files)
        yield from (f"    {file}" for file in summary.newest_files)
    if summary.unreadable:
        locations = ", ".join(
            f"{unreadable.file}:{unreadable.line}" for unreadable in summary.unreadable[:UNREADABLE_SHOWN]
        )
        yield f"  {many(len(summary.unreadable), 'line')} skipped, no valid entries or truncated: {locations}"


def _as_json(summary: Summary, replayed: int) -> dict[str, object]:
    counts = [{"table": table, "code": code, "count": n} for (table, code), n in summary.counts.most_common()]
    return {
        "pipeline": summary.pipeline,
        "folders": summary.folders,
        "tables": summary.tables,
        "topics": summary.topics,
        "entries": sum(summary.counts.values()),
        "replayed": replayed,
        "counts": counts,
        "first": summary.first,
        "last": summary.last,
        "newest_files": summary.newest_files,
        "unreadable": len(summary.unreadable),
    }
