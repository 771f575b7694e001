"""What lasts is told apart from what passes by the codes that Java's exceptions carry, never by their texts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from calve.engine.java.error_classes import refusal
from calve.errors import SetupError

AWS = "software.amazon.awssdk.awscore.exception.AwsServiceException"
CLIENT = "software.amazon.awssdk.core.exception.SdkClientException"
SQL = "java.sql.SQLException"
SQLITE = "org.sqlite.SQLiteException"


def aws(status: int, code: str | None) -> Any:
    details = None if code is None else SimpleNamespace(errorCode=lambda: code)
    return SimpleNamespace(awsErrorDetails=lambda: details, statusCode=lambda: status)


@pytest.mark.parametrize(
    ("status", "code", "lasts"),
    [
        (404, "NoSuchBucket", True),
        (403, "AccessDenied", True),
        (403, None, True),
        (301, None, True),
        (400, "AuthorizationHeaderMalformed", True),
        (400, "RequestTimeout", False),
        (404, "NoSuchKey", False),
        (503, "SlowDown", False),
        (500, None, False),
    ],
)
def test_an_object_store_that_refuses_for_good_is_an_error_of_the_set_up(
    status: int, code: str | None, lasts: bool
) -> None:
    found = refusal(aws(status, code), ["software.amazon.awssdk.services.s3.model.S3Exception", AWS])
    assert (found is not None and found[0] is SetupError) == lasts


def test_a_client_without_region_or_keys_lasts_and_one_whose_network_fails_does_not() -> None:
    for cause, lasts in ((None, True), (object(), False)):
        throwable = SimpleNamespace(getCause=lambda cause=cause: cause)
        assert (refusal(throwable, [CLIENT]) is not None) == lasts


@pytest.mark.parametrize(
    ("state", "lasts"), [("28P01", True), ("3D000", True), ("42501", True), ("08001", False), (None, False)]
)
def test_a_database_that_knows_no_such_user_or_database_lasts(state: str | None, lasts: bool) -> None:
    assert (refusal(SimpleNamespace(getSQLState=lambda: state), [SQL]) is not None) == lasts


@pytest.mark.parametrize(("code", "lasts"), [(8, True), (14, True), (26, True), (5, False), (13, False)])
def test_a_database_file_that_cannot_be_opened_lasts_and_a_busy_one_does_not(code: int, lasts: bool) -> None:
    assert (refusal(SimpleNamespace(getErrorCode=lambda: code), [SQLITE, SQL]) is not None) == lasts
