"""Checks what reading needs; changes nothing. Everything that is wrong is in one error, with the SQL that mends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from calve.observe.humanize import listed
from calve.observe.log import Log
from calve.sources.database.connection import ServerError
from calve.sources.database.preparation import SHOWN, Preparation, without_key
from calve.sources.database.table import DatabaseTable
from calve.sources.database.target_names import key_fault, names_fault
from calve.sources.mysql.catalog.database import BinlogPosition, MysqlCatalog, MysqlCatalogTable
from calve.sources.mysql.ddl.follow import unreadable
from calve.sources.mysql.failure import NO_RIGHTS
from calve.sources.mysql.position.begin import FIRST_POSITION, begin_dump, may_lock, probe_id
from calve.sources.mysql.protocol.quote import literal, quoted
from calve.sources.mysql.protocol.wire import MysqlConnection, connect
from calve.sources.mysql.settings import MysqlSettings

__all__ = ["chosen", "inspect", "require_logged", "warn"]

_OLDEST_MYSQL, _OLDEST_MARIADB = (5, 7), (10, 5)
_WANTED = {"binlog_format": "ROW", "binlog_row_image": "FULL"}
_WANTED_IF_THERE = {"binlog_alter_two_phase": "OFF"}
"""Variables that not every server has."""
_ENGINE = "InnoDB"


def inspect(connection: MysqlConnection, settings: MysqlSettings) -> Preparation:
    """Check the server, the rights and the tables.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    database = MysqlCatalog(connection)
    faults, sql, rights = _versions(database), list[str](), dict[str, str]()
    if not faults:
        rights = dict(_rights(database, connection, settings))
        for fault, fix in _variables(database):
            faults.append(fault)
            sql += [fix] if fix else []
    faults += rights.values()
    selected = chosen(database, settings)
    tables = database.described(selected, database.name)
    user = _user(connection)
    hidden = [] if selected else _databases(settings)
    if not selected:
        include = ", ".join(settings.selected.include)
        faults.append(f"no table that the user may see matches `tables` (include: {include})")
    global_rights = [*rights, *(["SELECT"] if "*" in hidden else [])]
    sql += [f"GRANT {', '.join(global_rights)} ON *.* TO {user}"] if global_rights else []
    sql += [f"GRANT SELECT ON {quoted(name)}.* TO {user}" for name in hidden if name != "*"]
    if unreadable_tables := [entry for entry in selected if not entry.readable]:
        faults.append(f"the user {settings.username} may not read {_shown(unreadable_tables)}")
        sql += [f"GRANT SELECT ON {_sql(entry)} TO {user}" for entry in unreadable_tables]
    cascades = database.cascades() if settings.on_cascade == "fail" else {}
    faults += _unlogged(database, (entry.schema for entry in selected))
    tables = [table.completed(settings.merge_tables, settings.no_key) for table in tables]
    keyless = [catalog_table for catalog_table, table in zip(selected, tables, strict=True) if not table.is_readable]
    faults += without_key([catalog_table.full_name for catalog_table in keyless])
    sql += [f"ALTER TABLE {_sql(catalog_table)} ADD PRIMARY KEY (…)" for catalog_table in keyless]
    for catalog_table, table in zip(selected, tables, strict=True):
        for fault, fix in _table_faults(catalog_table, table, cascades.get((catalog_table.schema, catalog_table.name))):
            faults.append(fault)
            sql += [fix] if fix else []
    return Preparation(tables, sql, faults)


def chosen(database: MysqlCatalog, settings: MysqlSettings) -> list[MysqlCatalogTable]:
    """Return the tables that the settings select."""
    return [table for table in database.tables() if settings.selected.has(table.schema, table.name)]


def require_logged(database: MysqlCatalog, settings: MysqlSettings, tables: Iterable[DatabaseTable]) -> None:
    """Check that the server, which was started again or has taken over, still logs the changes of tables.

    Raises:
        SourceError: It does not.
    """
    faults = list(_unlogged(database, (table.schema for table in tables if not table.stopped)))
    Preparation([], [], faults).require(settings, "MySQL")


def _unlogged(database: MysqlCatalog, schemas: Iterable[str]) -> Iterator[str]:
    """Yield what keeps changes out of the log; nothing, if the user may not see it, which is a fault of its own."""
    try:
        for schema in sorted(set(schemas)):
            if not database.is_logged(schema):
                yield (
                    f"changes of the database {schema} are not in the log: remove binlog_do_db or binlog_ignore_db "
                    "from the server's configuration, and start it again"
                )
        if database.hides_its_primary():
            yield (
                "the server is a replica, and what it gets from its primary is not in its log: read the primary, or "
                "set log_slave_updates in the replica's configuration, and start it again"
            )
    except ServerError as error:
        if error.code not in NO_RIGHTS:
            raise


def warn(database: MysqlCatalog, lines: Log) -> None:
    """Log that the server does not describe columns in its log, if it does not."""
    setting = database.variable("binlog_row_metadata")
    if setting == "FULL":
        return
    why = f"binlog_row_metadata is {setting}" if setting else f"MySQL {'.'.join(map(str, database.version))} cannot"
    lines.warning(
        f"the server does not describe columns in its log ({why}): Calve reads them from its catalog, and stops a "
        "table that was changed again before they were read",
        hint="SET GLOBAL binlog_row_metadata = FULL" if setting else "",
    )


def _versions(database: MysqlCatalog) -> list[str]:
    name, oldest = ("MariaDB", _OLDEST_MARIADB) if database.is_mariadb else ("MySQL", _OLDEST_MYSQL)
    if database.version >= oldest:
        return []
    wanted = ".".join(map(str, oldest))
    return [f"{name} {'.'.join(map(str, database.version))} is too old: it has to be {wanted} or later"]


def _variables(database: MysqlCatalog) -> Iterator[tuple[str, str]]:
    if database.variable("log_bin") != "ON":
        yield "the server has no binary log (set log_bin in its configuration, and start it again)", ""
    for name, wanted in {**_WANTED, **_WANTED_IF_THERE}.items():
        value = database.variable(name)
        if value != wanted and (value or name in _WANTED):
            yield f"{name} is {value or 'missing'}, not {wanted or 'empty'}", f"SET GLOBAL {name} = {literal(wanted)}"


def _rights(database: MysqlCatalog, connection: MysqlConnection, settings: MysqlSettings) -> Iterator[tuple[str, str]]:
    """Yield the rights on the whole server that the user lacks, each with what it is needed for."""
    try:
        place = database.log_end() or BinlogPosition("", FIRST_POSITION)
    except ServerError as error:
        if error.code not in NO_RIGHTS:
            raise
        right = "BINLOG MONITOR" if database.is_mariadb else "REPLICATION CLIENT"
        yield right, f"the user {settings.username} may not see the place in the log"
        place = BinlogPosition("", FIRST_POSITION)
    if database.variable("log_bin") == "ON" and not _may_read_log(settings, place):
        yield "REPLICATION SLAVE", f"the user {settings.username} may not read the log"
    if not may_lock(database, connection):
        yield (
            "RELOAD",
            "gtid_mode is not ON, so the first position needs a lock of a moment, for which the user lacks RELOAD",
        )


def _databases(settings: MysqlSettings) -> list[str]:
    """Return the databases of the selected tables; `*`: any."""
    names = dict.fromkeys(pattern.split(".", 1)[0] for pattern in settings.selected.include)
    return list(dict.fromkeys("*" if set(name) & set("*?[") else name for name in names))


def _may_read_log(settings: MysqlSettings, place: BinlogPosition) -> bool:
    """Ask for the end of the log, under a number that is nobody's."""
    with connect(settings.address, "calve check") as connection:
        number = probe_id()
        begin_dump(connection, f"check {number}")
        try:
            connection.dump(place.file, place.position, number)
            connection.receive(settings.connect_timeout.total_seconds())
        except ServerError as error:
            if error.code in NO_RIGHTS:
                return False
            raise
    return True


def _table_faults(entry: MysqlCatalogTable, table: DatabaseTable, cascade: str | None) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a table, each with the SQL that mends it (or nothing)."""
    name = _sql(entry)
    if entry.kind != "BASE TABLE":
        yield (
            f"{entry.full_name} is a table of the kind {entry.kind}, which cannot be followed: exclude it",
            "",
        )
        return
    if entry.engine != _ENGINE:
        yield (
            f"{entry.full_name} has the engine {entry.engine}, which has no consistent reads (or exclude it)",
            f"ALTER TABLE {name} ENGINE = {_ENGINE}",
        )
    if table.is_readable and (fault := key_fault(table)):
        yield f"{entry.full_name} {fault}: exclude it", ""
    if fault := names_fault(table):
        yield f"{entry.full_name}: {fault}: rename it, or exclude the table", ""
    for column in table.columns:
        if fault := unreadable(column, entry.types.get(column.name, "")):
            yield f"{column.name} of {entry.full_name} {fault}: exclude the table", ""
    if cascade:
        yield (
            f"the foreign key {cascade} of {entry.full_name} changes rows without a trace in the log: exclude the "
            "table, or set on_cascade: ignore",
            "",
        )


def _user(connection: MysqlConnection) -> str:
    user, _, host = (connection.query("select current_user()")[0][0] or "").rpartition("@")
    return f"{literal(user)}@{literal(host)}"


def _sql(table: MysqlCatalogTable) -> str:
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def _shown(tables: Sequence[MysqlCatalogTable]) -> str:
    return listed([table.full_name for table in tables], SHOWN)
