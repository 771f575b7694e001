"""The executors' side of the s3 source: objects are read with the readers of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from calve.errors import SourceUnavailableError
from calve.sources.file.codec import FilePart, read_part
from calve.sources.file.rows import FileBatches
from calve.sources.s3.attributes import METADATA
from calve.sources.s3.objects import S3Object, opened
from calve.sources.s3.settings import S3SourceSettings
from calve.sources.source import Split

__all__ = ["S3Reader", "object_of"]


@dataclass(frozen=True)
class S3Reader:
    """Reads parts of objects; an object that is gone or replaced becomes one row with the reason.

    Attributes:
        settings: The source's options.
        metadata: The attributes to build.
    """

    settings: S3SourceSettings
    metadata: frozenset[str] = frozenset(METADATA)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events of a part in order, with the attributes of `METADATA`.

        Raises:
            SourceUnavailableError: The store does not answer, or refuses to read the object.
        """
        s3_object = object_of(split.body)
        values = {"s3_bucket": s3_object.bucket, "s3_key": s3_object.key, "s3_etag": s3_object.etag}
        for batch in self._read(s3_object, split):
            for name, value in values.items():
                if name in self.metadata:
                    batch = batch.append_column(name, pa.repeat(pa.scalar(value, pa.string()), len(batch)))
            yield batch

    def _read(self, s3_object: S3Object, split: Split) -> Iterator[pa.RecordBatch]:
        start, end = split.body["start"], split.body["end"]
        part = FilePart(s3_object.path, start, end, s3_object.size_bytes, s3_object.modified)
        try:
            with opened(self.settings.aws, s3_object) as file:
                yield from read_part(file, part, self.settings.format)
        except FileNotFoundError as error:
            why = "was replaced before it was read" if "replaced:" in str(error) else "was gone when its turn came"
            yield from self._broken(part, why)
        except OSError as error:
            if isinstance(error, PermissionError) and self.settings.on_error == "delete_messages":
                yield from self._broken(part, "may not be read")
                return
            hint = "Calve tries again; check the store"
            if isinstance(error, PermissionError):
                hint = (
                    "Allow s3:GetObject (and the decryption of the key); or set on_error: delete_messages to make it "
                )
                hint += "a dead letter"
            raise SourceUnavailableError(
                f"The object {s3_object.path} cannot be read: {str(error).splitlines()[0][:300]}",
                step="read",
                target=s3_object.path,
                hint=hint,
            ) from error

    def _broken(self, part: FilePart, why: str) -> Iterator[pa.RecordBatch]:
        if part.start == 0:
            yield from FileBatches(part.path).broken(why)


def object_of(body: dict[str, Any]) -> S3Object:
    """Return the object that a split with this body is a part of."""
    return S3Object(**body["object"])
