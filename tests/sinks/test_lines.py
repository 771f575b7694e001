"""The sinks that write lines: what a line is, which folders there are, what a server refuses; without Spark."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calve.errors import CalveError, SinkRefusedError, SinkUnavailableError, Verdict
from calve.observe.log import Log
from calve.pipeline.plugins import PLUGINS, open_sink
from calve.record.receipt import Receipt
from calve.settings import SettingsErrors, parse_text
from calve.sinks.http import client as http_client
from calve.sinks.job import SinkJob
from calve.sinks.sink import Opening
from calve.sinks.stdout.sink import print_lines
from services.scripted import Scripted

CHANGES = {"iceberg_operation": pa.string(), "iceberg_table_name": pa.string()}


class FakeWork:
    """A task, whose rejects are kept."""

    is_probe = False

    def __init__(self) -> None:
        self.rejects: list[tuple[str, int, str]] = []

    def timed(self, step: str, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    def reject(self, target: str, events: pa.Table, rejects: pa.Table) -> None:
        self.rejects += [(target, row["row"], row["reason"]) for row in rejects.to_pylist()]


def job_of(sink: str, metadata: Mapping[str, pa.DataType] = {}, batch: int = 1) -> SinkJob:
    [entry] = parse_text(f"p:\n  source: {{http: {{port: 0}}}}\n  sink: [{sink}]\n", PLUGINS).pipelines[0].sinks
    opening = Opening(entry, "s", metadata, "/nowhere", None, Log("p"))  # type: ignore[arg-type]
    return open_sink(opening).job(batch, 10, "pre-", False)


def run(job: SinkJob, events: Iterable[Any], targets: tuple[str, ...] = ("t",), **metadata: list[str]) -> Any:
    """Write events, which go to targets in turn; return the receipt and the rejects."""
    work: Any = FakeWork()
    writer = job.writer(work)
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    rows = pa.table({"event": [text.encode() for text in texts], "json": texts, **metadata})
    numbers = np.arange(len(rows), dtype=np.int32) % len(targets)
    rejects = [reject for _, table in writer.write(targets, rows, numbers) for reject in table.to_pylist()]
    assert rejects == []
    writer.finish()
    return writer.close({}), work.rejects


def printed(receipt: Receipt) -> list[Any]:
    return [json.loads(line) for line in receipt.lines]


def test_an_event_is_one_line_and_its_values_are_unchanged() -> None:
    receipt, _ = run(job_of("{stdout: {}}"), ['{"a": 1.50,\r\n "é": "x\\ny", "b": 12345678901234567890123}'])
    assert receipt.lines == ['{"a": 1.50,   "é": "x\\ny", "b": 12345678901234567890123}\n']
    assert [(index.index, index.rows) for index in receipt.documents] == [("t", 1)]


def test_changes_of_rows_have_their_operation_also_without_a_key() -> None:
    words = ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"]
    events = [{"n": number} for number in range(4)]
    receipt, _ = run(job_of("{stdout: {}}", CHANGES), events, iceberg_operation=words, iceberg_table_name=["s.t"] * 4)
    assert [(line["op"], line["before"], line["after"]) for line in printed(receipt)] == [
        ("c", None, {"n": 0}),
        ("u", {"n": 1}, {"n": 2}),
        ("d", {"n": 3}, None),
    ]
    assert printed(receipt)[0]["source"]["iceberg_table"] == "s.t"


def test_a_row_that_left_a_target_and_comes_back_is_deleted_before_it_is_inserted() -> None:
    words = ["UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "INSERT"]
    work: Any = FakeWork()
    writer: Any = job_of("{stdout: {}}", CHANGES | {"document_id": pa.string()}).writer(work)
    names = {"iceberg_operation": words, "iceberg_table_name": ["s.t"] * 4, "document_id": ["1"] * 4}
    list(writer.write(("A", "B"), pa.table({"json": ["{}"] * 4, **names}), np.array([0, 1, 1, 0], np.int32)))
    values = [json.loads(record.value) for record in writer._records() if record.target == "A" and record.value]
    assert [value["op"] for value in values] == ["d", "c"]


def test_plain_json_of_changes_is_refused_because_a_delete_would_look_like_a_row() -> None:
    yaml = """
p:
  source: {{iceberg: {{tables: [{{table_name: a.b, identifier_columns: [id]}}]}}}}
  sink: [{{stdout: {{serde_format: {}}}}}]
"""
    parse_text(yaml.format("debezium"), PLUGINS)
    with pytest.raises(SettingsErrors, match="json has no operation"):
        parse_text(yaml.format("json"), PLUGINS)
    with pytest.raises(SettingsErrors, match="json has no operation"):
        job_of("{stdout: {serde_format: json, operation: '${/op}'}}")


def test_lines_are_printed_and_a_closed_output_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr("sys.stdout", out)
        print_lines(["é\n", "b\n"])
    assert (tmp_path / "out").read_bytes() == "é\nb\n".encode()
    reader, writer = os.pipe()
    os.close(reader)
    with io.FileIO(writer, "w") as broken:
        monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: False, buffer=broken))
        with pytest.raises(SinkRefusedError, match="Broken pipe"):
            print_lines(["x\n"])


def test_an_unbuffered_output_that_takes_parts_gets_all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = io.BytesIO()
    parts = SimpleNamespace(write=lambda data: taken.write(data[:3]) or None, flush=lambda: None)
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: False, buffer=parts))
    print_lines(["é\n", "b" * 7 + "\n"])
    assert taken.getvalue() == "é\nbbbbbbb\n".encode()


def test_a_batch_is_a_file_in_each_folder_and_a_manifest_names_them(tmp_path: Path) -> None:
    sink = f"{{file: {{path: '{tmp_path}/region=${{/region}}', compression: gzip}}}}"
    events = [{"id": number} for number in range(5)]
    for _ in range(2):  # the batch comes again
        run(job_of(sink), events, (f"{tmp_path}/region=eu", f"{tmp_path}/region=us"))
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    name = "pre-000000000001"
    assert [*map(str, files)] == [
        f"_manifests/{name}.json",
        f"region=eu/{name}.ndjson.gz",
        f"region=us/{name}.ndjson.gz",
    ]
    manifest = json.loads((tmp_path / files[0]).read_bytes())
    assert [(each["path"], each["rows"]) for each in manifest["files"]] == [(str(files[1]), 3), (str(files[2]), 2)]
    assert [each["bytes"] for each in manifest["files"]] == [(tmp_path / path).stat().st_size for path in files[1:]]
    assert gzip.decompress((tmp_path / files[2]).read_bytes()) == b'{"id": 1}\n{"id": 3}\n'


def test_what_a_killed_task_left_goes_when_its_batch_comes_again_and_attempts_do_not_tear_files(tmp_path: Path) -> None:
    job = job_of(f"{{file: {{path: '{tmp_path}'}}}}")
    name, others = "pre-000000000001.ndjson", tmp_path / ".pre-000000000002.ndjson"
    (tmp_path / f".{name}").write_text("torn")
    others.write_text("torn")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: run(job, [{"id": 1}], (str(tmp_path),)), range(40)))
    assert {path.name for path in tmp_path.iterdir()} == {name, others.name, "_manifests"}
    assert (tmp_path / name).read_text() == '{"id": 1}\n'
    assert [path.name for path in (tmp_path / "_manifests").iterdir()] == ["pre-000000000001.json"]


@pytest.mark.parametrize(
    "value",
    [
        "..",
        ".",
        "",
        "/",
        "eu/",
        "/eu",
        "x/b-0.ndjson.gz/y",
        "é" * 120 + "/" + "é" * 120 + "/é" * 400,
        "a//b",
        "../x",
        "_manifests",
        ".x",
        "a/../..",
        "x" * 256,
        "a\nb",
        "\0",
    ],
)
def test_a_value_of_an_event_leads_to_no_other_folder(tmp_path: Path, value: str) -> None:
    route = job_of(f"{{file: {{path: '{tmp_path}/out/${{/v}}'}}}}").route
    assert route.fault(f"{tmp_path}/out/{value}") is not None
    assert route.fault(f"{tmp_path}/out/a/b=1/é") is None
    assert route.fault(f"{tmp_path}/out/region=") is not None


@pytest.mark.parametrize("path", ["/", "${/v}/out", "/${/v}", "s3://${/v}", "ftp://host/x", " "])
def test_a_path_that_files_cannot_be_in_is_refused(path: str) -> None:
    with pytest.raises(SettingsErrors):
        job_of(f"{{file: {{path: '{path}'}}}}")


def http(server: str, **more: Any) -> SinkJob:
    options = json.dumps({"url": f"{server}/e?token=t", "flush_interval": "1s", **more})
    return job_of(f"{{http: {options}}}")


def test_requests_have_the_order_of_events_a_bounded_size_and_the_same_keys_again() -> None:
    with Scripted(lambda method, path, body: (200, b"")) as server:
        for _ in range(2):
            receipt, _ = run(http(server.address, max_events=2, body="json"), [{"id": number} for number in range(5)])
        assert [(index.index, index.rows) for index in receipt.documents] == [("t", 5)]
        asked = [(json.loads(body), headers["idempotency-key"]) for _, _, body, headers in server.asked]
    assert (
        asked[:3]
        == asked[3:]
        == [
            ([{"id": 0}, {"id": 1}], "pre-000000000001-0"),
            ([{"id": 2}, {"id": 3}], "pre-000000000001-1"),
            ([{"id": 4}], "pre-000000000001-2"),
        ]
    )


def test_an_event_that_the_server_refuses_is_found_and_rejected_alone() -> None:
    with Scripted(lambda method, path, body: (422, b"bad 3") if b'"id": 3' in body else (200, b"")) as server:
        receipt, rejects = run(http(server.address, compression="none"), [{"id": number} for number in range(6)])
        accepted = [body for _, _, body, _ in server.asked if b'"id": 3' not in body]
    assert rejects == [("t", 3, "the server refuses it with status 422: bad 3")]
    assert [(index.index, index.rows) for index in receipt.documents] == [("t", 5)]
    assert [json.loads(line)["id"] for body in accepted for line in body.splitlines()] == [0, 1, 2, 4, 5]


def test_a_server_that_cannot_answer_now_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "delay", lambda failures: 0.0)
    answers = [0, 503, 429, 200]
    with Scripted(lambda method, path, body: (answers.pop(0), b"later")) as server:
        run(http(server.address, authentication={"bearer_token": "secret!"}), [{"id": 1}])
        headers = [headers for _, _, _, headers in server.asked]
    assert {each["idempotency-key"] for each in headers} == {"pre-000000000001-0"}
    assert {each["authorization"] for each in headers} == {"Bearer secret!"}
    with Scripted(lambda method, path, body: (503, b"never")) as server, pytest.raises(SinkUnavailableError) as gone:
        run(http(server.address), [{"id": 1}])
    assert gone.value.verdict is Verdict.AGAIN
    assert "never" in gone.value.message
    assert "token" not in gone.value.message


def test_a_server_that_never_answers_holds_a_stop_for_one_answer_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]

    def silent(self: Any, *request: Any) -> Any:
        seconds[0] += 30.0
        raise self._unavailable("does not answer")

    monkeypatch.setattr(http_client, "time", SimpleNamespace(monotonic=lambda: seconds[0], sleep=None))
    monkeypatch.setattr(http_client.HttpClient, "_ask", silent)
    with pytest.raises(SinkUnavailableError):
        run(http("http://127.0.0.1:9"), [{"id": 1}])
    assert seconds == [30.0]


@pytest.mark.parametrize("token", ["s3cret\n", "s3cret€"])
def test_a_token_that_no_header_may_have_is_said_without_it(token: str) -> None:
    with pytest.raises(SinkRefusedError, match="characters that HTTP does not allow") as refused:
        run(http("http://127.0.0.1:9", authentication={"bearer_token": token}), [{"a": 1}])
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(("status", "hint"), [(401, "authentication"), (404, "url"), (302, "behind"), (415, "body")])
def test_a_server_that_takes_no_such_requests_stops_the_pipeline(status: int, hint: str) -> None:
    with Scripted(lambda method, path, body: (status, b"")) as server, pytest.raises(CalveError) as refused:
        run(http(server.address), [{"id": 1}])
    assert refused.value.verdict is Verdict.ASK
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    "options",
    [
        {"url": "https://a:b@host/"},
        {"url": "ftp://host/"},
        {"url": "https://host/${/x}"},
        {"url": "https://host:99999/"},
        {"headers": {"Host": "x"}},
        {"headers": {"a b": "x"}},
        {"headers": {"a": "x\ny"}},
        {"authentication": {}},
        {"authentication": {"bearer_token": "x"}, "headers": {"Authorization": "y"}},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsErrors):
        job_of(f"{{http: {json.dumps({'url': 'https://host/', **options})}}}")
