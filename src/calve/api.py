"""Calve from Python: notebooks, Airflow, pytest. `import calve` offers these functions and types as `calve.run` etc.

Names and arguments are stable from version 0.1 on; docs/python.md explains them. A configuration is the path of a YAML
file or of a folder of them, YAML text (a string with a line break), or a mapping with the keys of the YAML.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any, cast

import msgspec

import calve.pipeline.run as pipelines_run
from calve.errors import CalveError, RunError, SettingsError
from calve.observe.report import PipelineReport
from calve.observe.status_file import read_reports
from calve.observe.watch import Watch
from calve.operate.configuration import Config, parsed
from calve.operate.dry_run import Trial, dry_run
from calve.operate.probe import check
from calve.operate.quick import written_pipeline
from calve.operate.write_rows import WrittenBatches, as_table
from calve.pipeline.plugins import declared
from calve.settings import SettingsErrors, only
from calve.sources.file.sample import sample_lines, sample_values

__all__ = [
    "CalveError",
    "Config",
    "PipelineReport",
    "RunError",
    "SettingsError",
    "Trial",
    "Validation",
    "run",
    "status",
    "try_events",
    "validate",
    "write_rows",
]


@dataclass(frozen=True)
class Validation:
    """What `validate` found.

    Attributes:
        pipelines: The names of the pipelines; empty if there are errors in the configuration itself.
        errors: One sentence each, with file, line and column.
        warnings: Likewise, for what works but is probably not meant.
    """

    pipelines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return not self.errors


def run(
    config: Config,
    *,
    once: bool = False,
    state: str | Path = "./calve-state",
    conf: Mapping[str, str] | None = None,
    give_up_after: timedelta = timedelta(minutes=2),
    stop: Event | None = None,
) -> dict[str, PipelineReport]:
    """Run pipelines, as `calve run` does; log lines go to the logger `calve`.

    Ctrl-C asks the pipelines to commit what they have read and to end; the function then returns.

    Args:
        config: The configuration; see above.
        once: Read what is in the sources now, commit it, and return. Else run until `stop` is set.
        state: The folder for progress, rejects and status.
        conf: Spark settings; `spark.master` is `local[*]` if not given.
        give_up_after: How long `once`, and a run that is stopping, retry if a server does not answer.
        stop: Set it in another thread to end the run.

    Returns:
        The report of each pipeline at its end, by name; `report.run` has the counts of this run.

    Raises:
        SettingsError: The configuration is wrong; nothing was started.
        RunError: A pipeline failed; the others have run to their end. It has the `reports`.
        CalveError: Nothing could be started.
    """
    configuration = parsed(config)
    settings = dict(conf or {})
    master = settings.pop("spark.master", None)
    options = pipelines_run.RunOptions(str(state), master, settings, once, give_up_after, allow_empty=True)
    with Watch() as watch:
        watch.stop = stop or watch.stop
        with ThreadPoolExecutor(1, "calve-run") as thread:  # PySpark handles SIGINT if it starts on the main thread
            ended = thread.submit(pipelines_run.run, configuration.pipelines, options, watch)
            try:
                failed = ended.result() != 0
            except KeyboardInterrupt:
                watch.stop.set()
                failed = ended.result() != 0
        reports = {report.pipeline: report for report in watch.reports()}
        if failed:
            raise _failed(watch, reports)
    return reports


def validate(config: Config, *, connect: bool = False) -> Validation:
    """Check a configuration, as `calve validate` does; nothing is started or written.

    Args:
        config: The configuration; see above.
        connect: Also connect to catalogs and sources, and write and remove a small file in the location of the tables.
    """
    try:
        configuration = parsed(config)
    except SettingsErrors as wrong:
        return Validation(errors=list(map(str, wrong.problems)))
    names = [name for pipeline in configuration.pipelines for name in (pipeline.name, *pipeline.feeds)]
    errors = check(configuration.pipelines) if connect else []
    return Validation(names, errors, list(map(str, configuration.warnings)))


def try_events(
    config: Config,
    events: Iterable[Mapping[str, Any] | str | bytes],
    *,
    pipeline: str | None = None,
    metadata: Mapping[str, int | str] | None = None,
) -> Trial:
    """Return what a pipeline would do with sample events, as `calve try` does; nothing is written.

    Args:
        config: The configuration; see above.
        events: Each a mapping, or its JSON text in one line, which may also be malformed. Of a topic with a schema
            registry also the bytes of values, each with the id of its schema.
        pipeline: The name of the pipeline, if there are several.
        metadata: Metadata that each event has (`getMetadata`); without it, all is missing.

    Raises:
        SettingsError: The configuration is wrong, or the pipeline or metadata has another name.
        CalveError: The pipeline would not start, or a catalog does not answer.
    """
    settings = only(parsed(config).pipelines, pipeline)
    given = list(events)
    if (
        given
        and declared(settings).serde
        and all(isinstance(sample, bytes) and sample.startswith(b"\0") for sample in given)
    ):
        return dry_run(settings, sample_values(cast("list[bytes]", given)), metadata, is_encoded=True)
    lines = b"".join(_line(event) + b"\n" for event in given)
    return dry_run(settings, sample_lines(lines, "events"), metadata)


def status(state: str | Path = "./calve-state") -> dict[str, PipelineReport]:
    """Return the last report of each pipeline of a state folder, by name; empty if none has run."""
    return {report.pipeline: report for report in read_reports(str(state))}


def write_rows(
    rows: Any,
    table: str,
    *,
    key: Sequence[str] = (),
    batch_id: str | None = None,
    state: str | Path = "./calve-state",
) -> int:
    """Write rows into a table of ./lakehouse, and create it if it is new; return how many rows were committed.

    Rows have the types of Arrow. Call it again after a failure, with the same `batch_id`: what was committed is not
    written again, whatever `rows` are then.

    Args:
        rows: A list of mappings, or a table of Arrow, pandas, polars or DuckDB (anything with Arrow's stream).
        table: Namespace and table, e.g. `shop.orders`.
        key: The columns that identify a row; a row with the same key is replaced.
        batch_id: The identity of these rows in this table and state; None: they are new.
        state: The state folder, on a local disk.

    Raises:
        SettingsError: The rows are no table, or the names are wrong.
        RunError: It failed; call it again with the same `batch_id`.
        CalveError: Some rows were rejected; the others are in the table. `calve dlq show` has the reasons.
    """
    batches, batch = WrittenBatches(Path(state), table), batch_id or uuid.uuid4().hex
    if batches.has(batch):
        return 0
    batches.add(batch, as_table(rows))
    (report,) = run(written_pipeline(str(batches.folder), table, key), once=True, state=state).values()
    batches.committed(batch)
    if rejects := report.run.rejects:
        counts = ", ".join(f"{code} {count:,}" for code, count in rejects.items())
        hint = "calve dlq show has the reasons"
        raise CalveError(f"Rows of {table} were rejected: {counts}", step="write", target=table, hint=hint)
    return sum(report.run.rows.values())


def _line(event: Mapping[str, Any] | str | bytes) -> bytes:
    if isinstance(event, str):
        return event.encode(errors="surrogatepass")
    return event if isinstance(event, bytes) else msgspec.json.encode(event)


def _failed(watch: Watch, reports: dict[str, PipelineReport]) -> RunError:
    reasons = {name: health.error for name, health in watch.health().items() if health.state == "failed"}
    message = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return RunError(f"A pipeline failed: {message}", step="run", target=", ".join(reasons), reports=reports)
