"""Keys, endpoint and errors of the object store; `ledger/test_ledger_on_stores.py` has real ones."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from calve.errors import SettingsError, SetupError, Verdict, WriteError
from calve.state.clients import connected, s3_file_io
from calve.state.store_folder import StoreFolder
from services.process import free_ports
from services.scripted import Scripted


def test_a_location_is_a_folder_whatever_its_slashes() -> None:
    folder = StoreFolder.at("s3://bucket/a/b/")
    assert (str(folder), folder.name, str(folder.parent), str(folder / "c")) == (
        "s3://bucket/a/b", "b", "s3://bucket/a", "s3://bucket/a/b/c",
    )  # fmt: skip


@pytest.mark.parametrize("location", ["s3://", "gs:///a", "az://", "hdfs://host/a", "http://host", "abfs://a"])
def test_a_location_that_cannot_keep_a_state_is_refused(location: str) -> None:
    with pytest.raises(SettingsError, match="cannot be kept at"):
        StoreFolder.at(location)


@pytest.mark.parametrize(
    ("raised", "expected", "verdict"),
    [
        (GenericError("connection refused\nDebug source: …"), WriteError, Verdict.AGAIN),
        (PermissionDeniedError("denied"), SetupError, Verdict.ASK),
        (GenericError("<Code>NoSuchBucket</Code>"), SetupError, Verdict.ASK),
        (GenericError("PUT http://169.254.169.254/latest/api/token"), SetupError, Verdict.ASK),
        (FileNotFoundError("no such bucket"), SetupError, Verdict.ASK),
    ],
)
def test_only_a_store_that_does_not_answer_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, expected: type[WriteError], verdict: Verdict
) -> None:
    def put(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(obstore, "put", put)
    with pytest.raises(expected) as refused:
        StoreFolder("memory://errors/a").create("x", b"1")
    assert refused.value.verdict is verdict
    assert "Debug source" not in str(refused.value)


def test_keys_of_a_profile_are_used_unless_the_environment_has_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    file.write_text("[work]\naws_access_key_id = id\naws_secret_access_key = a%b\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://localhost:9000")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    found = {"s3.endpoint": "http://localhost:9000", "s3.region": "eu-west-1"}
    assert s3_file_io() == found | {"s3.access-key-id": "id", "s3.secret-access-key": "a%b"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert s3_file_io() == found | {"s3.access-key-id": "other", "s3.secret-access-key": "secret"}


def test_the_variables_of_the_azure_command_line_are_read_unless_those_of_its_libraries_are_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "theirs")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    assert connected("az", "box-1").config["account_name"] == "theirs"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "libraries")
    assert "account_name" not in connected("az", "box-2").config  # it reads its own


def test_a_write_that_google_throttles_is_tried_again_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with Scripted(lambda *_: (429, b"slow down")) as server:
        nobody = {"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": True}
        key = json.dumps({"gcs_base_url": server.address, **nobody})
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", key)
        with pytest.raises(WriteError, match="429 Too Many Requests"):
            StoreFolder.at("gs://throttled/state").create("a", b"1")
        assert [(asked[0], asked[3]["x-goog-if-generation-match"]) for asked in server.asked] == [("PUT", "0")] * 6


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, str], StoreFolder]]:
    """A store that answers each request with a status and a code of S3."""
    with contextlib.ExitStack() as stack:

        def answer(status: int, code: str) -> StoreFolder:
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>Not now.</Message></Error>".encode()
            server = stack.enter_context(Scripted(lambda *_: (status, body)))
            keys = {"AWS_ENDPOINT_URL": server.address, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
            for name, value in keys.items():
                monkeypatch.setenv(name, value)
            return StoreFolder.at(f"s3://bucket-{urlsplit(server.address).port}/state")

        yield answer


def test_a_conflict_with_another_request_does_not_say_that_the_object_exists(answering: Any) -> None:
    folder = answering(409, "ConditionalRequestConflict")
    for attempt in (lambda: folder.create("a", b"1"), lambda: folder.swap("a", b"1", "tag")):
        with pytest.raises(WriteError, match="409 Conflict: ConditionalRequestConflict: Not now") as raised:
            attempt()
        assert raised.value.verdict is Verdict.AGAIN
    folder = answering(412, "PreconditionFailed")
    assert folder.create("a", b"1") is None
    assert folder.swap("a", b"1", "tag") is None


def test_a_store_that_refuses_because_of_this_machines_clock_is_asked_again(answering: Any) -> None:
    folder = answering(403, "RequestTimeTooSkewed")
    with pytest.raises(WriteError, match="RequestTimeTooSkewed") as raised:
        folder.put("a", b"1")
    assert raised.value.verdict is Verdict.AGAIN
    assert "Set the clock of this machine" in raised.value.hint


def test_an_error_has_what_the_store_said_and_nothing_around_it(answering: Any, monkeypatch: Any) -> None:
    folder = answering(400, "ExpiredToken")
    with pytest.raises(SetupError) as refused:
        folder.put("a", b"1")
    assert refused.value.message == (
        f"The object store refuses {folder.location}: 400 Bad Request: ExpiredToken: Not now."
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(WriteError, match=r"does not answer: Connection refused\. "):
        StoreFolder.at("s3://nobody/state").put("a", b"1")
