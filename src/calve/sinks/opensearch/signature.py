"""Signs requests to Amazon OpenSearch Service and Serverless, with botocore's credentials (the extra `aws`).

botocore is imported if a sink has `aws`: it knows profiles, SSO, web identity, and roles of machines and containers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from calve.errors import SinkRefusedError

__all__ = ["AwsAccess", "Signer", "is_installed"]

_SESSION_NAME = "calve"


@dataclass(frozen=True)
class AwsAccess:
    """Who signs, and for which service; pickled into tasks.

    Attributes:
        region: The region; empty: that of the environment or the profile.
        service: `es`, or `aoss` for Serverless.
        role: The ARN of a role to assume; empty: none.
        external_id: The external id that the role asks for, or empty.
    """

    region: str
    service: str
    role: str = ""
    external_id: str = ""


def is_installed() -> bool:
    """Return whether botocore is there."""
    return find_spec("botocore") is not None


class Signer:
    """Signs requests; for one thread of a driver or an executor. Credentials that expire are renewed.

    Args:
        access: Who signs.

    Raises:
        SinkRefusedError: There are no credentials, or no region.
    """

    def __init__(self, access: AwsAccess) -> None:
        from botocore.session import Session

        session = Session()
        region = access.region or session.get_config_variable("region")
        credentials = session.get_credentials()
        if credentials is None or not region:
            what = "region" if credentials else "credentials"
            hint = "Set `region`" if credentials else "Set AWS_PROFILE or AWS_ACCESS_KEY_ID, or give the machine a role"
            raise SinkRefusedError(f"AWS has no {what} here", step="write", target="opensearch", hint=hint)
        self._region, self._service = region, access.service
        client = partial(session.create_client, region_name=region)
        self._credentials = _assumed(client, credentials, access) if access.role else credentials

    def signed(self, method: str, url: str, body: Any, headers: dict[str, str]) -> dict[str, str]:
        """Return the headers of a request with its signature.

        Raises:
            SinkRefusedError: The credentials cannot be renewed, or the role cannot be assumed.
        """
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        payload = b"" if body is None else bytes(body)
        digest = hashlib.sha256(payload).hexdigest()
        request = AWSRequest(method, url, {**headers, "x-amz-content-sha256": digest}, payload)
        try:
            SigV4Auth(self._credentials.get_frozen_credentials(), self._service, self._region).add_auth(request)
        except (BotoCoreError, ClientError) as error:
            hint = "Check `sts_role_arn` and who may assume the role; else log in again (aws sso login)"
            raise SinkRefusedError(f"AWS gives no credentials: {error}", step="write", target=url, hint=hint) from error
        return dict(request.headers.items())


def _assumed(client: Callable[..., Any], credentials: Any, access: AwsAccess) -> Any:
    """Return the credentials of a role, fetched when they are needed."""
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    more = {"RoleSessionName": _SESSION_NAME} | ({"ExternalId": access.external_id} if access.external_id else {})
    fetcher = AssumeRoleCredentialFetcher(client, credentials, access.role, more)
    return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
