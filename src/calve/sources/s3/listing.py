"""Finds objects by listing buckets."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from calve.sources.s3.objects import S3Object, listed
from calve.sources.s3.settings import AwsAccount, Scan

__all__ = ["ObjectListing"]


class ObjectListing:
    """The objects of buckets, listed every `interval`.

    Args:
        scan: Which buckets.
        aws: Where they are.

    Attributes:
        has_known: Whether the last listing has objects that were known before.
    """

    def __init__(self, scan: Scan, aws: AwsAccount) -> None:
        self._scan, self._aws = scan, aws
        self._next = 0.0
        self.has_known = False

    def start(self, once: bool, pending: Iterable[str]) -> None:
        """Do nothing: the first `find` lists the buckets."""

    def stop(self) -> None:
        """Do nothing."""

    def acknowledge(self, identities: Collection[str]) -> None:
        """Do nothing: listing again finds nothing new."""

    def find(self, earlier: Collection[str], waiting: int, once: bool) -> list[S3Object]:
        """Return new objects if a listing is due, the oldest first.

        Args:
            earlier: The identities of those that are known.
            waiting: How many of them are not planned.
            once: Whether there is only one listing.

        Raises:
            SourceError: A bucket does not exist, or may not be listed.
            SourceUnavailableError: The store does not answer.
        """
        if time.monotonic() < self._next:
            return []
        new_objects: dict[str, S3Object] = {}
        self.has_known = False
        for entry in self._scan.buckets:
            for s3_object in listed(self._aws, entry.bucket):
                if not self._scan.is_chosen(entry.bucket, s3_object.modified):
                    continue
                if s3_object.identity in earlier:
                    self.has_known = True
                elif not (s3_object.size_bytes == 0 and s3_object.key.endswith("/")):
                    new_objects[s3_object.identity] = s3_object
        self._next = float("inf") if once else time.monotonic() + self._scan.scheduling.interval.total_seconds()
        return sorted(new_objects.values(), key=lambda s3_object: (s3_object.modified, s3_object.path))
