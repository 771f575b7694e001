"""The options of the s3 source, by Data Prepper's keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

import pyarrow as pa

from calve.errors import SettingsError
from calve.settings import option
from calve.sources.file.codec_settings import CodecSettings
from calve.sources.file.settings import FormatSettings
from calve.sources.s3.attributes import METADATA
from calve.sources.settings import StateForm

__all__ = ["SETTINGS", "AwsAccount", "Bucket", "BucketEntry", "Filter", "S3SourceSettings", "Scan", "Scheduling", "Sqs"]

_UNUSED = "Accepted for compatibility with Data Prepper; no effect"
_SELECTION = f"{_UNUSED}: objects are read, and their metadata are attributes of events; `metadata_only` is refused."
DataSelection = Literal["data_only", "data_and_metadata", "metadata_only"]


@dataclass(frozen=True)
class AwsAccount:
    """Region and credentials; what is missing comes from the environment, as for AWS tools."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "sts_header_overrides": "requests to STS have no headers of their own",
    }

    region: str | None = option(None, "Region of the buckets and of the queue.")
    endpoint: str | None = option(None, "Address of an S3 store other than AWS, e.g. http://localhost:9000.")
    sts_role_arn: str | None = option(None, "A role that is taken with the keys, for buckets and queue.", minimum=20)
    sts_external_id: str | None = option(None, "The external id that the role requires.", minimum=2)
    access_key_id: str | None = option(None, "Access key.", secret=True)
    secret_access_key: str | None = option(None, "Secret key.", secret=True)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse half a pair of keys."""
        if (self.access_key_id is None) != (self.secret_access_key is None):
            yield "", "set both access_key_id and secret_access_key, or none"
        if self.sts_role_arn and not re.match(r"arn:[^:]+:iam::\d+:role/.", self.sts_role_arn):
            yield "sts_role_arn", "this is no role; it looks like arn:aws:iam::123456789012:role/name"


@dataclass(frozen=True)
class Filter:
    """Which objects of a bucket are read."""

    include_prefix: list[str] | None = option(None, "Only keys that begin with one of these.", minimum=1)
    exclude_suffix: list[str] | None = option(None, "No keys that end with one of these.", minimum=1)


def _check_time(text: str | None) -> object:
    try:
        return None if text is None else _nanoseconds(text)
    except ValueError:
        raise SettingsError("is no time; write it as 2026-01-31T18:00:00, without an offset UTC") from None


def _nanoseconds(text: str) -> int:
    """Return a time in nanoseconds since 1970.

    Raises:
        ValueError: It is none.
    """
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000_000) * 1000


def _check_selection(selection: str) -> None:
    if selection == "metadata_only":
        raise SettingsError("metadata_only is not supported: Calve reads the objects; leave it out")


@dataclass(frozen=True)
class Bucket:
    """A bucket, and which of its objects are read."""

    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "range": (
            "is not supported: a listing that depends on the clock cannot be repeated; write start_time and end_time"
        ),
        "processing_conditions": "is not supported: leave objects out by filter, and events by drop_events",
    }

    name: str = option(doc="The name of the bucket.", minimum=3)
    filter: Filter = option(Filter(), "Which objects are read. Default: all.")
    start_time: str | None = option(None, "As in `scan`, for this bucket.", check=_check_time)
    end_time: str | None = option(None, "As in `scan`, for this bucket.", check=_check_time)
    data_selection: DataSelection = option("data_and_metadata", _SELECTION, check=_check_selection)

    @property
    def bucket(self) -> str:
        """The name alone."""
        return self.name.removeprefix("s3://").strip("/")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse a path instead of a name."""
        if "/" in self.bucket:
            yield "name", "this is a path; name the bucket here, and the prefix in `filter.include_prefix`"


@dataclass(frozen=True)
class BucketEntry:
    """One entry of the list of buckets."""

    bucket: Bucket = option(doc="A bucket.")


@dataclass(frozen=True)
class Scheduling:
    """How often buckets are listed."""

    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "count": "is not supported: calve run --once lists one time; else Calve lists again until it stops",
    }

    interval: timedelta = option(
        timedelta(minutes=1), "The time between two listings.", minimum=timedelta(milliseconds=10)
    )


@dataclass(frozen=True)
class Scan:
    """Finds objects by listing buckets."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "acknowledgment_timeout": "progress always follows the commits",
        "folder_partitions": "Spark's tasks share the objects",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "range": (
            "is not supported: a listing that depends on the clock cannot be repeated; write start_time and end_time"
        ),
    }

    buckets: list[BucketEntry] = option(doc="The buckets.", minimum=1)
    scheduling: Scheduling = option(Scheduling(), "How often they are listed; Calve lists them again until it stops.")
    start_time: str | None = option(
        None,
        "Only objects that were written after this time, e.g. `2026-01-31T18:00:00`; without an offset it is UTC.",
        check=_check_time,
    )
    end_time: str | None = option(None, "Only objects that were written before this time.", check=_check_time)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse times between which nothing can be written."""
        for number, entry in enumerate(self.buckets):
            start, end = self._times(entry.bucket)
            if start is not None and end is not None and start >= end:
                yield f"buckets[{number}].bucket", "end_time is not after start_time, so no object would be read"

    def _times(self, bucket: Bucket) -> tuple[int | None, int | None]:
        """Return the times of a bucket, in nanoseconds since 1970."""
        start, end = bucket.start_time or self.start_time, bucket.end_time or self.end_time
        return (None if start is None else _nanoseconds(start)), (None if end is None else _nanoseconds(end))

    def is_chosen(self, bucket: Bucket, modified: int) -> bool:
        """Return whether an object was written in the time of its bucket.

        Args:
            bucket: The bucket; a time of its own replaces that of the scan.
            modified: When, in nanoseconds since 1970.
        """
        start, end = self._times(bucket)
        return (start is None or modified > start) and (end is None or modified < end)


@dataclass(frozen=True)
class Sqs:
    """Finds objects by the notifications in a queue of SQS."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "max_receive_attempts": "Calve asks again until there is an answer",
        "shutdown_timeout": "a batch that is not committed is repeated",
        "visibility_duplicate_protection_timeout": "the timeout is extended until the commit",
    }

    queue_url: str = option(doc="The address of the queue, as AWS shows it.", minimum=1)
    maximum_messages: int = option(10, "The most messages of one request.", minimum=1, maximum=10)
    visibility_timeout: timedelta = option(
        timedelta(seconds=30),
        "How long a received message is hidden from others; extended until its events are committed.",
        minimum=timedelta(seconds=2),
        maximum=timedelta(hours=12),
    )
    wait_time: timedelta = option(
        timedelta(seconds=20),
        "How long a request waits for messages, at most; never longer than a third of `visibility_timeout`.",
        minimum=timedelta(0),
        maximum=timedelta(seconds=20),
    )
    poll_delay: timedelta = option(timedelta(0), "The time between two requests.", minimum=timedelta(0))
    visibility_duplication_protection: bool = option(True, f"{_UNUSED}: the timeout is always extended.")
    max_visibility_timeout_extension: timedelta = option(
        timedelta(minutes=30), f"{_UNUSED}: the timeout is extended until the commit; twelve hours are SQS's limit."
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse what is not an address."""
        if not self.queue_url.startswith(("https://", "http://")):
            yield (
                "queue_url",
                "this is no address; AWS shows it as https://sqs.<region>.amazonaws.com/<account>/<name>",
            )


@dataclass(frozen=True)
class S3SourceSettings(FormatSettings):
    """Reads objects of S3, each exactly once: those of listed buckets, or those that a queue announces."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "backoff_time": "Calve waits by itself",
        "disable_s3_metadata_in_event": "metadata are no fields, unless metadata_root_key is set",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "s3_select": (
            "is not supported, and AWS gives it to no new customer: objects are read whole; choose rows by "
            "drop_events, columns by select_entries"
        ),
        "filters": "is not supported: filter the notifications of the bucket by prefix and suffix",
    }

    remembers: ClassVar[Mapping[str, StateForm]] = {"": StateForm.LIST}

    notification_type: Literal["sqs"] | None = option(None, "`sqs`, with `sqs`.")
    notification_source: Literal["s3", "eventbridge"] = option("s3", f"{_UNUSED}: both are recognized.")
    sqs: Sqs | None = option(None, "Read the objects that the messages of a queue name.")
    scan: Scan | None = option(None, "List buckets.")
    codec: CodecSettings | None = option(None, "The format of the objects. Default: by the extension of the key.")
    compression: Literal["automatic", "none", "gzip", "zstd"] = option(
        "automatic", "`automatic`: by the extension .gz or .zst, otherwise by the first bytes."
    )
    aws: AwsAccount = option(AwsAccount(), "Region and credentials.")
    delete_s3_objects_on_read: bool = option(False, "Whether an object is deleted after its events are committed.")
    on_error: Literal["retain_messages", "delete_messages"] = option(
        "retain_messages",
        "What happens to an object that may not be read (403): the pipeline waits and tries again, or the object "
        "becomes a dead letter; and to a message that is no notification: it stays in the queue, or it is deleted.",
    )
    metadata_root_key: str | None = option(
        None, "Add the fields `bucket` and `key` to events, below this key, e.g. `s3/`. Empty: beside the others."
    )
    data_selection: DataSelection = option("data_and_metadata", _SELECTION, check=_check_selection)
    default_bucket_owner: str | None = option(None, "Refused: a policy of the role checks the owner of buckets.")
    bucket_owners: dict[str, Any] | None = option(None, "Refused, as `default_bucket_owner`.")
    disable_bucket_ownership_validation: bool = option(True, f"{_UNUSED}: the policy of the role decides.")
    acknowledgments: bool = option(True, f"{_UNUSED}: progress always follows the commits.")
    workers: int = option(1, f"{_UNUSED}: Spark's tasks read.", minimum=1)
    records_to_accumulate: int = option(100, f"{_UNUSED}: `flush_interval` and `max_batch_bytes` divide batches.")
    buffer_timeout: timedelta = option(timedelta(seconds=10), f"{_UNUSED}: see `flush_interval` of the sink.")

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        """The metadata attributes of an event, and their types."""
        return METADATA

    @property
    def metadata_fields(self) -> Mapping[str, str]:
        """The fields that `metadata_root_key` adds."""
        if self.metadata_root_key is None:
            return {}
        root = self.metadata_root_key.strip("/")
        return {f"{root}/{name}".lstrip("/"): f"s3_{name}" for name in ("bucket", "key")}

    def check(self) -> Iterator[tuple[str, str]]:
        """Require one way to find objects, and refuse what would not be checked."""
        if "${" in (self.metadata_root_key or ""):
            yield "metadata_root_key", "is the same for all events, and has no ${…}"
        for name in ("default_bucket_owner", "bucket_owners"):
            if getattr(self, name) is not None:
                why = "is not checked: write the condition aws:ResourceAccount into the policy of the role, and omit it"
                yield name, why
        if (self.scan is None) == (self.sqs is None):
            yield "", "name how objects are found: either `sqs` or `scan`"
        elif self.notification_type and self.sqs is None:
            yield "notification_type", "`sqs` is missing"


SETTINGS = S3SourceSettings
