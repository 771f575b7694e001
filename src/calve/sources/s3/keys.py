"""Finds the keys of requests to AWS: of the settings, the environment, the profile, or a role, in this order."""

from __future__ import annotations

import functools
import json
import math
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import urllib3

from calve.errors import SourceError, SourceUnavailableError
from calve.sources.s3.settings import AwsAccount
from calve.sources.s3.signing import AccountKeys, signed
from calve.state.clients import SET_CLOCK, blames_clock, profile_keys, s3_environment

__all__ = ["KeyLease", "keys_of"]

_EARLY = timedelta(minutes=5)
_CONTAINER = "http://169.254.170.2"
_MACHINE = "http://169.254.169.254"
_FOREVER = datetime.max.replace(tzinfo=UTC)
_TIMES = urllib3.Timeout(connect=2, read=10)


@dataclass(frozen=True)
class KeyLease:
    """Keys, and until when they are valid."""

    keys: AccountKeys
    until: datetime = _FOREVER

    def ends_at(self) -> float:
        """Return when they should be renewed, in monotonic seconds: no later change of the clock touches it."""
        return time.monotonic() + (self.until - datetime.now(UTC) - _EARLY).total_seconds()


def keys_of(aws: AwsAccount) -> KeyLease:
    """Return the keys for requests; those of a role are renewed five minutes before they end.

    Raises:
        SourceError: There are none, or the role may not be taken.
        SourceUnavailableError: The service of a role does not answer.
    """
    return _finder(aws).find()


@functools.lru_cache(maxsize=16)
def _finder(aws: AwsAccount) -> _Finder:
    return _Finder(aws)


class _Finder:
    def __init__(self, aws: AwsAccount) -> None:
        self._aws, self._lock = aws, threading.Lock()
        self._http = urllib3.PoolManager(retries=False)
        self._lease: KeyLease | None = None
        self._ends_at = -math.inf

    def find(self) -> KeyLease:
        with self._lock:
            if self._lease is None or time.monotonic() > self._ends_at:
                try:
                    base = self._given() or self._of_identity() or self._of_container() or self._of_machine()
                    self._lease = self._of_role(base) if self._aws.sts_role_arn else base
                    self._ends_at = self._lease.ends_at()
                except (ValueError, LookupError, ElementTree.ParseError) as error:
                    raise _refused(f"A service that gives keys of AWS answers something else: {error}") from error
            return self._lease

    def _given(self) -> KeyLease | None:
        """Return keys of the settings, the environment or the profile, which do not end."""
        if self._aws.access_key_id and self._aws.secret_access_key:
            return KeyLease(AccountKeys(self._aws.access_key_id, self._aws.secret_access_key))
        profile = profile_keys() or {
            "access_key_id": os.environ.get("AWS_ACCESS_KEY_ID", ""),
            "secret_access_key": os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
            "session_token": os.environ.get("AWS_SESSION_TOKEN", ""),
        }
        keys = AccountKeys(profile["access_key_id"], profile["secret_access_key"], profile.get("session_token", ""))
        return KeyLease(keys) if keys.access and keys.secret else None

    def _of_role(self, base: KeyLease) -> KeyLease:
        asked = {"RoleArn": self._aws.sts_role_arn, "RoleSessionName": "calve", "ExternalId": self._aws.sts_external_id}
        return self._sts("AssumeRole", {name: value for name, value in asked.items() if value}, base.keys)

    def _of_identity(self) -> KeyLease | None:
        """Return the keys of a service account (Kubernetes)."""
        role, file = os.environ.get("AWS_ROLE_ARN"), os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE")
        if not (role and file):
            return None
        try:
            token = Path(file).read_text().strip()
        except OSError as error:
            raise _refused(
                f"The file {file} of AWS_WEB_IDENTITY_TOKEN_FILE cannot be read: {error.strerror}"
            ) from error
        asked = {"RoleArn": role, "RoleSessionName": "calve", "WebIdentityToken": token}
        return self._sts("AssumeRoleWithWebIdentity", asked, None)

    def _of_container(self) -> KeyLease | None:
        """Return the keys of a container (ECS, EKS)."""
        path, url = (os.environ.get(f"AWS_CONTAINER_CREDENTIALS_{kind}_URI") for kind in ("RELATIVE", "FULL"))
        if not (path or url):
            return None
        token = os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        if file := os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = Path(file).read_text().strip() if Path(file).exists() else token
        headers = {"authorization": token} if token else {}
        return _lease(json.loads(self._ask("GET", f"{_CONTAINER}{path}" if path else str(url), headers)), "Token")

    def _of_machine(self) -> KeyLease:
        """Return the keys of a machine (EC2)."""
        address = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", _MACHINE).rstrip("/")
        try:
            token = self._ask("PUT", f"{address}/latest/api/token", {"x-aws-ec2-metadata-token-ttl-seconds": "60"})
            headers = {"x-aws-ec2-metadata-token": token}
            where = f"{address}/latest/meta-data/iam/security-credentials/"
            role = self._ask("GET", where, headers).strip().splitlines()[0]
            return _lease(json.loads(self._ask("GET", where + role, headers)), "Token")
        except SourceUnavailableError as error:
            raise _refused("There are no keys for AWS") from error

    def _sts(self, action: str, asked: Mapping[str, Any], keys: AccountKeys | None) -> KeyLease:
        region = self._aws.region or s3_environment()[1] or "us-east-1"
        url = os.environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
        url = f"{url.rstrip('/')}/"
        body = urlencode({"Action": action, "Version": "2011-06-15", **asked}).encode()
        headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        if keys is not None:
            headers = signed(url, body, headers, keys, (region, "sts"), datetime.now(UTC))
        tree = ElementTree.fromstring(self._ask("POST", url, headers, body))
        parts = {part.tag.rpartition("}")[2]: part.text or "" for part in tree.iter()}
        return _lease(parts, "SessionToken")

    def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> str:
        try:
            answer = self._http.request(method, url, headers=headers, body=body, timeout=_TIMES)
        except urllib3.exceptions.HTTPError as error:
            raise SourceUnavailableError(
                f"{url} does not answer: {type(error).__name__}", step="read", target=url, hint="Calve tries again"
            ) from error
        text = answer.data.decode(errors="replace")
        if answer.status >= 500:
            raise SourceUnavailableError(
                f"{url} answers {answer.status}", step="read", target=url, hint="Calve tries again"
            )
        if answer.status >= 400 and blames_clock(text):
            raise SourceUnavailableError(
                f"{url} refuses a request at this time: {' '.join(text.split())[:300]}",
                step="read",
                target=url,
                hint=SET_CLOCK,
            )
        if answer.status >= 400:
            raise _refused(f"{url} refuses to give keys: status {answer.status} {' '.join(text.split())[:300]}")
        return text


def _lease(fields: Mapping[str, str], token: str) -> KeyLease:
    name = "AccessKeyId"
    if name not in fields:
        raise _refused("The answer of AWS has no keys")
    until = datetime.fromisoformat(fields["Expiration"]) if fields.get("Expiration") else _FOREVER
    return KeyLease(AccountKeys(fields[name], fields["SecretAccessKey"], fields.get(token, "")), until)


def _refused(message: str) -> SourceError:
    return SourceError(
        message,
        step="read",
        target="aws",
        hint="Set aws.access_key_id and aws.secret_access_key, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a "
        "profile; or correct the role and its trust policy",
    )
