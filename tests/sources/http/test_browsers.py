"""A page that somebody opens on this machine cannot send events to it."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from calve.observe.metrics import Metrics
from sources.http.serving import Serve

SHOP = "https://shop.example.com"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "https://evil.example", "content_type": "text/plain"},
        {"origin": "https://evil.example", "content_type": "application/x-www-form-urlencoded"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"host": "evil.example"},
        {"host": "evil.example:2021", "origin": "http://evil.example:2021", "sec_fetch_site": "same-origin"},
        {"host": "localhost.evil.example"},
    ],
)
def test_a_page_of_another_site_sends_nothing(serve: Serve, headers: dict[str, str]) -> None:
    serving = serve()
    assert serving.post([{"a": 1}], **headers) == 403
    assert serving.plan() is None


def test_programs_and_pages_of_this_server_send(serve: Serve) -> None:
    serving = serve()
    host = f"localhost:{serving.source.address[1]}"
    own = {"host": host, "origin": f"http://{host}", "sec_fetch_site": "same-origin"}
    named: list[dict[str, str]] = [{}, {"host": "localhost"}, {"host": "127.0.0.1:1"}, {"host": "[::1]:2021"}, own]
    assert [serving.post([{"a": 1}], **headers) for headers in named] == [200] * 5


def test_listed_pages_and_names_send_and_read_the_answer(serve: Serve) -> None:
    serving = serve(allowed_origins=[f"{SHOP}/"], allowed_hosts=["events.example.com"])
    page = {"origin": SHOP, "sec_fetch_site": "cross-site", "host": "events.example.com"}
    status, _, headers = serving.send("POST", "/log/ingest", '[{"a":1}]', **page)
    assert (status, headers["access-control-allow-origin"]) == (200, SHOP)
    status, _, headers = serving.send("OPTIONS", "/log/ingest", None, **page)
    assert (status, headers["access-control-allow-methods"]) == (204, "POST")
    assert serving.send("OPTIONS", "/log/ingest", None, origin="https://evil.example")[0] == 403


def test_metrics_are_for_names_of_this_machine() -> None:
    with Metrics(list, 0) as metrics:
        url = f"http://127.0.0.1:{metrics.port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.status == 200
        rebound = urllib.request.Request(url, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(rebound, timeout=10)
        refused.value.close()
        assert refused.value.code == 403
