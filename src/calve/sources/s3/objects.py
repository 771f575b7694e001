"""Objects of S3: listed, and read in parts as long as they do not change."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import S3Store

from calve.errors import CalveError, SourceError, SourceUnavailableError
from calve.files.ranges import RangeReader
from calve.sources.s3.keys import keys_of
from calve.sources.s3.settings import AwsAccount, Bucket
from calve.state.clients import SET_CLOCK, blames_clock, profile_keys, s3_environment

__all__ = ["S3Object", "failed", "listed", "opened", "remove", "store_of"]

_TIMES: Any = {"connect_timeout": "5s", "timeout": "60s", "allow_http": True}
_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}
_AHEAD_BYTES = 4 << 20
_LASTING = ("NoSuchBucket", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied")
_NO_KEYS = "169.254.169.254"
"""Without keys the library asks the machine of a cloud for them, at this address."""


@dataclass(frozen=True)
class S3Object:
    """One content of an object; another content has another ETag.

    Attributes:
        bucket: The bucket.
        key: The key.
        size_bytes: Its length.
        etag: The ETag without quotes; empty: unknown.
        version: The version, in a bucket with versions; otherwise empty.
        modified: When it was written, in nanoseconds since 1970.
    """

    bucket: str
    key: str
    size_bytes: int
    etag: str = ""
    version: str = ""
    modified: int = 0

    @property
    def path(self) -> str:
        """Its URI."""
        return f"s3://{self.bucket}/{self.key}"

    @property
    def identity(self) -> str:
        """What is the same for the same content under the same key."""
        return f"{self.path} {self.etag} {self.version}"


def listed(aws: AwsAccount, bucket: Bucket) -> Iterator[S3Object]:
    """Return the objects of a bucket that its filter includes, unordered, each once.

    Raises:
        SourceError: The bucket does not exist, or may not be listed.
        SourceUnavailableError: The store does not answer.
    """
    excluded = tuple(bucket.filter.exclude_suffix or ())
    prefixes = bucket.filter.include_prefix or [""]
    prefixes = [
        start for start in prefixes if not any(start != other and start.startswith(other) for other in prefixes)
    ]
    for prefix in dict.fromkeys(prefixes):
        for s3_object in _listed(store_of(aws, bucket.bucket), bucket.bucket, prefix.rpartition("/")[0]):
            if s3_object.key.startswith(prefix) and not (excluded and s3_object.key.endswith(excluded)):
                yield s3_object


def _listed(store: S3Store, bucket: str, folder: str) -> Iterator[S3Object]:
    """Return the objects of a folder and of those below it; the library lists folders only."""
    try:
        for chunk in obstore.list(store, folder or None):
            for entry in chunk:
                at = int(entry["last_modified"].timestamp() * 1_000_000) * 1000
                etag = str(entry["e_tag"] or "").strip('"')
                yield S3Object(bucket, str(entry["path"]), entry["size"], etag, modified=at)
    except (BaseError, OSError) as error:
        raise failed(f"The bucket {bucket} cannot be listed", bucket, error) from error


def opened(aws: AwsAccount, s3_object: S3Object) -> pa.NativeFile:
    """Open an object for reading at any position.

    Reading raises FileNotFoundError if it is gone, PreconditionError if it has other content now, and PermissionError.
    """
    read_range = functools.partial(_read_range, store_of(aws, s3_object.bucket), s3_object)
    return pa.PythonFile(RangeReader(s3_object.size_bytes, read_range, _AHEAD_BYTES), mode="r")


def remove(aws: AwsAccount, s3_object: S3Object) -> None:
    """Remove an object; one that does not exist counts as removed.

    Raises:
        SourceUnavailableError: The store does not answer, or refuses.
    """
    try:
        obstore.delete(store_of(aws, s3_object.bucket), s3_object.key)
    except FileNotFoundError:
        return
    except (BaseError, OSError) as error:
        raise failed(f"{s3_object.path} cannot be deleted", s3_object.path, error, SourceUnavailableError) from error


def failed(what: str, target: str, error: Exception, kind: type[CalveError] | None = None) -> CalveError:
    """Return the error for what a store refused or did not answer."""
    text = str(error).strip()
    line = text.splitlines()[0][:300] if text else type(error).__name__
    line = "there are no keys for AWS" if _NO_KEYS in text else line
    is_refused = isinstance(error, PermissionDeniedError | UnauthenticatedError | FileNotFoundError)
    if blames_clock(text):
        return SourceUnavailableError(f"{what}: {line}", step="read", target=target, hint=SET_CLOCK)
    if kind is None:
        is_lasting = is_refused or any(code in text for code in (*_LASTING, _NO_KEYS))
        kind = SourceError if is_lasting else SourceUnavailableError
    hint = "Check `aws` (region, endpoint, keys) and the permissions, and that the store answers"
    return kind(f"{what}: {line}", step="read", target=target, hint=hint)


@functools.lru_cache(maxsize=16)
def store_of(aws: AwsAccount, bucket: str) -> S3Store:
    """Connect to a bucket, once in a process."""
    endpoint, region = s3_environment()
    given: dict[str, Any] = {"endpoint": aws.endpoint or endpoint, "region": aws.region or region}
    if aws.sts_role_arn:
        given["credential_provider"] = functools.partial(_lent, aws)
    elif aws.access_key_id:
        given |= {"access_key_id": aws.access_key_id, "secret_access_key": aws.secret_access_key}
    else:
        given |= profile_keys()
    options = {key: value for key, value in given.items() if value}
    return S3Store(bucket, client_options=_TIMES, retry_config=_RETRIES, **options)


def _lent(aws: AwsAccount) -> dict[str, Any]:
    """Return the keys of a role as the library wants them; it asks again when they end."""
    lease = keys_of(aws)
    keys = lease.keys
    options = {"access_key_id": keys.access, "secret_access_key": keys.secret, "token": keys.token or None}
    return {**options, "expires_at": lease.until}


def _read_range(store: S3Store, s3_object: S3Object, start: int, size: int) -> bytes:
    """Read a part of an object; the request requires the content that was found."""
    options: Any = {"range": (start, start + size)}
    if s3_object.version:
        options["version"] = s3_object.version
    elif s3_object.etag:
        options["if_match"] = f'"{s3_object.etag}"'
    try:
        return bytes(obstore.get(store, s3_object.key, options=options).bytes())
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(str(error)) from error
    except PreconditionError as error:
        raise FileNotFoundError(f"replaced: {error}") from error
    except BaseError as error:
        if _NO_KEYS in str(error):
            raise PermissionError("there are no keys for AWS") from error
        raise OSError(str(error).splitlines()[0]) from error
