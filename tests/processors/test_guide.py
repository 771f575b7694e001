"""The pipelines of the guides do what their pages say, event by event."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import calve

DOCS = Path(__file__).parents[2] / "docs"
NGINX = '203.0.113.7 - ada [31/Jan/2026:23:30:00 +0100] "GET /a?b=1 HTTP/1.1" 404 153 "-" "curl/8.5"'
JAVA = "2026-01-31 23:30:00,123 ERROR com.shop.Cart - it failed\njava.lang.Error: no\n\tat com.shop.Cart.main"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def processed(page: str, name: str, event: dict[str, Any]) -> dict[str, Any]:
    """Return an event as the processors of a page's pipeline leave it, and none rejects it."""
    blocks = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL))
    [pipeline] = [block for block in blocks if name in block]
    [fate] = calve.try_events(pipeline, [event]).events
    assert fate.rejects == []
    return json.loads(fate.processed[-1].after[0]) if fate.processed else event


def test_a_line_of_an_access_log_becomes_columns() -> None:
    found = processed("logs.md", "nginx", {"message": NGINX})
    assert (found["clientip"], found["response"], found["bytes"]) == ("203.0.113.7", 404, 153)
    assert found["time"] == "2026-01-31T22:30:00.000Z"
    assert not found.keys() & {"message", "timestamp", "ident"}
    assert processed("logs.md", "nginx", {"message": "odd"})["message"] == "odd"


@pytest.mark.parametrize(
    ("line", "time", "pid"),
    [
        ("2026-11-23T08:15:30.123456+01:00 web1 sshd[47]: Accepted", "2026-11-23T08:15:30.123456+01:00", 47),
        ("Nov  3 08:15:30 web1 sshd: Accepted", f"{datetime.now(UTC).year}-11-03T08:15:30.000Z", None),
    ],
)
def test_a_line_of_syslog_becomes_columns(line: str, time: str, pid: int | None) -> None:
    found = processed("logs.md", "syslog", {"message": line})
    expected = {"time": time, "host": "web1", "program": "sshd", "pid": pid, "text": "Accepted"}
    assert found == {key: value for key, value in expected.items() if value is not None}


def test_an_event_of_cloudtrail_has_its_service() -> None:
    event = {"eventTime": "2026-11-23T08:15:30Z", "eventSource": "s3.amazonaws.com", "requestParameters": {"a": [1]}}
    assert processed("logs.md", "cloudtrail", event) == event | {"service": "s3"}


def test_a_stack_trace_stays_one_event() -> None:
    found = processed("logs.md", "java", {"message": JAVA})
    assert found["trace"] == "java.lang.Error: no\n\tat com.shop.Cart.main"
    assert (found["level"], found["class"], found["text"]) == ("ERROR", "com.shop.Cart", "it failed")


def test_a_local_time_becomes_utc() -> None:
    assert (
        processed("time-zones.md", "tickets", {"sold_at": "31.01.2026 23:30"})["sold_at"] == "2026-01-31T22:30:00.000Z"
    )
