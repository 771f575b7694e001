"""Tries what a configuration names: do catalogs and sources answer, and are the tables and topics there?"""

from __future__ import annotations

import functools
import queue
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from calve.commit.catalog import Catalog, embedded
from calve.commit.sqlite import sqlite_file
from calve.durable import try_folder
from calve.engine import session
from calve.errors import CalveError, InvariantError, NoTargetError
from calve.pipeline.plugins import open_source, reads_tables
from calve.pipeline.preflight import EMBEDDED, sink_folders
from calve.pipeline.run import Catalogs, needs_s3
from calve.settings import PipelineSettings
from calve.sinks.iceberg.dead_letters import check_letters
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.iceberg.targets import missing
from calve.sinks.opensearch.client import Client, access_of
from calve.sinks.opensearch.settings import OpenSearchSettings
from calve.sinks.opensearch.template import reach
from calve.sources.http.server import try_port
from calve.sources.iceberg.source import IcebergSource
from calve.write.parquet import try_writing

__all__ = ["check"]

_PATIENCE_SECONDS = 60.0
"""How long all of it may take; what has not answered by then is a problem."""

Probe = tuple[str, Callable[[], None]]
"""What is tried, in words, and how; it raises what is wrong."""


def check(pipelines: Sequence[PipelineSettings]) -> list[str]:
    """Try every source and every catalog side by side, for a bounded time; nothing is accepted, and nothing stays.

    Returns:
        A sentence for each problem, in the order of the configuration.
    """
    probes = [
        (f"{one.name}: the source {one.source.name}", _source_probe(one)) for one in pipelines if not reads_tables(one)
    ]
    probes += _cluster_probes(pipelines)
    if not any(reads_tables(one) or _has_tables(one) for one in pipelines):
        return _answers(probes)
    try:
        spark = session.start(needs_s3=needs_s3(pipelines))
    except CalveError as error:
        return [*_answers(probes), str(error)]
    try:
        return _answers([*probes, *_table_probes(pipelines, spark), *_sink_probes(pipelines, spark)])
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
    except Exception as error:  # a thread's error would be lost
        answers.put((number, f"{type(error).__name__}: {error}"))
    else:
        answers.put((number, ""))


def _source_probe(settings: PipelineSettings) -> Callable[[], None]:
    if settings.source.name == "http":
        return lambda: try_port(settings.source.value)
    return lambda: _opens(settings)


def _opens(settings: PipelineSettings) -> None:
    """Start a source as at its first run, in a folder that is thrown away; one that only reads takes nothing by it."""
    with tempfile.TemporaryDirectory(prefix="calve-connect-") as folder:
        source = open_source(settings, Path(folder), _no_catalog)
        try:
            source.start(None, True)
        finally:
            source.stop()


def _no_catalog(properties: Mapping[str, str]) -> tuple[str, Catalog]:
    raise InvariantError("This source has no catalog", step="connect")


def _has_tables(settings: PipelineSettings) -> bool:
    return any(isinstance(sink.value, IcebergSettings) for sink in settings.sinks)


def _table_probes(pipelines: Sequence[PipelineSettings], spark: SparkSession) -> Iterator[Probe]:
    catalog_of = Catalogs(spark).get
    for one in pipelines:
        if reads_tables(one):
            source = open_source(one, Path(), catalog_of)
            assert isinstance(source, IcebergSource)
            yield f"{one.name}: the source {one.source.name}", source.find


def _sink_probes(pipelines: Sequence[PipelineSettings], spark: SparkSession) -> Iterator[Probe]:
    for one in pipelines:
        for sink in one.sinks:
            if isinstance(sink.value, IcebergSettings):
                yield f"{sink.pipeline}: the sink {sink.name}", _sink_probe(sink.value, spark)


def _cluster_probes(pipelines: Sequence[PipelineSettings]) -> Iterator[Probe]:
    for one in pipelines:
        for sink in one.sinks:
            if isinstance(sink.value, OpenSearchSettings):
                client = Client(access_of(sink.value))
                yield f"{sink.pipeline}: the sink {sink.name}", functools.partial(reach, client)


def _sink_probe(settings: IcebergSettings, spark: SparkSession) -> Callable[[], None]:
    return lambda: _try_sink(settings, spark)


def _try_sink(settings: IcebergSettings, spark: SparkSession) -> None:
    """Ask the catalog for the table and write where its files would be; leave everything as it was.

    A catalog in a local file that is not there yet is not made: then only its folders are tried.

    Raises:
        CalveError: The catalog does not answer, a table that may not be created is missing, the table of dead letters
            is none, or files cannot be written.
    """
    for folder in sink_folders(settings):
        try_folder(folder)
    properties = settings.catalog or embedded(Path(EMBEDDED))
    file = sqlite_file(properties)
    if file is not None and not file.is_file():
        if not settings.dynamic and not settings.auto_create:
            raise missing(settings.table_identifier, properties.get("name", "iceberg"))
        return
    catalog = Catalog(spark, properties)
    found = None if settings.dynamic else catalog.load(settings.table_identifier)
    if letters := catalog.load(settings.dlq_table) if settings.dlq_table else None:
        check_letters(letters)
    if found is not None:
        try_writing(found.location, found.io_properties)
    elif settings.auto_create:
        _try_creating(catalog, settings)
    elif not settings.dynamic:
        raise missing(settings.table_identifier, catalog.name)
    else:
        catalog.load(f"{_namespace(settings) or 'calve_probe'}.calve_probe")


def _namespace(settings: IcebergSettings) -> str:
    """Return the part of the namespace that does not depend on the event."""
    return settings.table_identifier.partition("${")[0].rpartition(".")[0]


def _try_creating(catalog: Catalog, settings: IcebergSettings) -> None:
    """Try what creating a table needs; a namespace is made if the catalog wants one, and removed again."""
    namespace = _namespace(settings) or f"calve_probe_{uuid.uuid4().hex}"
    table = settings.table_properties, settings.table_location
    try:
        stored = catalog.try_storing(namespace, *table)
    except NoTargetError:
        with catalog.namespace(namespace):
            stored = catalog.try_storing(namespace, *table)
    try_writing(stored["location"], stored)
