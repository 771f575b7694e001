"""What pipelines need of Spark's JVM. Imports nothing of Spark, because the JVM starts first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calve.catalog import storage
from calve.engine.jvm.plan import READING
from calve.pipeline.plugins import declared
from calve.settings import PipelineSettings

__all__ = ["needs_s3", "spark_conf"]

_PACKAGES = "spark.jars.packages"


def needs_s3(pipelines: Sequence[PipelineSettings]) -> bool:
    """Return whether a sink or a source table is on S3, which needs Iceberg's AWS bundle."""
    read = [catalog for pipeline in pipelines for catalog in declared(pipeline).catalogs]
    written = [sink.value.locations for pipeline in pipelines for sink in pipeline.sinks]
    return any(storage.needs_s3(properties) for properties in read + written)


def spark_conf(pipelines: Sequence[PipelineSettings], conf: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings for pipelines; those of the user override them, and their packages are added."""
    needed = READING if any(declared(pipeline).needs_spark for pipeline in pipelines) else {}
    packages = [package for pipeline in pipelines for package in declared(pipeline).jars]
    added = ",".join(dict.fromkeys([*filter(None, [conf.get(_PACKAGES)]), *packages]))
    return needed | dict(conf) | ({_PACKAGES: added} if added else {})
