"""Whatever a cluster answers, each document is taken, refused with a reason, or the batch fails and comes again."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pyarrow as pa
import pytest

from calve.errors import SinkRefusedError, SinkUnavailableError, Verdict
from calve.sinks.opensearch.bulk import Bulk, Refused
from calve.sinks.opensearch.client import Access, Client
from services.process import free_ports
from services.scripted import Scripted


def lines(*ids: int) -> pa.LargeStringArray:
    return pa.array([f'{{"index":{{"_id":"{number}"}}}}\n{{"n":{number}}}\n' for number in ids], pa.large_string())


class Cluster:
    """Takes documents; `troubles` gives by id the statuses that come first, `requests` those of whole requests."""

    def __init__(self, troubles: dict[str, list[int]] | None = None, requests: list[int] | None = None) -> None:
        self.troubles = troubles or {}
        self.requests = requests or []
        self.taken: Counter[str] = Counter()
        self.largest = 0

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if self.requests and (status := self.requests.pop(0)) != 200:
            return status, json.dumps({"error": {"type": "whole", "reason": "request"}}).encode()
        ids = [json.loads(line)["index"]["_id"] for line in body.decode().splitlines()[::2]]
        brief = path.endswith("filter_path=errors")
        if brief and any(self.troubles.get(id_) for id_ in ids):
            return 200, b'{"errors":true}'
        self.largest = max(self.largest, len(body))
        items = [self._item(id_) for id_ in ids]
        if brief:
            return 200, b'{"errors":false}'
        return 200, json.dumps({"errors": any("error" in one["index"] for one in items), "items": items}).encode()

    def _item(self, id_: str) -> dict:
        left = self.troubles.get(id_, [])
        status = left.pop(0) if left else 201
        if status < 300:
            self.taken[id_] += 1
            return {"index": {"status": status}}
        return {
            "index": {
                "status": status,
                "error": {"type": f"t{status}", "reason": "why", "caused_by": {"reason": "deeper"}},
            }
        }


def bulk(server: Scripted, size: int = 1 << 20, retries: int | None = None, **access) -> tuple[Bulk, list[float]]:
    waits: list[float] = []
    return Bulk(Client(Access((server.address,), **access)), size, retries, waits.append), waits


def test_requests_keep_their_size_and_their_order() -> None:
    cluster = Cluster()
    with Scripted(cluster.answer) as server:
        sender, waits = bulk(server, 200)
        assert sender.send("logs", lines(*range(100))).refused == []
        assert cluster.taken == Counter(map(str, range(100)))
        assert len(server.asked) > 10
        assert cluster.largest <= 200
        assert waits == []
        sent = b"".join(body for _, _, body, _ in server.asked)
        assert sent.decode() == "".join(lines(*range(100)).to_pylist())
        assert all(path.startswith("/logs/_bulk?filter_path=") for _, path, _, _ in server.asked)


def test_a_document_larger_than_a_request_goes_alone() -> None:
    cluster = Cluster()
    with Scripted(cluster.answer) as server:
        bulk(server, 10)[0].send("logs", lines(1, 2, 3))
    assert cluster.taken == Counter("123")


def test_overload_of_a_request_or_of_documents_is_waited_out_and_only_what_is_left_is_sent_again() -> None:
    cluster = Cluster({"2": [429, 503], "4": [500]}, [429, 503, 200])
    with Scripted(cluster.answer) as server:
        sender, waits = bulk(server)
        assert sender.send("logs", lines(1, 2, 3, 4)).refused == []
    assert cluster.taken == Counter("1234")
    assert len(waits) == 4
    assert waits[1] > waits[0] / 2
    assert server.asked[-1][2].decode() == lines(2)[0].as_py()


def test_refused_documents_come_back_with_opensearch_s_reason_and_conflicts_are_no_failure() -> None:
    cluster = Cluster({"2": [400], "3": [409], "4": [404]})
    with Scripted(cluster.answer) as server:
        sent = bulk(server)[0].send("logs", lines(1, 2, 3, 4, 5))
    assert sent.refused == [Refused(1, "t400: why: deeper"), Refused(3, "t404: why: deeper")]
    assert sent.superseded == 1
    assert cluster.taken == Counter("15")


def test_a_request_that_is_refused_as_a_whole_is_divided_until_the_document_is_found() -> None:
    def answer(method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if b'"n":5}' in body:
            return 400, b'{"error":{"type":"parse","reason":"five"}}'
        return cluster.answer(method, path, body)

    cluster = Cluster()
    with Scripted(answer) as server:
        sent = bulk(server)[0].send("logs", lines(*range(8)))
    assert sent.refused == [Refused(5, "parse: five")]
    assert cluster.taken == Counter("0123467")


@pytest.mark.parametrize("status", [302, 404, 405, 409, 429, 500, 503])
def test_a_status_that_is_not_about_documents_refuses_none_of_them(status: int) -> None:
    cluster = Cluster(requests=[status, status, 200])
    with Scripted(cluster.answer) as server:
        assert bulk(server)[0].send("logs", lines(1, 2)).refused == []
    assert cluster.taken == Counter("12")
    with Scripted(lambda *_: (status, b"from a proxy")) as server, pytest.raises(SinkUnavailableError) as raised:
        bulk(server)[0].send("logs", lines(1, 2))
    assert raised.value.message.endswith(f"accepts no documents: status {status}: from a proxy")


def test_a_request_that_is_too_large_for_the_server_is_divided() -> None:
    def answer(method: str, path: str, body: bytes) -> tuple[int, bytes]:
        return (413, b"") if len(body) > 100 else cluster.answer(method, path, body)

    cluster = Cluster()
    with Scripted(answer) as server:
        assert bulk(server)[0].send("logs", lines(*range(8))).refused == []
    assert cluster.taken == Counter("01234567")


def test_an_answer_that_never_comes_is_asked_for_again() -> None:
    answers = [0, 200]

    def answer(method: str, path: str, body: bytes) -> tuple[int, bytes]:
        found = cluster.answer(method, path, body)
        return found if answers.pop(0) else (0, b"")

    cluster = Cluster()
    with Scripted(answer) as server:
        assert bulk(server)[0].send("logs", lines(1)).refused == []
    assert cluster.taken == Counter({"1": 2})


def test_a_cluster_that_takes_nothing_fails_the_batch_which_is_tried_again() -> None:
    cluster = Cluster({"2": [429] * 1000})
    with Scripted(cluster.answer) as server:
        sender, waits = bulk(server)
        with pytest.raises(SinkUnavailableError, match="accepts no documents: t429: why") as raised:
            sender.send("logs", lines(1, 2))
    assert raised.value.verdict is Verdict.AGAIN
    assert 8 < sum(waits) < 20


def test_max_retries_makes_dead_letters_of_what_is_left() -> None:
    cluster = Cluster({"2": [429] * 1000})
    with Scripted(cluster.answer) as server:
        sent = bulk(server, retries=3)[0].send("logs", lines(1, 2))
        assert len(server.asked) == 5  # a word for all, then the details, and three more tries
    assert [one.row for one in sent.refused] == [1]
    assert "limit of max retries (configured value 3. Last exception message: t429" in sent.refused[0].reason


def test_a_wrong_password_is_told_at_once_and_never_shown() -> None:
    with Scripted(lambda *_: (401, b"Unauthorized")) as server:
        sender, _ = bulk(server, login=("me", "secret"))
        with pytest.raises(SinkRefusedError, match=r"refuses the user me \(401\)") as raised:
            sender.send("logs", lines(1))
        assert len(server.asked) == 1
        assert server.asked[0][3]["authorization"] == "Basic bWU6c2VjcmV0"
    assert "secret" not in str(raised.value) + repr(sender.client._access)


def test_a_password_may_have_any_character() -> None:
    with Scripted(lambda *_: (401, b"Unauthorized")) as server:
        with pytest.raises(SinkRefusedError, match=r"refuses the user me \(401\)"):
            bulk(server, login=("me", "s€cret"))[0].send("logs", lines(1))
        assert server.asked[0][3]["authorization"] == "Basic bWU6c+KCrGNyZXQ="


def test_a_node_that_is_away_is_passed_over_for_the_next() -> None:
    cluster = Cluster()
    with Scripted(cluster.answer) as server:
        gone = f"http://127.0.0.1:{free_ports(1)[0]}"
        client = Client(Access((gone, server.address)))
        assert Bulk(client, 1 << 20).send("logs", lines(1)).refused == []
        with pytest.raises(SinkUnavailableError, match="does not answer: Connection refused"):
            Client(Access((gone,))).request("GET", "/")
    assert cluster.taken == Counter("1")


def test_what_is_no_tls_and_what_no_host_is_told_with_the_way_out() -> None:
    with Scripted(lambda *_: (200, b"{}")) as server, pytest.raises(SinkRefusedError, match="write http://"):
        Client(Access((server.address.replace("http:", "https:"),))).request("GET", "/")
    with pytest.raises(SinkUnavailableError, match="the host name is unknown"):
        Client(Access(("http://no-such-host.invalid:9200",))).request("GET", "/")


def test_compressed_requests_hold_the_same() -> None:
    cluster = Cluster()
    with Scripted(lambda m, p, body: cluster.answer(m, p, gzip.decompress(body))) as server:
        bulk(server, compress=True)[0].send("logs", lines(*range(100)))
        assert server.asked[0][3]["content-encoding"] == "gzip"
    assert cluster.taken == Counter(map(str, range(100)))
