import gzip
import logging
import os
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from calve.errors import PositionLostError, SourceError, SourceUnavailableError, Verdict
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.file import whole_files
from calve.sources.file.settings import S3Settings
from calve.sources.source import Split
from services.objects import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectStore
from sources.file.folders import ALL, events, names, opened, write
from sources.file.texts import table


def test_files_come_in_the_order_of_their_names_and_hidden_ones_never(tmp_path: Path) -> None:
    for name in ("b.ndjson", "a.ndjson", "_x.ndjson", ".y.ndjson"):
        write(tmp_path, name)
    files = opened(tmp_path)
    files.start(None, once=True)
    assert names(files.plan(None, ALL)) == ["a.ndjson", "b.ndjson"]


def test_a_batch_holds_whole_files_up_to_its_size_and_at_least_one(tmp_path: Path) -> None:
    for name in "abcd":
        write(tmp_path, f"{name}.ndjson", b"{}\n" * 10)
    files = opened(tmp_path)
    files.start(None, once=True)
    first = files.plan(None, 60)
    assert first
    assert names(first) == ["a.ndjson", "b.ndjson"]
    assert names(files.plan(first.position, 1)) == ["c.ndjson"]


def test_a_batch_tells_whether_more_files_wait_behind_it(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path, f"{name}.ndjson", b"{}\n")
    files = opened(tmp_path)
    files.start(None, once=True)
    first = files.plan(None, 1)
    assert first
    assert first.waiting == (str(tmp_path / "in" / "b.ndjson"),)
    last = files.plan(first.position, ALL)
    assert last
    assert last.waiting == ()


def test_planning_again_from_a_position_gives_the_same_batch(tmp_path: Path) -> None:
    write(tmp_path, "a.ndjson")
    files = opened(tmp_path)
    files.start(None, once=True)
    first = files.plan(None, ALL)
    assert first
    assert files.backlog(None)
    assert files.plan(None, 1) == first
    assert not files.backlog(first.position)
    assert files.plan(first.position, ALL) is None


def test_each_file_is_read_once_whatever_restarts(tmp_path: Path) -> None:
    write(tmp_path, "a.ndjson")
    files = opened(tmp_path)
    files.start(None, once=True)
    first = files.plan(None, ALL)
    assert first
    files.acknowledge(first)
    files.acknowledge(first)
    write(tmp_path, "b.ndjson")
    files = opened(tmp_path)
    files.start(first.position, once=True)
    assert names(files.plan(first.position, ALL)) == ["b.ndjson"]


def test_a_batch_that_the_ledger_still_holds_is_not_planned_again(tmp_path: Path) -> None:
    write(tmp_path, "a.ndjson")
    files = opened(tmp_path)
    files.start(None, once=True)
    first = files.plan(None, ALL)
    assert first
    write(tmp_path, "b.ndjson")
    killed = opened(tmp_path)
    killed.start(first.position, True, [first])
    second = killed.plan(first.position, ALL)
    assert second
    assert names(second) == ["b.ndjson"]
    assert second.position == {"files": 2}
    killed.acknowledge(first)
    killed.acknowledge(second)
    assert not killed.backlog(second.position)


def test_a_lost_list_of_finished_files_is_an_error_and_never_a_second_reading(tmp_path: Path) -> None:
    write(tmp_path, "a.ndjson")
    files = opened(tmp_path)
    files.start({"files": 1}, once=True)
    with pytest.raises(PositionLostError, match="list of them"):
        files.plan({"files": 1}, ALL)


def test_new_files_are_picked_up_while_running(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.start(None, once=False)
    assert not files.backlog(None)
    write(tmp_path, "a.ndjson")
    assert files.backlog(None)
    assert names(files.plan(None, ALL)) == ["a.ndjson"]


def test_with_once_later_files_are_left_for_another_run(tmp_path: Path) -> None:
    write(tmp_path, "a.ndjson")
    files = opened(tmp_path)
    files.start(None, once=True)
    write(tmp_path, "b.ndjson")
    assert names(files.plan(None, ALL)) == ["a.ndjson"]


def test_a_file_is_read_when_it_has_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("calve.sources.file.listing.time.monotonic", lambda: clock[0])
    path = write(tmp_path, "a.ndjson")
    files = opened(tmp_path, settle=timedelta(seconds=2))
    files.start(None, once=False)
    for second, grows in ((1.0, True), (2.9, False)):
        clock[0] = second
        if grows:
            path.write_bytes(b"{}\n" * 9)
        assert not files.backlog(None)
    clock[0] = 3.0
    assert files.backlog(None)


def test_a_changed_file_is_told_once_and_not_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path, "a.ndjson")
    files = opened(tmp_path)
    files.start(None, once=False)
    first = files.plan(None, ALL)
    assert first
    path.write_bytes(b"{}\n" * 100)
    for _ in range(3):
        assert not files.backlog(first.position)
    [told] = [record for record in caplog.records if "has changed since it was read" in record.message]
    assert told.message == f"{path} has changed since it was read and is not read again; use a new name"
    assert told.calve_pipeline == "p"  # type: ignore[attr-defined]


def test_a_file_that_may_not_be_read_is_told_and_read_when_it_may(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.ndjson")
    locked = write(tmp_path, "b.ndjson")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(locked) and access(path, mode))
    files = opened(tmp_path)
    files.start(None, once=False)
    first = files.plan(None, ALL)
    assert first
    assert names(first) == ["a.ndjson"]
    assert f"{locked} is not readable for this user" in caplog.text
    monkeypatch.undo()
    assert names(files.plan(first.position, ALL)) == ["b.ndjson"]


def test_a_file_of_unknown_codec_is_told_and_the_others_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "a.ndjson")
    write(tmp_path, "b.bin")
    files = opened(tmp_path)
    files.start(None, once=True)
    assert names(files.plan(None, ALL)) == ["a.ndjson"]
    assert "set `codec`" in caplog.text


def test_no_file_at_all_is_known_with_its_reason_also_when_others_were_read_before(tmp_path: Path) -> None:
    def nothing(path: str = "*") -> str:
        files = opened(tmp_path, str(tmp_path / "in" / path))
        files.start(None, once=True)
        return files.nothing_found

    assert nothing("*.csv") == f"no file matches {tmp_path}/in/*.csv"
    write(tmp_path, "b.bin")
    assert nothing() == f"1 file at {tmp_path}/in/*, none with a known extension that this user may read"
    write(tmp_path, "a.ndjson")
    assert nothing() == ""
    files = opened(tmp_path)
    files.start(None, once=True)
    planned = files.plan(None, ALL)
    assert planned
    files.acknowledge(planned)
    (tmp_path / "in" / "a.ndjson").unlink()
    again = opened(tmp_path)
    again.start(planned.position, once=True)
    assert again.nothing_found.startswith("1 file at")
    write(tmp_path, "a.ndjson")
    again.start(planned.position, once=True)
    assert again.nothing_found == ""


@pytest.mark.parametrize(
    ("name", "data", "option"),
    [
        ("a.csv", b"id;name\n1;x\n", 'delimiter: ";"'),
        ("a.csv.gz", gzip.compress(b"\xef\xbb\xbfid\tname\n1\tx\n"), 'delimiter: "\\t"'),
        ("a.csv", b'\n"id"|"name"\n', 'delimiter: "|"'),
        ("a.tsv", b"id,name\n1,x\n", 'delimiter: ","'),
        ("a.csv", b"id,a;b\n1,x\n", ""),
        ("a.csv", b"id\na;b\n", ""),
        ("a.ndjson", b'{"a;b":1}\n', ""),
    ],
)
def test_a_header_of_one_column_that_has_another_delimiter_is_said_once(
    tmp_path: Path, name: str, data: bytes, option: str, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        write(tmp_path, f"{number}.csv", b"id,name\n1,x\n")
        write(tmp_path, f"x{number}{name}", data)
    files = opened(tmp_path)
    files.start(None, once=True)
    assert files.plan(None, ALL)
    warnings = [record for record in caplog.records if "has one cell with" in record.message]
    assert len(warnings) == bool(option)
    assert all(option in record.calve_fields["hint"] for record in warnings)  # type: ignore[attr-defined]


def test_a_file_named_in_full_must_exist_with_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SourceError, match=r"nothing\.csv does not exist"):
        opened(tmp_path, str(tmp_path / "nothing.csv")).start(None, once=True)
    with caplog.at_level(logging.WARNING):
        opened(tmp_path, str(tmp_path / "*.csv")).start(None, once=True)
    assert "Nothing matches" in caplog.text


@pytest.mark.parametrize("path", ["in", "in/**/*.ndjson", "in/*/*", ["in/x/a.ndjson", "in/x"], "in/[x]/?.ndjson"])
def test_folders_globs_and_lists_find_the_same_file_once(
    tmp_path: Path, path: str | list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "x/a.ndjson")
    files = opened(tmp_path, path)
    files.start(None, once=True)
    assert names(files.plan(None, ALL)) == ["a.ndjson"]


def test_a_large_file_is_divided_and_every_line_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "PART_BYTES", 1000)
    lines = [b'{"id":%d}' % number for number in range(1000)]
    write(tmp_path, "a.ndjson", b"\n".join(lines))
    write(tmp_path, "packed.ndjson", gzip.compress(b"\n".join(lines), 0))
    files = opened(tmp_path)
    files.start(None, once=True)
    planned = files.plan(None, ALL)
    assert names(planned) == ["a.ndjson"] * 11 + ["packed.ndjson"]
    assert events(files, planned) == lines * 2


def test_a_large_parquet_file_is_divided_by_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "PART_BYTES", 1000)
    path = write(tmp_path, "a.parquet", b"")
    parquet.write_table(pa.table({"id": range(5000)}), path, row_group_size=500)
    files = opened(tmp_path)
    files.start(None, once=True)
    planned = files.plan(None, ALL)
    assert len(names(planned)) > 5
    assert events(files, planned) == [b'{"id":%d}' % number for number in range(5000)]


def test_a_file_that_vanishes_gives_one_reject(tmp_path: Path) -> None:
    path = write(tmp_path, "a.ndjson")
    files = opened(tmp_path)
    files.start(None, once=True)
    planned = files.plan(None, ALL)
    assert planned
    path.unlink()
    rows = table(files.reader.read(planned.splits[0]))
    assert rows["malformed"] == [f"The file {path} was gone when its turn came"]


def test_yaml_names_everything() -> None:
    text = """
    p:
      source:
        file: {path: ["a/*.csv", "s3://b/c"], codec: {csv: {delimiter: ";"}}, settle: 5s, s3: {region: eu-west-1}}
      sink: [{iceberg: {table_identifier: a.b, auto_create: true}}]
    """
    [pipeline] = parse_text(text, PLUGINS).pipelines
    assert pipeline.source.value.codec.csv.delimiter == ";"


@pytest.mark.services
def test_files_of_an_object_store_are_read_like_local_ones(tmp_path: Path, object_store: ObjectStore) -> None:
    keys = {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY, "region": REGION}
    address = object_store.endpoint.removeprefix("http://")
    store = fs.S3FileSystem(
        access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint_override=address, scheme="http", region=REGION
    )
    for name, data in {
        "in/a.ndjson": b"{}\n{}\n",
        "in/x/b.csv.gz": gzip.compress(b"a\n1\n"),
        "in/_hidden.ndjson": b"{}",
        "other/c.ndjson": b"{}",
    }.items():
        with store.open_output_stream(f"{BUCKET}/files/{name}", compression=None) as out:
            out.write(data)
    s3 = S3Settings(endpoint=object_store.endpoint, **keys)
    for path, expected in {
        f"s3://{BUCKET}/files/in": ["a.ndjson", "b.csv.gz"],
        f"s3://{BUCKET}/files/in/*": ["a.ndjson"],
        f"s3a://{BUCKET}/files/**/*.csv.gz": ["b.csv.gz"],
        f"s3://{BUCKET}/files/other/c.ndjson": ["c.ndjson"],
    }.items():
        files = opened(tmp_path, path, s3=s3, settle=timedelta(hours=1))
        files.start(None, once=False)
        planned = files.plan(None, ALL)
        assert names(planned) == expected
        found = events(files, planned)
        assert all(event.startswith(b"{") for event in found), found


def test_a_store_that_does_not_answer_is_an_error_that_is_tried_again(tmp_path: Path) -> None:
    s3 = S3Settings(endpoint="http://127.0.0.1:1", access_key_id="a", secret_access_key="b", region="us-east-1")
    files = opened(tmp_path, "s3://bucket/*.csv", s3=s3)
    with pytest.raises(SourceUnavailableError, match="cannot be listed"):
        files.start(None, once=True)
    part = {"path": "s3://bucket/a.csv", "start": 0, "end": 1, "size": 1, "modified": 0}
    with pytest.raises(SourceUnavailableError, match="cannot be read"):
        list(files.reader.read(Split(part)))


class _Refuses(BaseHTTPRequestHandler):
    """An object store that refuses everybody."""

    def do_GET(self) -> None:
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, *_: object) -> None:
        pass


def test_a_store_that_refuses_the_credentials_is_an_error_that_is_not_tried_again(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        s3 = S3Settings(endpoint=endpoint, access_key_id="a", secret_access_key="b", region="us-east-1")
        with pytest.raises(SourceError, match="ACCESS_DENIED") as raised:
            opened(tmp_path, "s3://bucket/*.csv", s3=s3).start(None, once=True)
        server.shutdown()
    assert raised.value.verdict is Verdict.STOP
