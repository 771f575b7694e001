"""What happened to a table or a pipeline, as a CloudEvent (version 1.0, structured JSON)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from calve.settings.notify import EventType

__all__ = ["MEDIA_TYPE", "CloudEvent"]

MEDIA_TYPE = "application/cloudevents+json"


class CloudEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event. What happened once has the same id whenever it is sent.

    Attributes:
        id: Unique together with the source.
        source: The pipeline, as a URI reference.
        type: What happened.
        time: When it was noticed, ISO 8601 in UTC.
        subject: The table; empty for events of the pipeline.
        sequence: Its number in the pipeline, as texts that sort in this order.
        data: What happened, in detail.
        sinks: The numbers of the sinks whose receivers get it; never sent.
    """

    id: str
    source: str
    type: EventType
    time: str
    data: dict[str, Any]
    subject: str = ""
    sequence: str = ""
    sinks: list[int] = []

    @staticmethod
    def of(
        pipeline: str,
        kind: EventType,
        id: str,
        data: Mapping[str, Any],
        table: str = "",
        sinks: list[int] | None = None,
    ) -> CloudEvent:
        """Return a new event, noticed now."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return CloudEvent(id, f"calve/{quote(pipeline)}", kind, time, dict(data), table, sinks=sinks or [])

    @property
    def number(self) -> int:
        """Its number in the pipeline; 0 before it has one."""
        return int(self.sequence or 0)

    def encoded(self) -> bytes:
        """Return the event as JSON."""
        subject = {"subject": self.subject} if self.subject else {}
        return msgspec.json.encode(
            {
                "specversion": "1.0",
                "id": self.id,
                "source": self.source,
                "type": self.type,
                **subject,
                "time": self.time,
                "sequence": self.sequence,
                "datacontenttype": "application/json",
                "data": self.data,
            }
        )
