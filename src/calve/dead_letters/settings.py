"""The location of a sink's dead letters: the part of the option `dlq` that is the same for every sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calve.settings import option

__all__ = ["FolderDeadLetters", "S3DeadLetters", "prefix"]


@dataclass(frozen=True)
class S3DeadLetters:
    """Dead letters in S3, with Data Prepper's keys."""

    bucket: str = option(doc="The bucket.", minimum=1)
    key_path_prefix: str = option("", "The folder in the bucket.")


@dataclass(frozen=True)
class FolderDeadLetters:
    """The location of dead letters, if it is not a path."""

    s3: S3DeadLetters | None = option(None, "A folder in S3; the same as `dlq: s3://bucket/prefix`.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse a map without a location."""
        if not self.s3:
            yield "", "needs a location: a path, or `s3: {bucket: …}`"


def prefix(dlq: str | S3DeadLetters | None) -> str | None:
    """Return the folder or object-store prefix; None for the folder in the state."""
    return f"s3://{dlq.bucket}/{dlq.key_path_prefix}".rstrip("/") if isinstance(dlq, S3DeadLetters) else dlq
