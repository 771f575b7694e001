"""Connections to object stores: S3 and servers that speak its protocol, Google Cloud Storage, and Azure Blob Storage.

Endpoint, region and keys come from the environment, as the tools of each cloud read it: `AWS_…` or the profile of the
AWS command line, `GOOGLE_…`, `AZURE_…`, or the role of the machine.
"""

from __future__ import annotations

import configparser
import contextlib
import functools
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = [
    "CREDENTIALS",
    "SET_CLOCK",
    "blames_clock",
    "connected",
    "file_io_at",
    "profile_keys",
    "s3_environment",
    "s3_file_io",
]

CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY",
}
"""The schemes of stores, and the variables with their credentials."""
SET_CLOCK = "Set the clock of this machine (NTP): AWS accepts no request that is 15 minutes off. Calve tries again"
_WRONG_CLOCK = ("RequestTimeTooSkewed", "RequestExpired", "Signature expired", "Signature not yet current")
"""What AWS answers if the time of a request is wrong: with 403 from S3, with 400 or 403 from SQS and STS."""
_TIMES: Any = {"connect_timeout": "3s", "timeout": "10s", "allow_http": True}
_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
_PATIENT: Any = {**_RETRIES, "max_retries": 5}
"""Google Cloud Storage answers 429 if one object is written more than once a second, which short batches do."""


def blames_clock(answer: str) -> bool:
    """Return whether a service refuses a request only because this machine's clock is wrong."""
    return any(code in answer for code in _WRONG_CLOCK)


@functools.lru_cache(maxsize=16)
def connected(scheme: str, bucket: str) -> ObjectStore:
    """Connect to a bucket or container, once in this process.

    Args:
        scheme: One of `CREDENTIALS`, or `memory`: a store within this process, for tests.
        bucket: Its name.

    Raises:
        BaseError: The environment lacks a value that is always needed.
    """
    from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

    store: ObjectStore
    if scheme == "memory":
        return MemoryStore()
    if scheme == "gs":
        store = GCSStore(bucket, client_options=_TIMES, retry_config=_PATIENT)
    elif scheme == "az":
        store = AzureStore(bucket, client_options=_TIMES, retry_config=_RETRIES, **_of_the_azure_command_line())
    else:
        endpoint, region = s3_environment()
        given: dict[str, Any] = {"endpoint": endpoint, "region": region, **profile_keys()}
        options = {key: value for key, value in given.items() if value}
        store = S3Store(bucket, client_options=_TIMES, retry_config=_RETRIES, **options)
    return store


def file_io_at(location: str) -> dict[str, str]:
    """Return the properties of a FileIO of PyIceberg that reaches a folder of the state as the environment says."""
    if "://" not in location:
        return {}
    return s3_file_io() if location.startswith("s3://") else {"py-io-impl": "calve.state.file_io.StoreFileIO"}


def s3_file_io() -> dict[str, str]:
    """Return the properties of a FileIO of PyIceberg that reaches S3 as the environment says."""
    endpoint, region = s3_environment()
    keys = profile_keys() or {
        "access_key_id": os.environ.get("AWS_ACCESS_KEY_ID", ""),
        "secret_access_key": os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
        "session_token": os.environ.get("AWS_SESSION_TOKEN", ""),
    }
    named = {f"s3.{key.replace('_', '-')}": value for key, value in keys.items()}
    given = {"s3.endpoint": endpoint, "s3.region": region or "us-east-1", **named}
    return {key: value for key, value in given.items() if value}


def s3_environment() -> tuple[str | None, str | None]:
    """Return the endpoint and the region of S3 that the environment sets."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return endpoint, os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def profile_keys() -> dict[str, str]:
    """Return the keys of the AWS command line's profile; none if the environment has keys or there is no profile."""
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return {}
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path("~/.aws/credentials").expanduser()
    profiles = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error):
        profiles.read(file)
    name = os.environ.get("AWS_PROFILE", "default")
    if not profiles.has_option(name, "aws_access_key_id"):
        return {}
    keys = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key"}
    keys["session_token"] = "aws_session_token"
    return {ours: profiles.get(name, theirs, fallback="") for ours, theirs in keys.items()}


def _of_the_azure_command_line() -> dict[str, Any]:
    """Return what the Azure command line's own variables set, unless those of its libraries do."""
    names = {"account_name": "AZURE_STORAGE_ACCOUNT", "account_key": "AZURE_STORAGE_KEY"}
    return {
        key: os.environ[name]
        for key, name in names.items()
        if name in os.environ and f"AZURE_STORAGE_{key.upper()}" not in os.environ
    }
