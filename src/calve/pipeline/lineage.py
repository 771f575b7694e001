"""What a configuration says about the way from a source to tables."""

from __future__ import annotations

from calve.notify.lineage import Lineage
from calve.pipeline.plugins import declared
from calve.settings import PipelineSettings

__all__ = ["lineage_of"]


def lineage_of(settings: PipelineSettings, name: str) -> Lineage:
    """Return what is known of a pipeline that runs under a name, without tables."""
    sinks = [sink.value for sink in settings.sinks]
    added = (column for sink in sinks for column in getattr(sink, "metadata_columns", ()))
    is_by_name = not settings.every_processor and not any(sink.adds_keys for sink in sinks)
    return Lineage(name, declared(settings).datasets, is_by_name, frozenset(added))
