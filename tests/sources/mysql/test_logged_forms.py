"""Every form of the log: in a database that is not selected nothing matters, in a table that is read it is read."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from calve.sources.mysql.catalog.column_types import CODECS, decoded
from calve.sources.mysql.catalog.column_types import WIDE as WIDE_SETS
from calve.sources.mysql.protocol import events
from calve.sources.mysql.protocol.wire import MysqlConnection
from services.mysql import MARIADB, MYSQL, Kind, MySql
from sources.mysql.follow import Follower, settings_of, stopped_in

pytestmark = pytest.mark.services

PAYLOAD = '\'{"a": 1, "b": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "c": [1, 2, 3]}\''
EVERYWHERE = (
    "create table plain (id int primary key, n int)",
    "set binlog_row_image = MINIMAL",
    "insert into plain (id) values (1)",
    "update plain set n = 2",
    "delete from plain",
    "set binlog_row_image = NOBLOB",
    "insert into plain values (1, 1)",
    "set binlog_row_image = FULL",
    "set binlog_format = STATEMENT",
    "set @x = 3",
    "insert into plain values (@x, rand() * 9)",
    "load data infile '{folder}/rows.txt' replace into table plain fields terminated by ',' (id, n)",
    "set binlog_format = ROW",
    "xa start 'a', 'b', 7",
    "insert into plain values (10, 1)",
    "xa end 'a', 'b', 7",
    "xa prepare 'a', 'b', 7",
    "xa commit 'a', 'b', 7",
    "xa start 'b'",
    "insert into plain values (11, 1)",
    "xa end 'b'",
    "xa commit 'b' one phase",
    "xa start 'c'",
    "insert into plain values (12, 1)",
    "xa end 'c'",
    "xa prepare 'c'",
    "xa rollback 'c'",
    "create table odd (a text, b geometry, c bit(9), d time(6), e set('x'), f enum('y'), g decimal(60, 30)) engine = MyISAM",
    "insert into odd values ('a', point(1, 2), 5, '-800:00:00.5', 'x', 'y', 1.5), (null, null, null, null, null, null, 1)",
    "create table big (id int primary key, a varchar(9) character set big5, b text character set ujis)",
    "insert into big values (1, 'a', 'b')",
    "create temporary table tempo (id int)",
    "insert into tempo values (1)",
    "create table `q``x` (`a``b` int, primary key (`a``b`))",
    "insert into `q``x` values (1)",
    "truncate plain",
    "drop table odd",
    "create view v as select * from plain",
    "analyze table plain",
    "flush binary logs",
)
ONLY = {
    MYSQL: (
        "set binlog_row_value_options = PARTIAL_JSON",
        "create table docs (id int primary key, j json)",
        f"insert into docs values (1, {PAYLOAD})",
        "update docs set j = json_set(j, '$.a', 2)",
        "create table f (id int primary key, a varchar(20), index ((lower(a))))",
        "insert into f values (1, 'A')",
        "set binlog_rows_query_log_events = ON",
        "update f set a = 'B'",
    ),
    MARIADB: (
        "set global log_bin_compress = ON, global log_bin_compress_min_len = 10",
        "create table squeezed (id int primary key, a text compressed, b varchar(300) compressed, c blob compressed)",
        "insert into squeezed values (1, repeat('a', 3000), repeat('b', 300), 'c')",
        "update squeezed set a = repeat('z', 3000)",
        "create table u (id int primary key, a text unique, b uuid, c inet4, d inet6)",
        "insert into u values (1, 'a', uuid(), '1.2.3.4', '::1')",
        "create sequence sq",
        "do nextval(sq)",
        "create table history (id int primary key, n int) with system versioning",
        "insert into history values (1, 1)",
        "update history set n = 2",
        "alter table history drop system versioning",
        "set statement sql_mode = 'ANSI_QUOTES' for insert into plain values (77, 7)",
        "set global log_bin_compress = OFF",
    ),
}


@pytest.fixture(scope="module", params=[MYSQL, MARIADB], ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest) -> Iterator[MySql]:
    kind: Kind = request.param
    with MySql(kind, secure_file_priv="") as running:
        (running.folder / "rows.txt").write_text("1,44\n7,45\n")
        yield running


def test_nothing_in_a_database_that_is_not_selected_matters(server: MySql, tmp_path: Path) -> None:
    server.create_database("mine")
    server.create_database("foreign_one")
    server.run("create table t (id int primary key)", database="mine")
    follower = Follower(settings_of(server, "mine"), tmp_path)
    follower.read()
    statements = [each.replace("{folder}", str(server.folder)) for each in (*EVERYWHERE, *ONLY[server.kind])]
    with server.connect() as theirs, server.connect() as mine:
        theirs.query("use foreign_one")
        for number, statement in enumerate(statements):
            theirs.query(statement)
            mine.query(f"insert into mine.t values ({number})")
    assert set(follower.read()["t"]) == {str(number) for number in range(len(statements))}
    assert stopped_in(tmp_path) == {}


WIDE = (
    "create table wide (id int primary key, a varchar(9) character set gbk, b text character set big5, "
    "c char(9) character set sjis, d varchar(9) character set euckr, e enum('一', 'ｶ') character set sjis, "
    "f varchar(9) character set cp1256, g varchar(9) character set tis620, h varchar(9) character set cp932)",
    "insert into wide values (1, '中文', '碁十裏', '表ｶ\\\\', '갂한', '一', 'ا€', 'ไทย', '①'), "
    "(2, 'a', 'b', 'c', 'd', 'ｶ', 'f', 'g', 'h')",
    "update wide set a = '编码', c = 'ソ' where id = 2",
    "update wide set id = id + 10",
)
FORMS = {
    MYSQL: {
        "by_index": (
            "create table by_index (id int primary key, a varchar(20), n int, index ((lower(a))), index ((n + 1)))",
            "insert into by_index values (1, 'A', 1), (2, null, null)",
            "update by_index set a = 'B', n = 9 where id = 1",
            "alter table by_index add later int",
            "insert into by_index values (3, 'C', 3, 4)",
            "update by_index set id = id + 10",
            "delete from by_index where id = 12",
        ),
        "docs": (
            "create table docs (id int primary key, j json, n int, k json)",
            f"insert into docs values (1, {PAYLOAD}, 1, {PAYLOAD}), (2, {PAYLOAD}, null, null), (3, null, 3, {PAYLOAD})",
            "set binlog_row_value_options = PARTIAL_JSON",
            "update docs set j = json_set(j, '$.a', 2, '$.c[1]', json_object('é', 1.5, 'z', json_array(1, 2)))",
            "update docs set j = json_remove(j, '$.b'), k = json_set(k, '$.\"q\\\\\"é.x\"', 'ä', '$.b', 'y')",
            "update docs set j = json_remove(j, '$.c[0]'), n = 5",
            "update docs set j = json_array_insert(j, '$.c[0]', json_object()), k = json_set(k, '$.aaa', null)",
            "update docs set j = json_array_append(j, '$.c', true), id = id + 10 where id = 2",
            "update docs set k = json_replace(k, '$.c', 2.5, '$.a', '')",
            "update docs set j = '7' where id = 1",
            "set binlog_row_value_options = ''",
        ),
        "wide": WIDE,
    },
    MARIADB: {
        "hashed": (
            "create table hashed (id int primary key, a text unique, b blob, unique (b, a))",
            "insert into hashed values (1, 'A', 'x'), (2, null, null)",
            "update hashed set a = 'B' where id = 1",
            "alter table hashed add later int",
            "insert into hashed values (3, 'C', 'z', 4)",
            "update hashed set id = id + 10",
            "delete from hashed where id = 12",
        ),
        "squeezed": (
            "create table squeezed (id int primary key, a text compressed, b varchar(300) compressed character set latin1, "
            "c varchar(40) compressed, d blob compressed, e varbinary(2000) compressed, f longtext compressed)",
            "insert into squeezed values (1, repeat('aé', 3000), repeat('é', 300), '', 'c', repeat('b', 2000), 'x'), "
            "(2, null, null, null, null, null, null), (3, '', 'b', repeat('é', 40), repeat('xy', 40000), '', '')",
            "update squeezed set f = repeat('long', 70000), a = 'short' where id = 1",
        ),
        "wide": WIDE,
        "addresses": (
            "create table addresses (id int primary key, u uuid, i inet4, j inet6, b binary(16), unique (u))",
            "insert into addresses values (1, '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '1.2.3.0', '::ffff:1.2.3.4', 'x'), "
            "(2, '0190163d-8694-739b-aea5-966c26f8ad91', '0.0.0.0', '1:0:0:2::', null), (3, null, null, null, null), "
            "(4, '00000000-0000-0000-0000-000000000000', '255.0.0.1', '::', ''), "
            "(5, 'f47ac10b-58cc-8372-a567-0e02b2c3d479', '10.0.0.1', '1:0:3:4:5:6:0:8', '')",
            "create table u_key (k uuid primary key)",
            "update addresses set u = '5df41881-3aed-4515-88a7-2f4a814cf09e', j = '::1.2.3.4' where id = 3",
            "update addresses set id = id + 10",
        ),
        "small": (
            "set global log_bin_compress = ON, global log_bin_compress_min_len = 10",
            "create table small (id int primary key, note varchar(3000))",
            "insert into small values (1, repeat('a', 3000)), (2, repeat('b', 3000))",
            "update small set note = repeat('z', 2999) where id = 1",
            "delete from small where id = 2",
            "alter table small rename column note to a_name_that_is_long, comment '........................'",
            "update small set id = 3",
            "set global log_bin_compress = OFF",
        ),
    },
}


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_each_form_has_the_values_of_the_database(server: MySql, tmp_path: Path, metadata: str) -> None:
    server.run("drop database if exists forms", "create database forms character set utf8mb4")
    server.run(f"set global binlog_row_metadata = {metadata}")
    server.run("create table t (id int primary key)", database="forms")
    follower = Follower(settings_of(server, "forms"), tmp_path)
    follower.read()
    forms = FORMS[server.kind]
    for statements in forms.values():
        server.run(statements[0], *statements[1:3], database="forms")
        follower.read()
        server.run(*statements[3:], database="forms")
        follower.read()
    server.run("set global binlog_row_metadata = FULL")
    assert stopped_in(tmp_path) == {}
    loaded = Follower(settings_of(server, "forms"), tmp_path / "again").read()
    assert {name: by_name(follower.renamed(name)) for name in forms} == {
        name: by_name(loaded[name].values()) for name in forms
    }


def by_name(rows: Iterable[dict]) -> list[str]:
    """Give rows in the order of their keys; a column that came later may be NULL."""
    return sorted(repr(sorted((name, value) for name, value in row.items() if value is not None)) for row in rows)


def xa(name: str, row: int, *ends: str) -> list[str]:
    """Give the statements of an XA transaction that inserts a row."""
    return [f"xa start '{name}'", f"insert into t values ({row})", f"xa end '{name}'", *(f"xa {end}" for end in ends)]


@pytest.fixture
def followed(server: MySql, tmp_path: Path) -> Follower:
    """Give what has read an empty table of a new database."""
    server.run("drop database if exists one", "create database one", "create table one.t (id int primary key)")
    server.run("create table one.other (id int primary key)")
    follower = Follower(settings_of(server, "one"), tmp_path)
    follower.read()
    return follower


def test_an_xa_transaction_of_one_phase_is_read_and_one_that_is_rolled_back_leaves_nothing(
    server: MySql, followed: Follower, tmp_path: Path
) -> None:
    one_phase, back = xa("a", 1, "commit 'a' one phase"), xa("b", 2, "prepare 'b'", "rollback 'b'")
    server.run(*one_phase, *back, "insert into t values (3)", database="one")
    assert set(followed.read()["t"]) == {"1", "3"}
    assert stopped_in(tmp_path) == {}


def test_the_table_of_an_xa_transaction_of_two_phases_is_read_again_at_the_commit_also_after_restarts(
    server: MySql, followed: Follower, tmp_path: Path
) -> None:
    server.run("insert into t values (1)", *xa("a", 2, "prepare 'a'"), database="one")
    followed.read()
    assert stopped_in(tmp_path) == {}
    server.run("xa commit 'a'", "insert into one.other values (5)")
    assert set(followed.read()["other"]) == {"5"}
    assert stopped_in(tmp_path) == {}
    assert set(followed.read()["t"]) == {"1", "2"}, "the table was read again"
    server.run("insert into one.t values (3)")
    assert set(followed.read()["t"]) == {"1", "2", "3"}
    assert stopped_in(tmp_path) == {}


def test_the_commit_of_an_xa_transaction_that_was_prepared_before_is_reported(
    server: MySql, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.run("drop database if exists one", "create database one", "create table one.t (id int primary key)")
    server.run(*xa("early", 1, "prepare 'early'"), database="one")
    follower = Follower(settings_of(server, "one"), tmp_path)
    follower.read()
    server.run("xa commit 'early'")
    follower.read()
    assert "was prepared before reading began" in caplog.text


@pytest.mark.parametrize("compression", [0, 255])
def test_a_compressed_transaction_of_mysql_is_read(
    server: MySql, followed: Follower, monkeypatch: pytest.MonkeyPatch, compression: int
) -> None:
    """The server is too old to compress: its events are compressed as later ones do it (MySQL 8.0.20)."""
    if server.kind != MYSQL:
        pytest.skip("of MySQL")
    plain = MysqlConnection.receive
    waiting: list[bytes] = []

    def receive(connection: MysqlConnection, seconds: float) -> bytes | None:
        while (data := plain(connection, seconds)) is not None:
            kind = data[4]
            if not waiting and kind != events.QUERY:
                return data
            inner = data[:9] + (len(data) - 4).to_bytes(4, "little") + data[13:-4]
            waiting.append(inner)
            if kind == events.XID:
                packed = payload_event(data, b"".join(waiting), compression)
                waiting.clear()
                return packed
        return None

    statements = ["begin", *(f"insert into t values ({number})" for number in range(500)), "delete from t where id = 7"]
    server.run(*statements, "commit", "insert into other values (1)", database="one")
    monkeypatch.setattr(MysqlConnection, "receive", receive)
    rows = followed.read()
    assert set(rows["t"]) == {str(number) for number in range(500) if number != 7}
    assert set(rows["other"]) == {"1"}


def payload_event(last: bytes, inner: bytes, compression: int) -> bytes:
    """Give the event that MySQL writes for compressed events, the last of which is given."""
    data = pa.compress(inner, codec="zstd", asbytes=True) if compression == 0 else inner
    size = b"\xfd" + len(data).to_bytes(3, "little")
    kind = bytes([compression]) if compression < 251 else b"\xfc\xff\0"
    fields = b"\2" + bytes([len(kind)]) + kind + b"\1\4" + size + b"\0"
    event = (
        last[:4]
        + bytes([events.PAYLOAD])
        + last[5:9]
        + (19 + len(fields + data) + 4).to_bytes(4, "little")
        + last[13:19]
    )
    event += fields + data
    return event + zlib.crc32(event).to_bytes(4, "little")


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_a_sequence_is_no_table_and_a_table_with_system_versioning_is_stopped_by_name(
    server: MySql, tmp_path: Path, metadata: str
) -> None:
    if server.kind != MARIADB:
        pytest.skip("of MariaDB")
    server.run(f"set global binlog_row_metadata = {metadata}")
    server.run("drop database if exists one", "create database one", "create table one.t (id int primary key)")
    server.run("create sequence before_start", "do nextval(before_start)", database="one")
    follower = Follower(settings_of(server, "one"), tmp_path)
    follower.read()
    server.run(
        "create sequence sq",
        "do nextval(sq), nextval(before_start)",
        "create table history (id int primary key, n int) with system versioning",
        "insert into history values (1, 1)",
        "update history set n = 2",
        "create table likewise like history",
        "insert into likewise values (1, 1)",
        "create table own (id int primary key, a timestamp(6) generated always as row start, "
        "b timestamp(6) generated always as row end, period for system_time(a, b)) with system versioning",
        "insert into own (id) values (1)",
        "create table later (id int primary key, n int)",
        "insert into later values (1, 1)",
        "alter table later add system versioning",
        "update later set n = 2",
        "insert into t values (7)",
        "set global binlog_row_metadata = FULL",
        database="one",
    )
    rows = follower.read()
    assert {name: set(each) for name, each in rows.items()} == {"t": {"7"}}
    stopped = stopped_in(tmp_path)
    assert set(stopped) == {"one.history", "one.likewise", "one.own", "one.later"}
    assert all("system versioning" in why for why in stopped.values()), stopped


def test_each_character_of_a_character_set_is_read_as_the_server_reads_it(server: MySql) -> None:
    known = {row[0] for row in server.run("select character_set_name from information_schema.character_sets")}
    singles = [bytes([byte]) for byte in range(1, 256)]
    pairs = [bytes([first, second]) for first in range(0x81, 0xFF) for second in range(0x40, 0xFF)]
    for charset in [*CODECS.keys() & known - UNICODE]:
        others = [b"\x81\x5f", b"\xa1\x5a", b"\xa2\xce", b"\xf9\xd6", b"\xf9\xdc"]
        texts = pairs[:: len(pairs) // 2000] + others if charset in WIDE_SETS else singles
        for part in (texts[at : at + 500] for at in range(0, len(texts), 500)):
            one = "convert(_binary x'{}' using {})"
            alone = [one.format(text.hex(), charset) for text in part]
            size = len(part[0])
            sql = ", ".join(
                f"if(char_length({each}) = 1 and length({each}) = {size}, hex(convert({each} using utf8mb4)), null)"
                for each in alone
            )
            for text, found in zip(part, server.run(f"select {sql}")[0], strict=True):
                if found is not None and found != "3F":
                    assert decoded(text, charset) == bytes.fromhex(found).decode(), (charset, text)


UNICODE = frozenset({"utf8mb4", "utf8mb3", "utf8", "ucs2", "utf16", "utf16le", "utf32"})
