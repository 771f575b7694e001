"""An otlp source on a free port, and a client for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from calve.event.columns import TYPED
from calve.settings import Size
from calve.sources.otlp import source
from calve.sources.otlp.settings import OtlpSourceSettings
from calve.sources.source import Position
from calve.state.local_folder import LocalFolder
from sources.http.serving import Answer, Serving

PROTOBUF = "application/x-protobuf"


class OtlpServing(Serving):
    """A source that serves, with the folder of its log."""

    def __init__(self, folder: Path, position: Position | None = None, **options: Any) -> None:
        settings = OtlpSourceSettings(**{"port": 0, "grpc_port": None, "min_free_bytes": Size(1 << 20), **options})
        self.folder = folder
        self.source = source.open(settings, LocalFolder(folder), "telemetry")
        self.source.start(position, once=False)

    def export(self, signal: str, body: bytes, kind: str = PROTOBUF, **headers: str) -> Answer:
        """Send a request to the usual path."""
        return self.send("POST", f"/v1/{signal}", body, Content_Type=kind, **headers)

    def batches(self, position: Position | None = None) -> list[pa.RecordBatch]:
        """Read all rows behind a position."""
        planned = self.plan(position)
        return [batch for split in planned.splits for batch in self.source.reader.read(split)] if planned else []

    def rows(self, signal: str) -> list[dict[str, Any]]:
        """Give the rows of a signal."""
        own = [batch for batch in self.batches() if batch["signal"][0].as_py() == signal]
        return [row for batch in own for row in batch[TYPED].to_pylist()]


Serve = Callable[..., OtlpServing]
