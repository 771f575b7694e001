"""The first objects of a bucket, to set up a pipeline: of which format they are, and one of them as a sample."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from calve.sources.file.codec import codec_of
from calve.sources.file.settings import FileSettings
from calve.sources.s3.objects import S3Object, listed, opened
from calve.sources.s3.settings import S3SourceSettings

__all__ = ["BucketPreview", "preview"]

_MOST_OBJECTS = 1_000
_MOST_SAMPLE_BYTES = 1 << 20


@dataclass(frozen=True)
class BucketPreview:
    """Objects of a bucket.

    Attributes:
        count: How many there are, at most 1,000.
        codec: That of most of them; empty: their names do not say it.
        name: The key of the sample; empty: there is none that is small enough.
        sample: Its content.
    """

    count: int
    codec: str = ""
    name: str = ""
    sample: bytes = b""


def preview(settings: S3SourceSettings) -> BucketPreview:
    """Return what the first objects of the first bucket are.

    Raises:
        SourceError: The bucket does not exist, or may not be listed.
        SourceUnavailableError: The store does not answer.
    """
    assert settings.scan is not None
    by_name = FileSettings(path="")
    objects = [
        listed_object
        for listed_object in islice(listed(settings.aws, settings.scan.buckets[0].bucket), _MOST_OBJECTS)
        if listed_object.size_bytes
    ]
    codecs = Counter(filter(None, (_codec_of(listed_object, by_name) for listed_object in objects)))
    if not codecs:
        return BucketPreview(len(objects))
    [(codec, _)] = codecs.most_common(1)
    fitting = [
        listed_object
        for listed_object in objects
        if _codec_of(listed_object, by_name) == codec and listed_object.size_bytes <= _MOST_SAMPLE_BYTES
    ]
    if not fitting:
        return BucketPreview(len(objects), codec)
    with opened(settings.aws, fitting[0]) as stream:
        return BucketPreview(len(objects), codec, fitting[0].key, stream.read())


def _codec_of(listed_object: S3Object, settings: FileSettings) -> str:
    codec = codec_of(listed_object.key, settings)
    return codec.name if codec else ""
