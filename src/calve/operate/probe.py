"""Checks the systems of a configuration: do catalogs and sources answer, do tables and topics exist?"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calve.catalog.catalog import Catalog
from calve.credentials import in_short
from calve.engine import session
from calve.engine.engine import Engine
from calve.errors import CalveError, InvariantError, SourceError
from calve.event.columns import MALFORMED
from calve.pipeline.plugins import open_source, probe_sink, reads_tables, serde_of, targets_of
from calve.pipeline.run import Catalogs
from calve.pipeline.spark_needs import needs_s3
from calve.route.shared_targets import SharedTargets
from calve.serde import decoder
from calve.settings import PipelineSettings
from calve.sources.http.server import try_port
from calve.sources.iceberg.source import IcebergSource
from calve.sources.mysql import source as mysql
from calve.sources.postgres import source as postgres
from calve.sources.s3 import source as s3
from calve.sources.source import Source

__all__ = ["check"]

_PATIENCE_SECONDS = 60.0
"""The time limit of all checks together; a system without an answer is a problem."""

_DATABASES: dict[str, Callable[[Any, str, SharedTargets], None]] = {"mysql": mysql.check, "postgres": postgres.check}
"""The checks of databases, which change nothing there."""
Probe = tuple[str, Callable[[], None]]
"""The name of a check, and the check; it raises the problem."""


def check(pipelines: Sequence[PipelineSettings], conf: Mapping[str, str] | None = None) -> list[str]:
    """Check every source and catalog in parallel, for a bounded time; no event is accepted, and nothing remains.

    Args:
        pipelines: The pipelines.
        conf: Spark's settings, such as the class path of a driver.

    Returns:
        A sentence for each problem, in the order of the configuration.
    """
    probes = [
        (f"{one.name}: the source {one.source.name}", _source_probe(one)) for one in pipelines if not reads_tables(one)
    ]
    probes += [(f"{one.name}: the schemas", partial(_check_schemas, one)) for one in pipelines]
    probes += _sink_probes(pipelines, False)
    has_tables = any(sink.value.has_tables for one in pipelines for sink in one.sinks)
    if not has_tables and not any(map(reads_tables, pipelines)):
        return _answers(probes)
    try:
        spark = session.start(conf=conf, needs_s3=needs_s3(pipelines))
    except CalveError as error:
        return [*_answers(probes), str(error)]
    try:
        return _answers([*probes, *_table_probes(pipelines, spark), *_sink_probes(pipelines, True, spark)])
    finally:
        session.stop(spark)


def _answers(probes: Sequence[Probe]) -> list[str]:
    answers: queue.Queue[tuple[int, str]] = queue.Queue()
    for number, (_, probe) in enumerate(probes):
        threading.Thread(target=_ask, args=(number, probe, answers), daemon=True).start()
    waiting = dict.fromkeys(range(len(probes)), f"does not answer within {_PATIENCE_SECONDS:.0f} s")
    problems: dict[int, str] = {}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while waiting and (left := deadline - time.monotonic()) > 0:
        try:
            number, problem = answers.get(timeout=left)
        except queue.Empty:
            break
        del waiting[number]
        if problem:
            problems[number] = problem
    found = problems | waiting
    return list(dict.fromkeys(f"{probes[number][0]}: {found[number]}" for number in sorted(found)))


def _ask(number: int, probe: Callable[[], None], answers: queue.Queue[tuple[int, str]]) -> None:
    try:
        probe()
    except CalveError as error:
        answers.put((number, str(error)))
    except Exception as error:  # an error of a thread would be lost
        answers.put((number, in_short(error)))
    else:
        answers.put((number, ""))


def _source_probe(settings: PipelineSettings) -> Callable[[], None]:
    if settings.source.name == "http":
        return lambda: try_port(settings.source.value)
    if check := _DATABASES.get(settings.source.name):
        return lambda: check(settings.source.value, settings.name, targets_of(settings))
    if settings.source.name == "s3" and settings.source.value.sqs:
        return lambda: s3.check(settings.source.value)
    return lambda: _opens(settings)


def _check_schemas(settings: PipelineSettings) -> None:
    if serde := serde_of(settings):
        decoder.check(serde)


def _opens(settings: PipelineSettings) -> None:
    """Start a source as in its first run, in a temporary folder; sources that only read consume nothing."""
    with tempfile.TemporaryDirectory(prefix="calve-connect-") as folder:
        source = open_source(settings, Path(folder), _no_catalog)
        try:
            source.start(None, True)
            if settings.source.name in ("file", "s3"):
                _read_first(source)
        finally:
            source.stop()


def _read_first(source: Source) -> None:
    """Read the start of the first file: an unreadable file becomes a dead letter, and probably similar files, too.

    Raises:
        SourceError: It cannot be read.
    """
    planned = source.plan(None, 1)
    first = next(source.reader.read(planned.splits[0]), None) if planned else None
    if first and MALFORMED in first.schema.names and (reason := first[MALFORMED][0].as_py()):
        hint = "Correct the file, or the source's codec; otherwise `run` makes the file a dead letter and continues"
        raise SourceError(reason, step="connect", target="source", hint=hint)


def _no_catalog(properties: Mapping[str, str]) -> tuple[str, Catalog]:
    raise InvariantError("This source has no catalog", step="connect")


def _table_probes(pipelines: Sequence[PipelineSettings], spark: Engine) -> Iterator[Probe]:
    catalog_of = Catalogs(spark).get
    for one in pipelines:
        if reads_tables(one):
            source = open_source(one, Path(), catalog_of)
            assert isinstance(source, IcebergSource)
            yield f"{one.name}: the source {one.source.name}", source.find


def _sink_probes(
    pipelines: Sequence[PipelineSettings], has_tables: bool, spark: Engine | None = None
) -> Iterator[Probe]:
    for one in pipelines:
        for sink in one.sinks:
            if sink.value.has_tables == has_tables:
                tried = partial(probe_sink, sink.name, sink.value, spark)
                yield f"{sink.pipeline}: the sink {sink.name}", tried
