"""Signs requests to AWS (Signature Version 4, https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, urlsplit

__all__ = ["AccountKeys", "signed"]

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class AccountKeys:
    """The keys of an account.

    Attributes:
        access: The access key.
        secret: The secret key.
        token: The token of a session; empty: none.
    """

    access: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


def signed(
    url: str, body: bytes, headers: Mapping[str, str], keys: AccountKeys, scope: tuple[str, str], now: datetime
) -> dict[str, str]:
    """Return the headers of a signed POST.

    Args:
        url: Without a query.
        body: The body.
        headers: Headers to sign, beside `host` and the date.
        keys: The keys.
        scope: Region and service.
        now: The time, in UTC.
    """
    parts = urlsplit(url)
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    token = {"x-amz-security-token": keys.token} if keys.token else {}
    given = {name.lower(): value for name, value in headers.items()}
    every = dict(sorted({**given, "host": parts.netloc, "x-amz-date": moment, **token}.items()))
    names = ";".join(every)
    canonical = "\n".join(
        [
            "POST",
            quote(parts.path or "/", safe="/-_.~"),
            "",
            *(f"{name}:{value.strip()}" for name, value in every.items()),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    where = "/".join([moment[:8], *scope, "aws4_request"])
    text = "\n".join([_ALGORITHM, moment, where, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for part in where.split("/"):
        key = _hmac(key, part)
    signature = _hmac(key, text).hex()
    credential = f"{_ALGORITHM} Credential={keys.access}/{where}, SignedHeaders={names}, Signature={signature}"
    return {**every, "authorization": credential}


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
