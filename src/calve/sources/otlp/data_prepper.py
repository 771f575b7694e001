"""The options of Data Prepper's sources of one signal each; such a source becomes an `otlp` source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, ClassVar, Literal

from calve.settings import option
from calve.sources.http.settings import ListenerSettings
from calve.sources.otlp.settings import PROMOTE, OtlpListenerSettings, OtlpSourceSettings, option_faults

__all__ = ["OneSignalSettings"]

_UNUSED = "Accepted for compatibility with Data Prepper; no effect"
_PATH = "Path of requests; `${pipelineName}` is replaced."


@dataclass(frozen=True)
class OneSignalSettings(OtlpListenerSettings):
    """Receives one signal of OpenTelemetry over gRPC and HTTP, by Data Prepper's keys; see `otlp`."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "partition_keys": "it is for buffers, which Calve does not need",
        "acmCertIssueTimeOutMillis": "certificates are files",
        "awsRegion": "certificates are files, so AWS is not asked",
        "max_connection_age": "connections stay",
        "connection_drain_duration": "open requests are answered before the end",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("acmCertificateArn", "acmPrivateKeyPassword", "sslCertAndKeyFileInS3", "ssl_cert_and_key_file_in_s3"),
            "is not supported: set ssl_certificate_file and ssl_key_file",
        ),
    }

    signal: ClassVar[str]
    standard_path: ClassVar[str]

    path: str | None = option(None, f"{_PATH} Default: the path of OTLP, e.g. `/v1/logs`.", aliases=("http_path",))
    promote: list[str] = option([], PROMOTE)
    output_format: Literal["otel", "opensearch"] = option(
        "otel", "Only `otel`: the columns are those of OpenTelemetry. Data Prepper's default is opensearch."
    )
    ssl: bool | None = option(  # type: ignore[assignment]
        None, "Serve HTTPS. Default: if there is a certificate; Data Prepper's default is true."
    )
    ssl_certificate_file: str | None = option(
        None, "Certificate chain in PEM form; needed with `ssl`.", aliases=("sslKeyCertChainFile",)
    )
    ssl_key_file: str | None = option(None, "Private key in PEM form; needed with `ssl`.", aliases=("sslKeyFile",))
    use_acm_certificate: bool = option(False, "Refused: AWS is not asked.", aliases=("useAcmCertForSSL",))
    unframed_requests: bool = option(True, f"{_UNUSED}: requests over HTTP are always accepted.")
    proto_reflection_service: bool = option(False, f"{_UNUSED}.")
    retry_info: dict[str, Any] | None = option(None, f"{_UNUSED}: answers have their own `Retry-After`.")
    request_timeout: timedelta = option(
        timedelta(seconds=10),
        "Maximum time until a request has arrived completely, and again until it is written to disk; then the answer "
        "is 503.",
        minimum=timedelta(milliseconds=2),
        unit="ms",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse what Calve does not do, by name."""
        if self.path is not None:
            yield from self.path_faults("path", self.path)
        if self.use_acm_certificate:
            yield "use_acm_certificate", "is not supported: set ssl_certificate_file and ssl_key_file"
        yield from option_faults(self.promote, self.output_format)
        yield from super().check()

    def plugin(self) -> tuple[str, OtlpSourceSettings]:
        """Return the source that serves the signal: its name and its settings."""
        shared = {field.name: getattr(self, field.name) for field in fields(ListenerSettings) if field.name != "ssl"}
        paths: dict[str, Any] = dict.fromkeys(("logs_path", "traces_path", "metrics_path"))
        paths[f"{self.signal}_path"] = self.path or self.standard_path
        ssl: bool = self.ssl_certificate_file is not None if self.ssl is None else self.ssl
        return "otlp", OtlpSourceSettings(**shared, **paths, grpc_port=None, ssl=ssl, promote=self.promote)
