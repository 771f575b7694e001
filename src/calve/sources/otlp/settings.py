"""The options of the otlp source: those of `http`, and the paths and columns of OpenTelemetry's signals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from calve.settings import Size, option
from calve.sources.http.body import DEFLATE_RATIO
from calve.sources.http.settings import ListenerSettings
from calve.sources.otlp.tables import TABLES, column_of

__all__ = ["PROMOTE", "SETTINGS", "SIGNAL", "OtlpListenerSettings", "OtlpSourceSettings", "option_faults"]

SIGNAL = "signal"
"""Metadata column: `logs`, `traces` or `metrics`."""
PROMOTE = (
    "Attributes that also get a column, e.g. `[http.route]`: `http_route`, a text. The value is that of the record, or "
    "else of its scope, or its resource. `service.name` always has the column `service_name`."
)
_MOST_LENGTH = 500 << 20
"""A body of HTTP/2 is refused while all bodies that arrive take more than `HELD_BYTES`: one alone must not."""
_PATH = "Path of requests with {}; `null`: they are not accepted. `${{pipelineName}}` is replaced."


@dataclass(frozen=True)
class OtlpListenerSettings(ListenerSettings):
    """What every source of OpenTelemetry accepts."""

    max_request_length: Size = option(
        Size(20 << 20),
        "Maximum size of a body, compressed and decompressed; larger ones are answered with 413.",
        minimum=1,
        maximum=_MOST_LENGTH,
    )
    max_compression_ratio: int = option(
        DEFLATE_RATIO,
        "How many times its own length a body of gzip may unpack to, if that is more than 1 MB; otherwise the answer "
        "is 413. Default: gzip's own limit, because spans that are alike pack well.",
        minimum=1,
    )


@dataclass(frozen=True)
class OtlpSourceSettings(OtlpListenerSettings):
    """Receives logs, traces and metrics of OpenTelemetry over gRPC and HTTP; stores them until they are committed."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "unframed_requests": "requests over HTTP are always accepted",
        "proto_reflection_service": "it is for tools of gRPC",
        "retry_info": "answers have their own Retry-After",
        "max_connection_age": "connections stay",
        "connection_drain_duration": "open requests are answered before the end",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("logs_output_format", "traces_output_format", "metrics_output_format"),
            "is not needed: the columns are those of OpenTelemetry; leave it out",
        ),
        "ssl_cert_and_key_file_in_s3": "is not supported: set ssl_certificate_file and ssl_key_file",
    }

    table_defaults: ClassVar[Mapping[str, list[str]]] = {
        "partition_by": ["day(timestamp)"],
        "sort_by": ["service_name", "timestamp"],
    }

    port: int = option(4318, "TCP port to listen on; 0 takes any free one.", minimum=0, maximum=65535)
    grpc_port: int | None = option(
        4317,
        "Second TCP port, where clients of gRPC send by default; `null`: none. Both ports understand both protocols.",
        minimum=0,
        maximum=65535,
    )
    logs_path: str | None = option("/v1/logs", _PATH.format("logs"))
    traces_path: str | None = option("/v1/traces", _PATH.format("traces"))
    metrics_path: str | None = option("/v1/metrics", _PATH.format("metrics"))
    promote: list[str] = option([], PROMOTE)
    output_format: Literal["otel", "opensearch"] = option(
        "otel", "Only `otel`: the columns are those of OpenTelemetry."
    )

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        """The signal, and the kept headers."""
        return {SIGNAL: pa.string(), **super().metadata}

    @property
    def ports(self) -> Mapping[str, int]:
        """The ports that it listens on, by the options that set them."""
        if self.grpc_port is None or self.grpc_port == self.port != 0:
            return {"port": self.port}
        return {"port": self.port, "grpc_port": self.grpc_port}

    def other_port(self, key: str) -> str:
        """Return what to set when the port of an option is taken: the other port understands everything, too."""
        other = super().other_port(key)
        if len(self.ports) == 1 or (key == "port" and not self.grpc_port):
            return other
        alone = "`grpc_port: null`" if key == "grpc_port" else f"`port: {self.grpc_port}`"
        return f"{other}, or {alone}: then one port serves HTTP and gRPC"

    def signals(self, pipeline: str) -> dict[str, str]:
        """Return the signal of each path."""
        paths = {"logs": self.logs_path, "traces": self.traces_path, "metrics": self.metrics_path}
        return {path.replace("${pipelineName}", pipeline): signal for signal, path in paths.items() if path}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong between the options."""
        paths = {key: getattr(self, key) for key in ("logs_path", "traces_path", "metrics_path")}
        given = {key: path for key, path in paths.items() if path is not None}
        if not given:
            yield "", "accepts nothing: set logs_path, traces_path or metrics_path"
        for key, path in given.items():
            yield from self.path_faults(key, path)
            if [*given.values()].index(path) != [*given].index(key):
                yield key, f"{path} is the path of another signal, too"
        yield from option_faults(self.promote, self.output_format)
        yield from super().check()


def option_faults(promote: list[str], output_format: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with `promote` and `output_format`."""
    if output_format != "otel":
        yield "output_format", "must be otel: rows have the columns of OpenTelemetry (docs/otlp.md)"
    own = {name for schema in TABLES.values() for name in schema.names} - {"service_name"}
    names: dict[str, str] = {}
    for index, attribute in enumerate(promote):
        column = column_of(attribute)
        if not attribute:
            yield f"promote[{index}]", "an attribute has a name"
        elif column.lower() in own:
            yield (
                f"promote[{index}]",
                f"{attribute} would get the column {column}, which every table has for something else",
            )
        elif names.setdefault(column.lower(), attribute) != attribute:
            yield f"promote[{index}]", f"{attribute} and {names[column.lower()]} would share the column {column}"


SETTINGS = OtlpSourceSettings
