from __future__ import annotations

import base64
import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from calve.cli.main import calve
from calve.settings import Size
from calve.sources.http import body
from calve.sources.http.settings import HttpAuthentication, HttpBasic, HttpSettings
from calve.sources.log.record import RecordEvents
from kit.running import PATIENCE_SECONDS
from sources.http.serving import Serve, read, stalled, until

BASIC = HttpAuthentication(http_basic=HttpBasic(username="ann", password="pass:wörd"))


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_events_are_read_as_they_were_sent(serve: Serve) -> None:
    serving = serve()
    assert serving.post('[{"a": 1.50}, {"b":"ü"}]'.encode()) == 200
    planned = serving.plan()
    assert planned
    batch = next(serving.source.reader.read(planned.splits[0]))
    assert batch.column("event").to_pylist() == [b'{"a": 1.50}', '{"b":"ü"}'.encode()]
    assert batch.schema.names == ["event"]


def test_an_empty_array_is_taken_and_leaves_nothing(serve: Serve) -> None:
    serving = serve()
    assert serving.post([]) == 200
    assert not serving.source.backlog(None)


@pytest.mark.parametrize("body", ["{", "[1]", "", "[{]", b'[{"a":"\xff"}]'])
def test_a_bad_body_is_400_and_nothing_of_it_is_kept(serve: Serve, body: Any) -> None:
    serving = serve()
    status, text, _ = serving.send("POST", "/log/ingest", body)
    assert status == 400
    assert text.startswith("Bad request data format. Needs to be json array")
    assert not serving.source.backlog(None)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 404),
        ("POST", "/log/ingest/", 404),
        ("GET", "/log/ingest", 405),
        ("PUT", "/log/ingest", 405),
        ("POST", "/health", 405),
        ("GET", "/health", 200),
        ("HEAD", "/health", 200),
        ("POST", "/log/ingest?refresh=true", 200),
    ],
)
def test_method_and_path_decide(serve: Serve, method: str, path: str, status: int) -> None:
    assert serve().send(method, path, "[]")[0] == status


def test_405_names_what_is_allowed(serve: Serve) -> None:
    assert serve().send("GET", "/log/ingest")[2]["allow"] == "POST"


def test_the_path_may_name_the_pipeline(serve: Serve) -> None:
    serving = serve(path="/${pipelineName}/in")
    assert serving.send("POST", "/orders/in", "[]")[0] == 200


def test_the_health_check_can_be_switched_off(serve: Serve) -> None:
    assert serve(health_check_service=False).send("GET", "/health")[0] == 404


@pytest.mark.parametrize(
    "given",
    [None, "", "Basic", "Basic !", "Bearer " + basic("ann:pass:wörd")[6:], basic("ann:x"), basic("x:pass:wörd")],
)
def test_a_stranger_is_401(serve: Serve, given: str | None) -> None:
    serving = serve(authentication=BASIC)
    headers = {} if given is None else {"Authorization": given}
    status, _, answer = serving.send("POST", "/log/ingest", '[{"a":1}]', **headers)
    assert status == 401
    assert answer["www-authenticate"].startswith("Basic")
    assert serving.send("GET", "/health", **headers)[0] == 401
    assert not serving.source.backlog(None)


def test_who_knows_the_password_may_send(serve: Serve) -> None:
    serving = serve(authentication=BASIC)
    assert serving.post([{"a": 1}], Authorization=basic("ann:pass:wörd")) == 200


def test_the_health_check_may_be_open_to_all(serve: Serve) -> None:
    serving = serve(authentication=BASIC, unauthenticated_health_check=True)
    assert serving.send("GET", "/health")[0] == 200
    assert serving.post([]) == 401


def test_gzip_is_unpacked_when_told_or_configured(serve: Serve) -> None:
    packed = gzip.compress(b'[{"a":1}]')
    assert serve().post(packed, Content_Encoding="gzip") == 200
    assert serve().post(packed) == 400
    configured = serve(compression="gzip")
    assert configured.post(packed) == 200
    assert configured.post("[]") == 400


def test_an_unknown_encoding_is_415(serve: Serve) -> None:
    assert serve().post("[]", Content_Encoding="br") == 415


def test_a_long_body_is_413_whether_told_or_not_or_packed(serve: Serve) -> None:
    serving = serve(max_request_length=Size(1000))
    body = json.dumps([{"a": "x" * 1000}]).encode()
    assert serving.post(body) == 413
    assert serving.post(iter([body[:10], body[10:]])) == 413
    assert serving.post(gzip.compress(body), Content_Encoding="gzip") == 413
    assert serving.post(b" " * (30 << 20)) == 413
    assert serving.post([{"a": "x" * 900}]) == 200


@pytest.mark.parametrize("named", ["text/plain", "Text/Plain; Charset=UTF-8", 'text/plain;charset="us-ascii"'])
def test_a_body_of_plain_text_has_an_event_for_each_line(serve: Serve, named: str) -> None:
    serving = serve()
    assert serving.post(b'a "b"\r\n\n{"c":1}', Content_Type=named) == 200
    assert serving.events() == [{"message": 'a "b"'}, {"message": '{"c":1}'}]


@pytest.mark.parametrize("named", ["", "application/json", "application/x-www-form-urlencoded", "text/plainer", "text"])
def test_a_body_of_another_type_is_json(serve: Serve, named: str) -> None:
    serving = serve()
    assert serving.post(b'{"a":1}\n{"b":2}', Content_Type=named) == 200
    assert serving.events() == [{"a": 1}, {"b": 2}]


def test_text_is_unpacked_and_known_by_its_key_as_json_is(serve: Serve) -> None:
    serving = serve()
    headers = {"Content_Type": "text/plain", "Content_Encoding": "gzip", "Idempotency_Key": "k"}
    for _ in range(2):
        assert serving.post(gzip.compress(b"a\nb\n"), **headers) == 200
    assert serving.post(b"\n\r\n", Content_Type="text/plain") == 200
    assert serving.post(b"\xff", Content_Type="text/plain") == 400
    assert serving.events() == [{"message": "a"}, {"message": "b"}]


def test_text_in_another_charset_is_415(serve: Serve) -> None:
    serving = serve()
    assert serving.post(b"a", Content_Type="text/plain; format=flowed; charset=latin1") == 415
    assert serving.post([{"a": 1}], Content_Type="application/json; charset=latin1") == 200


def test_a_key_that_is_none_is_400(serve: Serve) -> None:
    serving = serve()
    for key in ("", "a b", "x" * 256):
        assert serving.post([{"a": 1}], Idempotency_Key=key) == 400


def test_a_full_log_is_429_and_goes_on_when_commits_have_caught_up(serve: Serve) -> None:
    serving = serve(max_log_bytes=Size(1 << 16))
    event = {"a": "x" * 40_000}
    assert serving.post([event]) == 200
    status, text, headers = serving.send("POST", "/log/ingest", json.dumps([event]))
    assert (status, headers["retry-after"]) == (429, "5")
    assert "full" in text
    planned = serving.plan()
    assert planned
    assert read(serving.source, planned) == [event]
    serving.source.acknowledge(planned)
    until(lambda: serving.logs() == ["000000000002.log"])
    assert serving.post([event]) == 200
    assert serving.events(planned.position) == [event]


def test_a_disk_that_is_nearly_full_is_429(serve: Serve) -> None:
    assert serve(min_free_bytes=Size(1 << 60)).post([{"a": 1}]) == 429


def test_kept_headers_become_metadata_but_never_credentials(serve: Serve) -> None:
    serving = serve(metadata_headers=["X-Tenant", "Authorization"])
    serving.post([{"a": 1}, {"a": 2}], X_Tenant="blue", Authorization="secret")
    serving.post([{"a": 3}])
    planned = serving.plan()
    assert planned
    batch = next(serving.source.reader.read(planned.splits[0]))
    assert batch.column("headers").to_pylist() == [{"x-tenant": "blue"}, {"x-tenant": "blue"}, {"x-tenant": None}]


def test_refusals_are_counted_and_logged_at_the_first_and_each_tenfold(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    serving = serve()
    assert serving.send("POST", "/log/ingest", b'[{"a": 1}, {"a": 2}]')[2]["calve-events"] == "2"
    for _ in range(12):
        serving.post("{")
    assert serving.source.backlog(None).refused == {"400": 12}
    assert serving.source.backlog(None).refusing == ""
    assert [line.partition(",")[0] for line in caplog.messages] == [
        "a request answered 400",
        "10 requests answered 400",
    ]


def test_while_every_client_gets_429_the_source_says_why(serve: Serve) -> None:
    serving = serve(min_free_bytes=Size(1 << 60))
    assert serving.post([{"a": 1}]) == 429
    assert "its disk is nearly full" in serving.source.backlog(None).refusing
    assert serving.post([]) == 200
    assert serving.source.backlog(None).refusing == ""


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b"a,b\n1,2\n", "text/csv", "CSV is not read here"),
        (b"\0\1\2", "application/octet-stream", "send them as Base64"),
        (b"hello", "application/x-www-form-urlencoded", "Content-Type: text/plain"),
        (b'{"a":1}\n\n{"a"', "application/json", "Line 3 "),
        (b'[{"a":1}, 5]', "application/json", "Element 2 is not an object."),
    ],
)
def test_a_bad_body_is_named_with_what_is_allowed(serve: Serve, body: bytes, kind: str, said: str) -> None:
    _, text, _ = serve().send("POST", "/log/ingest", body, Content_Type=kind)
    assert "json array, one object, or NDJSON" in text
    assert said in text


def test_a_disk_that_hangs_is_408_and_the_request_is_not_kept(serve: Serve) -> None:
    serving = serve(request_timeout=timedelta(seconds=3))
    with stalled(serving):
        assert serving.send("POST", "/log/ingest", '[{"a":1}]')[0] == 408
    assert serving.post([{"a": 2}]) == 200
    assert serving.events() == [{"a": "first"}, {"a": 2}]


def test_too_many_pending_requests_are_429_in_data_preppers_words(serve: Serve) -> None:
    serving = serve(max_pending_requests=1)
    with stalled(serving):
        status, text, headers = serving.send("POST", "/log/ingest", '[{"a":1}]')
    assert (status, headers["retry-after"]) == (429, "1")
    assert "max_pending_requests:1. Please retry later" in text
    assert serving.events() == [{"a": "first"}]


def test_no_bomb_is_unpacked_or_split_on_the_event_loop(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serving, go_on, begun = serve(), threading.Event(), threading.Semaphore(0)
    split = body.split

    def slow(data: bytes, most: int) -> RecordEvents:
        if len(data) > 1 << 15:
            begun.release()
            assert go_on.wait(PATIENCE_SECONDS)
        return split(data, most)

    monkeypatch.setattr(body, "split", slow)
    bomb = b'{"a":"\\ud800"}\n' * 4000
    packed = {"content_encoding": "gzip"}
    with ThreadPoolExecutor(6) as clients:
        sent = [clients.submit(serving.post, bomb) for _ in range(3)]
        sent += [clients.submit(serving.post, gzip.compress(bomb), **packed) for _ in range(3)]
        assert begun.acquire(timeout=PATIENCE_SECONDS)
        assert [serving.post([{"b": number}]) for number in range(20)] == [200] * 20  # while the bombs are split
        assert not any(each.done() for each in sent)
        go_on.set()
        assert [each.result() for each in sent] == [200] * 6
    assert serving.source.backlog(None).rows == 6 * 4000 + 20


def test_requests_that_wait_to_be_split_are_limited_and_end_in_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = serve(max_pending_requests=3, request_timeout=timedelta(seconds=1))
    go_on, split = threading.Event(), body.split

    def slow(data: bytes, most: int) -> RecordEvents:
        assert go_on.wait(PATIENCE_SECONDS)
        return split(data, most)

    monkeypatch.setattr(body, "split", slow)
    bomb = b"[" + b" " * (1 << 16) + b"{}]"
    with ThreadPoolExecutor(5) as clients:
        answers = list(clients.map(serving.post, [bomb] * 5))
    go_on.set()
    assert sorted(answers) == [408, 408, 408, 429, 429]
    assert serving.source.backlog(None).rows == 0


def unpacks_later(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let bodies be unpacked when the event is set, and not before."""
    go_on, gunzip = threading.Event(), body.gunzip

    def slow(data: bytes, limit: int, ratio: int) -> bytes:
        assert go_on.wait(PATIENCE_SECONDS)
        return gunzip(data, limit, ratio)

    monkeypatch.setattr(body, "gunzip", slow)
    return go_on


def test_bodies_that_wait_for_the_disk_count_as_they_are_unpacked(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving, go_on = serve(request_timeout=timedelta(seconds=PATIENCE_SECONDS)), unpacks_later(monkeypatch)
    packed = gzip.compress(b'[{"a":"%b"}]' % (b"x" * 100_000))
    service = serving.source._service
    with ThreadPoolExecutor(3) as clients, stalled(serving):
        sent = [clients.submit(serving.post, packed, content_encoding="gzip") for _ in range(2)]
        until(lambda: service.pending == 3)
        monkeypatch.setattr("calve.sources.http.server.HELD_BYTES", 100_000)
        go_on.set()
        until(lambda: service.crowded)
        assert serving.post([{"b": 1}]) == 429
    assert [each.result() for each in sent] == [200, 200]
    until(lambda: not service.crowded)


def test_no_body_is_unpacked_while_others_fill_the_memory(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serving, go_on = serve(request_timeout=timedelta(seconds=PATIENCE_SECONDS)), unpacks_later(monkeypatch)
    service = serving.source._service
    with ThreadPoolExecutor(3) as clients, stalled(serving):
        sent = [clients.submit(serving.post, gzip.compress(b"[{}]"), content_encoding="gzip") for _ in range(3)]
        until(lambda: service.pending == 4)  # two on the threads, one behind them
        monkeypatch.setattr("calve.sources.http.server.HELD_BYTES", 1)
        until(lambda: service.crowded)
        go_on.set()
        until(lambda: any(each.done() for each in sent))
    assert sorted(each.result() for each in sent) == [200, 200, 429]


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("{}", "needs http_basic"),
        ('{http_basic: {username: ann, password: ""}}', "must not be empty"),
        ('{http_basic: {username: "", password: secret}}', "must not be empty"),
        ("{unauthenticated: {}}", ""),
    ],
)
def test_an_authentication_that_keeps_nobody_out_is_an_error(tmp_path: Path, written: str, error: str) -> None:
    file = tmp_path / "p.yaml"
    sink = "{iceberg: {table_identifier: a.b, auto_create: true}}"
    file.write_text(f"p: {{source: {{http: {{host: 0.0.0.0, authentication: {written}}}}}, sink: [{sink}]}}")
    done = CliRunner().invoke(calve, ["validate", str(file)], prog_name="calve")
    assert done.exit_code == (2 if error else 0)
    assert error in done.output


@pytest.mark.parametrize("bad", ["*", "", "null", "shop.example.com", "https://a.example/b", "https://a.example:443"])
def test_an_origin_that_no_browser_sends_or_any_page_has_is_an_error(bad: str) -> None:
    assert [key for key, _ in HttpSettings(allowed_origins=[bad]).check()] == ["allowed_origins"]
    good = ["https://a.example", "http://a.example:8080/", "http://[::1]:3000", "chrome-extension://abc"]
    assert not list(HttpSettings(allowed_origins=good).check())


@pytest.mark.parametrize("bad", ["*", "", "http://a.example", "a.example:80", "*.example.com"])
def test_an_allowed_host_that_is_no_name_is_an_error(bad: str) -> None:
    assert [key for key, _ in HttpSettings(allowed_hosts=[bad]).check()] == ["allowed_hosts"]
    assert not list(HttpSettings(allowed_hosts=["Events.example.com", "fe80::1"]).check())
