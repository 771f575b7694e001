"""`calve try`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.observe.humanize import harmless, many
from calve.settings import PipelineSettings, only, parse

if TYPE_CHECKING:
    from calve.operate.dry_run import EventFate, RejectReason, TableFate, Trial

__all__ = ["trial"]


@click.command("try", cls=Command)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.argument("events", metavar="EVENTS.ndjson")
@options.only_pipeline
@click.option(
    "--metadata",
    multiple=True,
    callback=options.pairs("kafka_topic=orders"),
    metavar="KEY=VALUE",
    help="Metadata of every event: a whole number, or text. Repeatable.",
)
@click.option(
    "--key-delimiter",
    metavar="TEXT",
    help=r"Each line begins with the key of its record and this text, e.g. '\t', as kcat -K '\t' and "
    "kafka-console-consumer with print.key=true write them; the record may have no value, or null.",
)
@options.json_output
@options.debug
def trial(
    path: Path, events: str, pipeline: str | None, metadata: dict[str, str], key_delimiter: str | None, as_json: bool
) -> None:
    r"""Show what a pipeline would do with sample events: their tables, tables to create, rejects.

    EVENTS.ndjson has one event per line, as the source would deliver it, or is a Parquet, Avro or ORC file. For a
    pipeline that reads files it is such a file (text, CSV …). For a topic with schemas (Avro, Protobuf …) it may also
    be the value of one record, or several, each after its length: kcat -f '%R%s'. `-` is stdin; gzip and zstd are
    supported for text. All events form one batch. Nothing is written: no file, no table, no state. The source is not
    used, so metadata (`getMetadata`) is missing unless you pass --metadata.

    An event that processors change is shown before and after each of them.

    Existing tables are read from the catalog. For the embedded catalog, and any other on SQLite, Calve only reads its
    file; for other catalogs it starts Spark, which takes some seconds. Statements are Spark SQL.

    The exit code is 0 even if events are rejected.

    Examples:
      calve try orders.yaml sample.ndjson
      calve try pipelines/ sample.ndjson --pipeline orders
      calve try orders.yaml sample.ndjson --metadata kafka_topic=orders
      head -100 today.ndjson | calve try orders.yaml - --json
      kcat -C -b broker:9092 -t orders -c 10 -e -f '%R%s' | calve try orders.yaml -
      kcat -C -b broker:9092 -t customers -c 10 -e -K '\t' | calve try customers.yaml - --key-delimiter '\t'
    """
    from calve.pipeline.plugins import PLUGINS  # here, so that `calve try --help` needs no Spark

    settings = only(parse(path, PLUGINS).pipelines, pipeline)
    outcome = _attempt(settings, events, metadata, key_delimiter)
    for note in _notes(outcome):
        echo(note, err=True)
    for line in _json(outcome) if as_json else _text(outcome):
        echo(line)


def _attempt(settings: PipelineSettings, events: str, metadata: dict[str, str], key_delimiter: str | None) -> Trial:
    from calve.operate.dry_run import dry_run  # brings DuckDB and Spark's Python side
    from calve.pipeline.plugins import sample_of
    from calve.sources.file.sample import with_keys

    sample, is_encoded = sample_of(settings, events)
    if key_delimiter is not None:
        sample = with_keys(sample, key_delimiter.replace("\\t", "\t"))
    return dry_run(settings, sample, metadata, is_encoded)


def _json(outcome: Trial) -> Iterator[str]:
    for event in outcome.events:
        yield json.dumps({"type": "event", **asdict(event)}, ensure_ascii=False)
    for table in outcome.tables:
        yield json.dumps({"type": "table", **asdict(table)}, ensure_ascii=False)


def _text(outcome: Trial) -> Iterator[str]:
    sinks = {target.sink for event in outcome.events for target in event.tables}
    several = len(sinks | {target.sink for event in outcome.events for target in event.rejects}) > 1
    for event in outcome.events:
        yield from map(harmless, _event(event, several))
    for table in outcome.tables:
        yield ""
        yield from _table(table)
    if outcome.events or outcome.tables:
        yield ""
    yield _summary(outcome)


def _event(event: EventFate, several: bool) -> Iterator[str]:
    from calve.event.reject import Code  # brings Arrow

    line = f"line {event.line}" if event.line else f"event {event.number}"
    for number, done in enumerate(event.processed):
        if not number:
            yield from (f"{line}: {text}" for text in done.before)
        for text, tags in zip(done.after, done.tags, strict=True):
            yield f"  {done.processor}: {text}{' tags: ' + ', '.join(tags) if tags else ''}"
        if not done.after:
            yield f"  {done.processor}: no event is left"
    for to in event.tables:
        yield f"{line}: {to.table}{f' ({to.sink})' if several else ''}"
    for reject in event.rejects:
        where = f"{reject.table}: " if reject.table else ""
        who = f" by {reject.sink}" if several and reject.code != Code.MALFORMED else ""  # that one came to no sink
        yield f"{line}: rejected{who}, {where}{_reason(reject)}"
    if event.dropped:
        yield f"{line}: {'dropped' if event.dropped == 1 else f'{event.dropped} parts dropped'} by a processor"
    if not event.tables and not event.rejects and not event.dropped:
        yield f"{line}: skipped: no route matches, `operation` skips it, or it changes no row"


def _reason(reject: RejectReason) -> str:
    return f"{reject.code}{f' in {reject.field}' if reject.field else ''}: {reject.reason}"


def _table(table: TableFate) -> Iterator[str]:
    done = "would be created" if table.created else "would get columns" if table.statements else "needs no change"
    if table.documents:
        yield f"{table.table}: {many(table.rows, 'event')} for the target, which may refuse them"
        return
    yield f"{table.table}: {many(table.rows, 'row')}, {done}"
    for statement in table.statements:
        yield from (f"  {line}" for line in statement.splitlines())
    for column, count in table.nulled.items():
        yield harmless(f"  {column}: {many(count, 'value')} not coercible to its type would become NULL")
    for rule, count in table.failed_rules.items():
        verdict = f"{many(count, 'row')} would not follow it" if count else "all rows follow it"
        yield harmless(f"  rule {rule}: {verdict}")
    for rule, verdict in table.verdicts.items():
        yield harmless(f"  publish rule {rule} {verdict}")
    for name, count in table.ignored.items():
        is_part = name.endswith((" (repeated)", " (rounded)"))
        why = "would not be written whole" if is_part else "has no column; would not be written"
        why = "has no column; would be in that of the overflow" if " (in " in name else why
        yield harmless(f"  {name}: {why} in {many(count, 'event')}")


def _summary(outcome: Trial) -> str:
    rows = sum(table.rows for table in outcome.tables)
    what = "target" if any(table.documents for table in outcome.tables) else "table"
    counts = [f"{many(rows, 'row')} for {many(len([target for target in outcome.tables if target.rows]), what)}"]
    rejected = sum(bool(event.rejects) for event in outcome.events)
    unrouted = sum(not event.tables and not event.rejects and not event.dropped for event in outcome.events)
    dropped = sum(event.dropped for event in outcome.events)
    counts += [f"{rejected:,} rejected"] * bool(rejected) + [f"{unrouted:,} skipped"] * bool(unrouted)
    counts += [f"{dropped:,} dropped"] * bool(dropped)
    return f"{many(len(outcome.events), 'event')}: {', '.join(counts)}. Nothing was written."


def _notes(outcome: Trial) -> Iterator[str]:
    from calve.event.envelope.shape import WRAPPED  # brings Arrow

    for what, names in outcome.missing_metadata.items():
        how = " (--key-delimiter, or one key for all with --metadata)" if names == ["kafka_key"] else ""
        yield f"Note: {what} uses metadata that sample events lack: {', '.join(names)}{how}"
    for table in outcome.wrapped:
        yield f"Note: the events of the table {harmless(table)} consist of schema and payload: {WRAPPED}"
    if outcome.has_unused_schema:
        yield "Note: the sample is JSON, so the schema of the topics is not used: types are those of its values"
