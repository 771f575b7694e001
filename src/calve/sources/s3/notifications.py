"""What a message says about objects: S3's own notifications and EventBridge's, also in an envelope of SNS."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote_plus

from calve.sources.s3.objects import S3Object

__all__ = ["UNKNOWN_SIZE", "created"]

UNKNOWN_SIZE = -1


def created(body: str, now: int) -> list[S3Object]:
    """Return the objects that a message announces; none for a test, and for objects that were removed.

    Args:
        body: The message.
        now: The time, in nanoseconds since 1970.

    Raises:
        ValueError: It is no notification of S3; with the reason.
    """
    try:
        value = json.loads(body)
        if isinstance(value, dict) and value.get("Type") == "Notification" and isinstance(value.get("Message"), str):
            value = json.loads(value["Message"])
    except ValueError as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    if value.get("Event") == "s3:TestEvent":
        return []
    if value.get("source") == "aws.s3" and "detail" in value:
        return _of_event_bridge(value, now)
    records = value.get("Records")
    if not isinstance(records, list):
        raise ValueError("it has no `Records`, and is no event of EventBridge")
    return [s3_object for record in records for s3_object in _of_record(record, now)]


def _of_record(record: Any, now: int) -> list[S3Object]:
    try:
        if record["eventSource"] != "aws:s3":
            raise ValueError(f"it is from {record['eventSource']}")
        if not record["eventName"].removeprefix("s3:").startswith("ObjectCreated:"):
            return []
        described = record["s3"]["object"]
        key = unquote_plus(described["key"])
        return [_object(record["s3"]["bucket"]["name"], key, described, "eTag", "versionId", now)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a record lacks {error}") from error


def _of_event_bridge(value: dict[str, Any], now: int) -> list[S3Object]:
    if value.get("detail-type") != "Object Created":
        return []
    try:
        described = value["detail"]["object"]
        return [_object(value["detail"]["bucket"]["name"], described["key"], described, "etag", "version-id", now)]
    except (KeyError, TypeError) as error:
        raise ValueError(f"the event lacks {error}") from error


def _object(bucket: Any, key: Any, described: dict[str, Any], etag: str, version: str, now: int) -> S3Object:
    if not (isinstance(bucket, str) and bucket and isinstance(key, str) and key):
        raise ValueError("bucket and key are not texts")
    size = described.get("size")
    size = size if isinstance(size, int) and size >= 0 else UNKNOWN_SIZE
    tag, number = str(described.get(etag) or "").strip('"'), str(described.get(version) or "")
    return S3Object(bucket, key, size, tag, "" if number == "null" else number, now)
