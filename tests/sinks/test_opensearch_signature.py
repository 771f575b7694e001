"""Requests to Amazon's OpenSearch are signed; botocore's own signature of what arrived is the oracle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from unittest import mock

import pytest

from calve.errors import SinkRefusedError
from calve.pipeline.plugins import PLUGINS
from calve.settings import SettingsErrors, parse_text
from calve.sinks.opensearch import signature
from calve.sinks.opensearch.client import Client, access_of
from calve.sinks.opensearch.settings import AwsSigning, OpenSearchSettings
from services.scripted import Scripted

pytest.importorskip("botocore")

ROLE = "arn:aws:iam::123456789012:role/writer"
ASSUMED = b"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ROLEKEY</AccessKeyId><SecretAccessKey>rolesecret</SecretAccessKey><SessionToken>roletoken</SessionToken>
<Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted(lambda method, path, body: (200, ASSUMED if b"AssumeRole" in body else b"{}")) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def client(server: Scripted, **aws: Any) -> Client:
    return Client(
        access_of(OpenSearchSettings(hosts=[server.address], index="i", aws=AwsSigning(region="eu-west-1", **aws)))
    )


def signature_of(server: Scripted, request: tuple[str, str, bytes, dict[str, str]], key: Any, service: str) -> str:
    """Return what botocore signs of the headers that arrived, at the time that they name."""
    from botocore import auth
    from botocore.awsrequest import AWSRequest

    method, path, body, headers = request
    names = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    kept = {name: headers[name] for name in names if name not in ("host", "x-amz-date", "x-amz-security-token")}
    again = AWSRequest(method, server.address + path, kept, body)
    time = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
    with mock.patch.object(auth, "get_current_datetime", return_value=time):
        auth.SigV4Auth(key, service, "eu-west-1").add_auth(again)
    return str(again.headers["Authorization"])


@pytest.mark.parametrize(("aws", "service"), [({}, "es"), ({"serverless": True}, "aoss")])
def test_a_request_is_signed_with_the_credentials_of_the_environment(
    server: Scripted, aws: dict[str, Any], service: str
) -> None:
    from botocore.credentials import Credentials

    assert (
        client(server, **aws).request("POST", "/i/_bulk?filter_path=errors,items.*.error", b'{"a":1}\n').status == 200
    )
    [request] = server.asked
    headers = request[3]
    assert f"/eu-west-1/{service}/aws4_request" in headers["authorization"]
    assert headers["x-amz-content-sha256"] == hashlib.sha256(request[2]).hexdigest()
    assert headers["authorization"] == signature_of(server, request, Credentials("AKID", "secret"), service)


def test_a_role_is_assumed_once(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.address)
    sender = client(server, sts_role_arn=ROLE, sts_external_id="x7")
    for _ in range(2):
        sender.request("GET", "/")
    assume, *requests = server.asked
    assert b"ExternalId=x7" in assume[2]
    assert [request[3]["x-amz-security-token"] for request in requests] == ["roletoken"] * 2
    assert all("Credential=ROLEKEY/" in request[3]["authorization"] for request in requests)


def test_without_credentials_the_way_out_is_said(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(SinkRefusedError, match="AWS has no credentials here"):
        client(server)


def refusal(more: str) -> str:
    text = f"p: {{source: {{file: {{path: x}}}}, sink: [{{opensearch: {{hosts: ['https://a:1'], index: i, {more}}}}}]}}"
    with pytest.raises(SettingsErrors) as refused:
        parse_text(text, PLUGINS, environment={})
    return str(refused.value)


def test_a_user_and_a_signature_exclude_each_other() -> None:
    assert "set only one" in refusal("username: me, password: x, aws: {region: eu-west-1}")


def test_without_botocore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature, "find_spec", lambda name: None)
    assert "pip install 'calve[aws]'" in refusal("aws: {region: eu-west-1}")
