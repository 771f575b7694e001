"""Pipelines for one job each: load files into a table, write rows into a table. They are ordinary ones, run once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calve.settings.catalog import EMBEDDED

if TYPE_CHECKING:
    from calve.operate.database_address import DatabaseAddress

__all__ = ["catalog_in", "database_pipeline", "load_pipeline", "pipeline_name", "written_pipeline"]

_MOST_CHARACTERS = 80
_PLAIN = re.compile(rf"(?=.{{1,{_MOST_CHARACTERS}}}$)[A-Za-z0-9_]+\.[A-Za-z0-9_]+")
"""Tables whose name has one dot, and nothing that the name of a pipeline lacks."""
_WORDS = re.compile("[A-Za-z0-9_]+")
_CSV, _TSV = (re.compile(rf"\.{kind}(\.\w+)?$") for kind in ("csv", "tsv"))


def pipeline_name(verb: str, table: str) -> str:
    """Return the name of the pipeline that has loaded or written a table before, and does so again.

    No two tables share one: a state remembers which files a pipeline has read.
    """
    if _PLAIN.fullmatch(table):
        return f"{verb}-{table.replace('.', '-')}"
    words = "-".join(_WORDS.findall(table))[:_MOST_CHARACTERS]
    return f"{verb}-{words}-{hashlib.sha256(table.encode()).hexdigest()[:16]}"


def load_pipeline(
    files: str, table: str, key: Sequence[str] = (), delimiter: str | None = None, encoding: str | None = None
) -> dict[str, Any]:
    """Return the configuration that loads files into a table.

    Args:
        files: A path or a pattern, local or s3://.
        table: Namespace and table.
        key: The columns that identify a row; a row with the same key is replaced.
        delimiter: Of CSV; None: a comma, or a tab in .tsv files.
        encoding: Of CSV; None: UTF-8.
    """
    source: dict[str, Any] = {"path": files}
    is_tsv = _TSV.search(files) is not None
    if is_tsv or _CSV.search(files) or delimiter or encoding:
        given = {"delimiter": delimiter or ("\t" if is_tsv else None), "encoding": encoding}
        source["codec"] = {"csv": {"infer_types": True, **{name: text for name, text in given.items() if text}}}
    return {pipeline_name("load", table): {"source": {"file": source}, "sink": [_sink(table, key)]}}


def database_pipeline(
    address: DatabaseAddress, tables: Sequence[str], excluded: Sequence[str], catalog: Mapping[str, str]
) -> dict[str, Any]:
    """Return the configuration that loads tables of a database: each into the table of its name, in all namespaces.

    A database that no longer has the changes since the last load is loaded again.

    Args:
        address: The database.
        tables: Patterns of `schema.table`; none: those of `DatabaseAddress.patterns`.
        excluded: Patterns of tables that are not loaded.
        catalog: The properties of the catalog; none: the embedded one.
    """
    source = address.source(tables, excluded)
    source[address.kind]["on_lost_position"] = "reload"
    sink: dict[str, Any] = {
        "table_identifier": '${getMetadata("schema_name")}.${getMetadata("table_name")}',
        "auto_create": True,
        "schema_evolution": True,
    }
    sink |= {"catalog": dict(catalog)} if catalog else {}
    return {address.pipeline(catalog.get("warehouse", "")): {"source": source, "sink": [{"iceberg": sink}]}}


def catalog_in(folder: str) -> dict[str, str]:
    """Return the properties of the embedded catalog in a folder; none for that of every sink, `./lakehouse`."""
    from calve.catalog.sqlite import embedded  # brings PyIceberg

    chosen = Path(folder).expanduser().absolute()
    return {} if chosen == Path(EMBEDDED).absolute() else embedded(chosen)


def written_pipeline(folder: str, table: str, key: Sequence[str] = ()) -> dict[str, Any]:
    """Return the configuration that writes the Parquet files of a folder, each once, into a table."""
    source = {"path": f"{folder}/*.parquet", "settle": "0s"}
    return {pipeline_name("write", table): {"source": {"file": source}, "sink": [_sink(table, key)]}}


def _sink(table: str, key: Sequence[str]) -> dict[str, Any]:
    options: dict[str, Any] = {"table_identifier": table, "auto_create": True, "schema_evolution": True}
    options["on_type_mismatch"] = "dlq"  # nobody has agreed to lose a value
    if key:
        options |= {"identifier_columns": list(key), "upsert": True}
    return {"iceberg": options}
