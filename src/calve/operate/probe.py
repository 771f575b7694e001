"""Checks the systems of a configuration: do catalogs and sources answer, do tables and topics exist?"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from calve.catalog.catalog import Catalog
from calve.credentials import in_short
from calve.engine import session
from calve.engine.engine import Engine
from calve.errors import CalveError, InvariantError
from calve.notify.receivers import open_receiver
from calve.pipeline.announcer import subscriptions
from calve.pipeline.plugins import declared, probe_sink, probe_source
from calve.pipeline.run import Catalogs
from calve.pipeline.spark_needs import needs_s3, spark_conf
from calve.serde import decoder
from calve.settings import PipelineSettings
from calve.sinks.sink import CatalogOf
from calve.state.local_folder import LocalFolder

__all__ = ["check"]

_PATIENCE_SECONDS = 60.0
"""The time limit of all checks together; a system without an answer is a problem."""

Probe = tuple[str, Callable[[], None]]
"""The name of a check, and the check; it raises the problem."""


def check(pipelines: Sequence[PipelineSettings], conf: Mapping[str, str] | None = None) -> list[str]:
    """Check every source, catalog and receiver in parallel, for a bounded time; no event is accepted, nothing remains.

    Args:
        pipelines: The pipelines.
        conf: Spark's settings, such as the class path of a driver.

    Returns:
        A sentence for each problem, in the order of the configuration.
    """
    probes = _source_probes(pipelines, False, _no_catalog)
    probes += [(f"{pipeline.name}: the schemas", partial(_check_schemas, pipeline)) for pipeline in pipelines]
    probes += _sink_probes(pipelines, False)
    probes += _receiver_probes(pipelines)
    probes += _letter_probes(pipelines)
    has_tables = any(sink.value.has_tables for pipeline in pipelines for sink in pipeline.sinks)
    if not has_tables and not any(declared(pipeline).needs_spark for pipeline in pipelines):
        return _answers(probes)
    try:
        spark = session.start(conf=spark_conf(pipelines, conf or {}), needs_s3=needs_s3(pipelines))
    except CalveError as error:
        return [*_answers(probes), str(error)]
    try:
        probes += _source_probes(pipelines, True, Catalogs(spark).get)
        return _answers([*probes, *_sink_probes(pipelines, True, spark)])
    finally:
        session.stop(spark)


def _answers(probes: Sequence[Probe]) -> list[str]:
    answers: queue.Queue[tuple[int, str]] = queue.Queue()
    for number, (_, probe) in enumerate(probes):
        threading.Thread(target=_ask, args=(number, probe, answers), daemon=True).start()
    waiting = dict.fromkeys(range(len(probes)), f"does not answer within {_PATIENCE_SECONDS:.0f} s")
    problems: dict[int, str] = {}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while waiting and (seconds_left := deadline - time.monotonic()) > 0:
        try:
            number, problem = answers.get(timeout=seconds_left)
        except queue.Empty:
            break
        del waiting[number]
        if problem:
            problems[number] = problem
    problem_of = problems | waiting
    return list(dict.fromkeys(f"{probes[number][0]}: {problem_of[number]}" for number in sorted(problem_of)))


def _ask(number: int, probe: Callable[[], None], answers: queue.Queue[tuple[int, str]]) -> None:
    try:
        probe()
    except CalveError as error:
        answers.put((number, str(error)))
    except Exception as error:  # an error of a thread would be lost
        answers.put((number, in_short(error)))
    else:
        answers.put((number, ""))


def _source_probes(pipelines: Sequence[PipelineSettings], needs_spark: bool, catalog_of: CatalogOf) -> list[Probe]:
    return [
        (f"{pipeline.name}: the source {pipeline.source.name}", partial(_probe_source, pipeline, catalog_of))
        for pipeline in pipelines
        if declared(pipeline).needs_spark == needs_spark
    ]


def _probe_source(settings: PipelineSettings, catalog_of: CatalogOf) -> None:
    with tempfile.TemporaryDirectory(prefix="calve-connect-") as folder:
        probe_source(settings, LocalFolder(Path(folder)), catalog_of)


def _check_schemas(settings: PipelineSettings) -> None:
    if serde := declared(settings).serde:
        decoder.check(serde)


def _receiver_probes(pipelines: Sequence[PipelineSettings]) -> Iterator[Probe]:
    for pipeline in pipelines:
        for receiver in subscriptions(pipeline):
            yield f"{pipeline.name}: notify", open_receiver(receiver.settings).probe


def _letter_probes(pipelines: Sequence[PipelineSettings]) -> Iterator[Probe]:
    for sink in (sink for pipeline in pipelines for sink in pipeline.sinks):
        if topic := sink.value.dlq_topic:
            from calve.sinks.kafka import letters  # brings the client

            yield f"{sink.pipeline}: the topic of dead letters", partial(letters.probe, topic)


def _no_catalog(properties: Mapping[str, str]) -> tuple[str, Catalog]:
    raise InvariantError("This source has no catalog", step="connect")


def _sink_probes(
    pipelines: Sequence[PipelineSettings], has_tables: bool, spark: Engine | None = None
) -> Iterator[Probe]:
    for pipeline in pipelines:
        for sink in pipeline.sinks:
            if sink.value.has_tables == has_tables:
                tried = partial(probe_sink, sink.name, sink.value, spark)
                yield f"{sink.pipeline}: the sink {sink.name}", tried
