"""The location of a sink's dead letters: the part of the option `dlq` that is the same for every sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calve.dead_letters.room import MAX_BYTES, MIN_FREE_BYTES, RoomLimits
from calve.settings import Size, option

__all__ = ["FolderDeadLetters", "S3DeadLetters", "limits", "prefix"]


@dataclass(frozen=True)
class S3DeadLetters:
    """Dead letters in S3, with Data Prepper's keys."""

    bucket: str = option(doc="The bucket.", minimum=1)
    key_path_prefix: str = option("", "The folder in the bucket.")


@dataclass(frozen=True)
class FolderDeadLetters:
    """The location of dead letters, and its limits."""

    path: str | None = option(
        None, "A folder, or an object-store prefix; the same as `dlq: path`. Default: `<state>/<pipeline>/dlq`."
    )
    s3: S3DeadLetters | None = option(None, "A folder in S3; the same as `dlq: s3://bucket/prefix`.")
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
            yield "", "needs a location: a path, or `s3: {bucket: …}`"
        if self.path is not None and self.s3:
            yield "path", "cannot be set beside `s3`; set only one"
        if self.path == "":
            yield "path", "needs a location; leave it out for <state>/<pipeline>/dlq"


def prefix(dlq: str | FolderDeadLetters | None) -> str | None:
    """Return the folder or object-store prefix; None for the folder in the state."""
    if not isinstance(dlq, FolderDeadLetters):
        return dlq
    return f"s3://{dlq.s3.bucket}/{dlq.s3.key_path_prefix}".rstrip("/") if dlq.s3 else dlq.path


def limits(dlq: str | FolderDeadLetters | None) -> RoomLimits:
    """Return the limits of the location."""
    return RoomLimits(dlq.max_bytes, dlq.min_free_bytes) if isinstance(dlq, FolderDeadLetters) else RoomLimits()
