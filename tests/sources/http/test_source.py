from __future__ import annotations

import pickle
import ssl
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calve.errors import InvariantError, PositionLostError, SourceError
from calve.settings import Size
from calve.sources.http import source
from calve.sources.http.settings import HttpSettings
from calve.sources.log import index
from calve.sources.source import READ_ROWS
from calve.state.local_folder import LocalFolder
from sources.http.serving import Serve, Serving, read, until


def test_a_position_of_the_ledger_goes_on_after_a_restart(serve: Serve) -> None:
    serving = serve()
    serving.post([{"a": 1}])
    planned = serving.plan()
    assert planned
    serving.post([{"a": 2}])
    serving.source.stop()
    again = serve(planned.position)
    assert again.source.backlog(planned.position).rows == 1
    assert again.events(planned.position) == [{"a": 2}]
    assert read(again.source, planned) == [{"a": 1}]


def test_what_is_committed_is_deleted_and_the_position_behind_it_stays_good(serve: Serve) -> None:
    serving = serve()
    serving.post([{"a": 1}])
    planned = serving.plan()
    assert planned
    serving.source.acknowledge(planned)
    until(lambda: serving.logs() == ["000000000002.log"])
    serving.source.acknowledge(planned)
    serving.source.stop()
    again = serve(planned.position)
    assert not again.source.backlog(planned.position)
    assert again.plan(planned.position) is None
    again.post([{"a": 2}])
    assert again.events(planned.position) == [{"a": 2}]


def test_batches_that_are_committed_after_the_stop_are_deleted_too(serve: Serve) -> None:
    serving = serve()
    for number in (1, 2):
        serving.post([{"a": number}])
    planned = serving.plan()
    assert planned
    serving.source.stop()
    assert serving.plan() == planned
    for _ in range(2):
        serving.source.acknowledge(planned)
    assert serving.logs() == ["000000000002.log"]
    serving.source.stop()
    assert not serve(planned.position).source.backlog(planned.position)


def test_the_open_segment_stays_while_something_waits_in_it(serve: Serve) -> None:
    serving = serve()
    serving.post([{"a": 1}])
    planned = serving.plan()
    assert planned
    serving.post([{"a": 2}])
    serving.source.acknowledge(planned)
    serving.source.stop()
    assert serving.logs() == ["000000000001.log"]


def test_once_opens_no_port_and_works_off_the_log(serve: Serve) -> None:
    serving = serve()
    serving.post([{"a": 1}])
    serving.source.stop()
    once = serve(once=True)
    with pytest.raises(IndexError):
        _ = once.source.address
    planned = once.plan()
    assert planned
    assert read(once.source, planned) == [{"a": 1}]
    once.source.acknowledge(planned)
    once.source.stop()
    assert once.logs() == ["000000000002.log"]
    assert not serve(planned.position, once=True).source.backlog(planned.position)


def test_once_on_nothing_has_nothing_to_do(serve: Serve) -> None:
    assert serve(once=True).plan() is None


@pytest.mark.parametrize("gone", [["000000000001.log"], ["000000000001.log", "000000000002.log"]])
def test_a_log_that_is_gone_is_a_lost_position(serve: Serve, gone: list[str]) -> None:
    serving = serve()
    serving.post([{"a": 1}])
    planned = serving.plan()
    assert planned
    serving.post([{"a": 2}])
    second = serving.plan()
    assert second
    serving.source.acknowledge(second)
    until(lambda: serving.logs() == ["000000000002.log"])
    serving.source.stop()
    for name in gone:
        (serving.folder / name).unlink(missing_ok=True)
    with pytest.raises(PositionLostError, match=r"000000000001.log is missing.*Restore it"):
        serve(planned.position)


def test_a_log_younger_than_the_ledger_is_a_lost_position(serve: Serve) -> None:
    serving = serve()
    serving.post([{"a": 1}])
    serving.source.stop()
    for position in ({"segment": 3, "offset": 32}, {"segment": 1, "offset": 5000}, {"segment": 1, "offset": 50}):
        with pytest.raises(PositionLostError):
            serve(position)


def test_damage_is_said_by_the_reader_too(serve: Serve) -> None:
    serving = serve()
    serving.post([{"a": 1}])
    planned = serving.plan()
    assert planned
    path = serving.folder / "000000000001.log"
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match="damaged"):
        read(serving.source, planned)
    path.unlink()
    with pytest.raises(SourceError, match="state folder"):
        read(serving.source, planned)


def test_a_taken_port_is_told_at_once_and_leaves_nothing_running(serve: Serve, tmp_path: Path) -> None:
    port = serve().source.address[1]
    threads = set(threading.enumerate())
    other = source.open(HttpSettings(port=port), LocalFolder(tmp_path / "other"), "p")
    with pytest.raises(SourceError, match=rf"port {port} is taken.*another port"):
        other.start(None, once=False)
    assert set(threading.enumerate()) <= threads
    other.stop()


def test_an_address_that_is_not_ours_is_said(serve: Serve) -> None:
    with pytest.raises(SourceError, match="cannot listen"):
        serve(host="203.0.113.1")
    with pytest.raises(SourceError, match="cannot listen"):
        serve(host="no.such.host.invalid")


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="cannot be used"):
        Serving(tmp_path / "file")


def test_a_source_that_died_is_said(serve: Serve) -> None:
    serving = serve()
    serving.source._server.stop()
    with pytest.raises(InvariantError, match="ended by itself"):
        serving.source.backlog(None)


def test_stop_may_come_twice_or_before_start(serve: Serve, tmp_path: Path) -> None:
    source.open(HttpSettings(), LocalFolder(tmp_path), "p").stop()
    serving = serve()
    serving.source.stop()
    serving.source.stop()


def test_big_batches_are_cut_into_splits_without_losing_order(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SPLIT_BYTES", 2 << 20)
    serving = serve()
    for number in range(12):
        assert serving.post([{"n": number, "pad": "x" * (1 << 20)}]) == 200
    planned = serving.plan(max_bytes=8 << 20)
    assert planned
    assert len(planned.splits) >= 4
    assert sum(split.size_bytes for split in planned.splits) <= 10 << 20
    rest = serving.plan(planned.position)
    assert rest
    events = read(serving.source, planned) + read(serving.source, rest)
    assert [event["n"] for event in events] == list(range(12))
    assert serving.source.backlog(None).rows == 12
    assert serving.source.backlog(planned.position).rows == len(read(serving.source, rest))
    assert serving.plan(rest.position) is None


def test_a_request_bigger_than_a_batch_is_a_batch(serve: Serve) -> None:
    serving = serve()
    serving.post([{"pad": "x" * (3 << 20)}])
    planned = serving.plan(max_bytes=1)
    assert planned
    assert len(read(serving.source, planned)) == 1


def test_batches_have_a_bounded_number_of_rows_and_one_schema(serve: Serve) -> None:
    serving = serve(max_request_length=Size(20 << 20))
    rows = READ_ROWS + 10
    assert serving.post(b"[" + b",".join([b"{}"] * rows) + b"]") == 200
    assert serving.post([{"a": 1}]) == 200
    planned = serving.plan()
    assert planned
    batches = [batch for split in planned.splits for batch in serving.source.reader.read(split)]
    assert sum(batch.num_rows for batch in batches) == rows + 1
    assert max(batch.num_rows for batch in batches) <= READ_ROWS
    assert len({str(batch.schema) for batch in batches}) == 1


def test_the_reader_travels_to_executors(serve: Serve) -> None:
    serving = serve()
    serving.post([{"a": 1}])
    planned = serving.plan()
    assert planned
    reader = pickle.loads(pickle.dumps(serving.source.reader))
    assert next(reader.read(planned.splits[0])).num_rows == 1


def test_a_key_counts_once_within_a_run_and_across_restarts_and_deletion(serve: Serve) -> None:
    serving = serve()
    for _ in range(3):
        assert serving.post([{"a": 1}], Idempotency_Key="k") == 200
    assert serving.post([{"b": 1}], Idempotency_Key="other") == 200
    serving.source.stop()
    again = serve()
    assert again.post([{"a": 1}], Idempotency_Key="k") == 200
    planned = again.plan()
    assert planned
    assert read(again.source, planned) == [{"a": 1}, {"b": 1}]
    again.source.acknowledge(planned)
    until(lambda: again.logs() == ["000000000002.log"])
    assert again.post([{"a": 1}], Idempotency_Key="k") == 200
    again.source.stop()
    third = serve(planned.position)
    assert third.post([{"a": 1}], Idempotency_Key="k") == 200
    assert third.events(planned.position) == []


def test_the_same_key_at_the_same_time_is_written_once(serve: Serve) -> None:
    serving = serve()
    with ThreadPoolExecutor(16) as pool:
        keys = [f"k{number % 20}" for number in range(200)]
        statuses = list(pool.map(lambda key: serving.post([{"k": key}], Idempotency_Key=key), keys))
    assert set(statuses) == {200}
    assert Counter(event["k"] for event in serving.events()) == dict.fromkeys(keys, 1)


def test_many_clients_lose_and_double_nothing(serve: Serve) -> None:
    serving = serve()

    def client(number: int) -> None:
        with serving.connect() as connection:
            for request in range(20):
                body = b'[{"c":%d,"r":%d,"i":0},{"c":%d,"r":%d,"i":1}]' % (number, request, number, request)
                connection.sendall(
                    b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                )
                assert connection.recv(1000).startswith(b"HTTP/1.1 200")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(client, range(16)))
    events = [(event["c"], event["r"], event["i"]) for event in serving.events()]
    assert sorted(events) == [(c, r, i) for c in range(16) for r in range(20) for i in range(2)]
    for number in range(16):
        assert [event for event in events if event[0] == number] == sorted(e for e in events if e[0] == number)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate of our own, if openssl is there to make it."""
    pair = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    try:
        subprocess.run([*command, "-out", pair[0], "-keyout", pair[1]], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl")
    return pair


def test_tls_is_served(serve: Serve, certificate: tuple[str, str]) -> None:
    serving = serve(ssl=True, ssl_certificate_file=certificate[0], ssl_key_file=certificate[1])
    context = ssl.create_default_context(cafile=certificate[0])
    context.check_hostname = False
    with serving.connect() as bare, context.wrap_socket(bare) as client:
        client.sendall(b'POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n[{"a":1}]')
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    assert serving.events() == [{"a": 1}]


def test_a_bad_certificate_is_told_at_start(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("nonsense")
    for name in ("x.pem", "missing.pem"):
        path = str(tmp_path / name)
        with pytest.raises(SourceError, match="cannot use the certificate"):
            serve(ssl=True, ssl_certificate_file=path, ssl_key_file=path)
