"""Where the keys of requests come from."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from calve.errors import SourceError, SourceUnavailableError
from calve.sources.s3.keys import keys_of
from calve.sources.s3.objects import listed
from calve.sources.s3.settings import AwsAccount, Bucket, Filter
from calve.sources.s3.signing import AccountKeys
from services.objects import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectStore
from services.scripted import Scripted

SOON = datetime.now(UTC) + timedelta(minutes=1)
LATER = datetime.now(UTC) + timedelta(hours=1)


class Services:
    """STS, the service of containers and that of machines in one."""

    def __init__(self) -> None:
        self.until, self.status, self.given, self.refusal = LATER, 200, 0, "AccessDenied"
        self.server = Scripted(self.answer)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if path == "/latest/api/token":
            return 200, b"session"
        if path.endswith("security-credentials/"):
            return 200, b"my-role\n"
        self.given += 1
        end = self.until.strftime("%Y-%m-%dT%H:%M:%SZ")
        if method == "POST":
            parts = f"<AccessKeyId>A{self.given}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
            parts += f"<SessionToken>t</SessionToken><Expiration>{end}</Expiration>"
            text = f'<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><C>{parts}</C></R>'
            refusal = f"<Error><Code>{self.refusal}</Code></Error>"
            return self.status, (text if self.status == 200 else refusal).encode()
        found = {"AccessKeyId": f"A{self.given}", "SecretAccessKey": "s", "Token": "t", "Expiration": end}
        return self.status, json.dumps(found).encode()


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Services]:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "ENDPOINT_URL", "ENDPOINT_URL_S3"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    made = Services()
    with made.server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", made.server.address)
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", made.server.address)
        yield made


def aws(name: str, **more: str) -> AwsAccount:
    return AwsAccount(region=name, **more)  # keys are kept for each setting


def test_the_settings_come_first_and_then_the_environment(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "E")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t")
    assert keys_of(aws("first", access_key_id="S", secret_access_key="x")).keys == AccountKeys("S", "x")
    assert keys_of(aws("second")).keys == AccountKeys("E", "s", "t")
    assert not services.server.asked


def test_a_role_is_taken_with_the_keys_and_renewed_before_it_ends(services: Services) -> None:
    role = {"sts_role_arn": "arn:aws:iam::123456789012:role/reader", "sts_external_id": "ext"}
    settings = aws("role", access_key_id="S", secret_access_key="x", **role)
    services.until = SOON
    assert [keys_of(settings).keys.access for _ in range(2)] == ["A1", "A2"]
    services.until = LATER
    assert [keys_of(settings).keys.access for _ in range(2)] == ["A3", "A3"]
    _, _, body, headers = services.server.asked[0]
    asked = parse_qs(body.decode())
    assert asked["Action"] == ["AssumeRole"]
    assert asked["RoleArn"] == [role["sts_role_arn"]]
    assert asked["ExternalId"] == ["ext"]
    assert "Credential=S/" in headers["authorization"]
    assert "/role/sts/aws4_request" in headers["authorization"]


def test_keys_of_a_role_are_renewed_in_time_although_the_clock_was_set_back(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = {"sts_role_arn": "arn:aws:iam::123456789012:role/reader"}
    settings = aws("back", access_key_id="S", secret_access_key="x", **role)
    services.until = LATER
    assert keys_of(settings).keys.access == "A1"
    passed = (LATER - datetime.now(UTC)).total_seconds()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + passed)  # and the time of day has not moved
    assert keys_of(settings).keys.access == "A2"


@pytest.mark.parametrize(
    "code", ["RequestTimeTooSkewed", "Signature expired: 20261125T000000Z is now earlier than 20261125T001000Z"]
)
def test_services_that_refuse_because_of_this_machines_clock_are_asked_again(services: Services, code: str) -> None:
    role = {"sts_role_arn": "arn:aws:iam::123456789012:role/reader"}
    services.status, services.refusal = 403, code
    with pytest.raises(SourceUnavailableError) as raised:
        keys_of(aws(code[:9], access_key_id="S", secret_access_key="x", **role))
    assert "Set the clock of this machine" in raised.value.hint


def test_a_service_account_gives_its_token(services: Services, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("jwt\n")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    assert keys_of(aws("identity")).keys == AccountKeys("A1", "s", "t")
    _, _, body, headers = services.server.asked[0]
    assert parse_qs(body.decode())["WebIdentityToken"] == ["jwt"]
    assert "authorization" not in headers


def test_containers_and_machines_give_keys(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys_of(aws("machine")).keys == AccountKeys("A1", "s", "t")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{services.server.address}/container")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret")
    assert keys_of(aws("container")).keys == AccountKeys("A2", "s", "t")
    assert services.server.asked[-1][3]["authorization"] == "secret"


def test_a_refused_role_and_missing_keys_end_the_run(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    services.status = 403
    with pytest.raises(SourceError, match="AccessDenied"):
        keys_of(aws("refused", access_key_id="S", secret_access_key="x", sts_role_arn="arn:aws:iam::1:role/reader"))
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(SourceError, match="no keys for AWS"):
        keys_of(aws("none"))


@pytest.mark.services
def test_objects_are_read_with_the_keys_of_a_role(
    services: Services, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = f"<K><AccessKeyId>{ACCESS_KEY}</AccessKeyId><SecretAccessKey>{SECRET_KEY}</SecretAccessKey></K>"
    with Scripted(lambda *_: (200, given.encode())) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.address)
        role = {"sts_role_arn": "arn:aws:iam::123456789012:role/reader", "endpoint": object_store.endpoint}
        settings = aws(REGION, access_key_id="nobody", secret_access_key="x", **role)
        assert list(listed(settings, Bucket(name=BUCKET, filter=Filter(include_prefix=["no/such/"])))) == []
        assert len(sts.asked) == 1
