"""The location of a sink's dead letters: the part of the option `dlq` that is the same for every sink."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from calve.dead_letters.room import MAX_BYTES, MIN_FREE_BYTES, RoomLimits
from calve.errors import SettingsError
from calve.settings import Size, option
from calve.sources.kafka.access import Encryption, KafkaAccess, KafkaAuthentication, topic_fault

__all__ = [
    "EXTERNAL_ID",
    "ROLE",
    "FolderDeadLetters",
    "KafkaDeadLetters",
    "S3DeadLetters",
    "limits",
    "prefix",
    "storage",
    "topic",
]

ROLE, EXTERNAL_ID = "calve.sts-role-arn", "calve.sts-external-id"
"""The properties of a FileIO (`RoleFileIO`) that takes a role."""
_ROLE = re.compile(r"arn:[^:]+:iam::\d+:role/.+")


def _check_role(arn: str) -> None:
    """Check the name of a role.

    Raises:
        SettingsError: It is none.
    """
    if not _ROLE.fullmatch(arn):
        raise SettingsError("this is no role; it looks like arn:aws:iam::123456789012:role/name")


def _check_topic(name: str) -> None:
    """Check the name of a topic.

    Raises:
        SettingsError: It is none.
    """
    if fault := topic_fault(name):
        raise SettingsError(fault)


@dataclass(frozen=True)
class S3DeadLetters:
    """Dead letters in S3, with Data Prepper's keys."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {"legacy_md5_checksum": "objects have the checksum that S3 asks for"}

    bucket: str = option(doc="The bucket.", minimum=1)
    key_path_prefix: str = option("", "The folder in the bucket.")
    region: str | None = option(None, "Region of the bucket. Default: Calve asks S3.", minimum=1)
    sts_role_arn: str | None = option(None, "A role that is taken to write there.", minimum=20, check=_check_role)
    sts_external_id: str | None = option(None, "The external id that the role requires.", minimum=2)
    force_path_style: bool | None = option(
        None, "Name the bucket in the path of addresses, not in the host. Default: in the path of an `endpoint`."
    )
    sts_header_overrides: dict[str, str] = option(
        {}, "Accepted for compatibility with Data Prepper; no effect: requests for a role have no further headers."
    )
    bucket_owner: str | None = option(
        None, "Accepted for compatibility with Data Prepper; no effect: the policy of the bucket decides."
    )

    @property
    def prefix(self) -> str:
        """The bucket and the folder, as a URI."""
        return f"s3://{self.bucket.removeprefix('s3://').strip('/')}/{self.key_path_prefix}".rstrip("/")

    @property
    def io_properties(self) -> dict[str, str]:
        """The properties of a FileIO that differ from those of other files."""
        given = {"s3.region": self.region, ROLE: self.sts_role_arn, EXTERNAL_ID: self.sts_external_id}
        given["py-io-impl"] = "calve.dead_letters.role_file_io.RoleFileIO" if self.sts_role_arn else None
        if self.force_path_style is not None:
            given["s3.force-virtual-addressing"] = str(not self.force_path_style).lower()
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True)
class KafkaDeadLetters(KafkaAccess):
    """Dead letters in a topic."""

    topic: str = option(
        doc="The topic: a record for each rejected event, with its original value, key and headers; headers that begin "
        "with `calve.` say why it was rejected.",
        check=_check_topic,
    )
    bootstrap_servers: str | list[str] = option(doc="Brokers for the first connection, as host:port.", minimum=1)
    create_topic: bool = option(False, "Create the topic if it does not exist.")
    number_of_partitions: int | None = option(None, "Partitions of a new topic. Default: the broker's.", minimum=1)
    replication_factor: int | None = option(None, "Replicas of a new topic. Default: the broker's.", minimum=1)
    encryption: Encryption | None = option(None, "TLS. Default: no TLS.")
    authentication: KafkaAuthentication | None = option(None, "How Calve authenticates.")
    client_properties: dict[str, str] = option(
        {}, "Further properties of librdkafka, passed on unchanged.", secret=True
    )


@dataclass(frozen=True)
class FolderDeadLetters:
    """The location of dead letters, and its limits."""

    path: str | None = option(
        None, "A folder, or an object-store prefix; the same as `dlq: path`. Default: `<state>/<pipeline>/dlq`."
    )
    s3: S3DeadLetters | None = option(None, "A folder in S3; the same as `dlq: s3://bucket/prefix`.")
    kafka: KafkaDeadLetters | None = option(
        None, "A topic: each rejected event is a record, once for readers of committed records."
    )
    max_bytes: Size = option(
        Size(MAX_BYTES),
        "Maximum size of the files there; beyond it the pipeline reads nothing until some are moved away, and writes "
        "no batch whose dead letters would exceed it.",
        minimum=1 << 20,
    )
    min_free_bytes: Size = option(
        Size(MIN_FREE_BYTES),
        "Minimum free space on the disk of a folder, at most a twentieth of it; below it the pipeline reads nothing.",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse a map with nothing in it, or with two locations."""
        if self == FolderDeadLetters():
            yield "", "needs a location: a path, `s3: {bucket: …}` or `kafka: {topic: …}`"
        if self.path is not None and self.s3:
            yield "path", "cannot be set beside `s3`; set only one"
        if self.kafka and (self.path is not None or self.s3):
            yield "kafka", f"cannot be set beside `{'s3' if self.s3 else 'path'}`; set only one"
        if self.path == "":
            yield "path", "needs a location; leave it out for <state>/<pipeline>/dlq"


def prefix(dlq: str | FolderDeadLetters | None) -> str | None:
    """Return the folder or object-store prefix; None for the folder in the state."""
    if not isinstance(dlq, FolderDeadLetters):
        return dlq
    return dlq.s3.prefix if dlq.s3 else dlq.path


def topic(dlq: str | FolderDeadLetters | None) -> KafkaDeadLetters | None:
    """Return the topic; None: files or a table."""
    return dlq.kafka if isinstance(dlq, FolderDeadLetters) else None


def storage(dlq: str | FolderDeadLetters | None) -> dict[str, str]:
    """Return the properties of a FileIO that differ from those of other files."""
    return dlq.s3.io_properties if isinstance(dlq, FolderDeadLetters) and dlq.s3 else {}


def limits(dlq: str | FolderDeadLetters | None) -> RoomLimits:
    """Return the limits of the location."""
    return RoomLimits(dlq.max_bytes, dlq.min_free_bytes) if isinstance(dlq, FolderDeadLetters) else RoomLimits()
