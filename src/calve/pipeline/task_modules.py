"""The modules that tasks import; nothing here needs Spark, which is slow to import."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Sequence

from calve.engine.workers.environment import PRELOADED
from calve.pipeline.masking import without_masks
from calve.settings import PipelineSettings

__all__ = ["task_modules"]


def task_modules(pipelines: Sequence[PipelineSettings]) -> list[str]:
    """Return the modules that tasks of the pipelines import: one process imports them for all workers of a machine."""
    sources = {f"calve.sources.{pipeline.source.name}.reader" for pipeline in pipelines}
    sinks = {f"calve.sinks.{sink.name}.job" for pipeline in pipelines for sink in pipeline.sinks}
    duckdb = ["duckdb"] if any(map(_evaluates, pipelines)) else []
    return [*PRELOADED, "calve.task.task", *filter(_is_there, sorted(sources | sinks)), *duckdb]


def _is_there(module: str) -> bool:
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.util.find_spec(module) is not None
    return False


def _evaluates(pipeline: PipelineSettings) -> bool:
    """Return whether tasks evaluate SQL: for routes, names of tables, changes of rows or documents."""
    return bool(pipeline.routes or pipeline.branches or without_masks(pipeline.processors)) or any(
        sink.value.evaluates for sink in pipeline.sinks
    )
