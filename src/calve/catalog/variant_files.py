"""Lets PyIceberg read tables with variants: to it they are columns of text, and the data files have their JSON.

PyIceberg 0.12 knows no variant: it parses no metadata with one, and reads no file. What it reads here is a copy of the
file in memory, in which each variant is its JSON text; so projection and deletes stay PyIceberg's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile, load_file_io
from pyiceberg.schema import Schema
from pyiceberg.serializers import Compressor
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from calve.errors import UnsupportedError
from calve.table.kinds import METADATA, VALUE
from calve.table.schema import is_variant, with_variants

__all__ = ["TextFiles", "open_metadata", "texts_for_variants", "variant_ids", "with_texts"]

_FIELD_ID = b"PARQUET:field_id"


def open_metadata(identifier: str, location: str, storage: dict[str, str]) -> StaticTable:
    """Open a table by its metadata file; `storage` alone says how files are read, and never the table.

    Raises:
        OSError, ValueError: The file cannot be read; a FileIO has errors of its own libraries, too.
    """
    io = load_file_io(storage, location)
    with io.new_input(location).open() as file, Compressor.get_compressor(location).stream_decompressor(file) as plain:
        metadata = TableMetadataUtil.parse_obj(with_variants(json.loads(plain.read())))
    return StaticTable(tuple(identifier.split(".")), metadata, location, io, NoopCatalog("static-table"))


def texts_for_variants(text: str) -> str:
    """Return a JSON text with metadata of tables, in which variants are texts, and places bytes."""
    unreadable = any(f'"{word}' in text for word in ("variant", "geometry", "geography"))
    return json.dumps(with_variants(json.loads(text), is_for_reading=True)) if unreadable else text


def with_texts(table: Table) -> Table:
    """Return a table with text columns for variants, and bytes for places."""
    schemas = [
        Schema.model_validate_json(texts_for_variants(schema.model_dump_json())) for schema in table.metadata.schemas
    ]
    metadata = table.metadata.model_copy(update={"schemas": schemas})
    return StaticTable(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def variant_ids(metadata: TableMetadata) -> frozenset[int]:
    """Return the ids of all variants that a table has or had, at any depth."""
    return frozenset(number for schema in metadata.schemas for number in schema.field_ids if is_variant(schema, number))


class TextFiles(FileIO):
    """Opens files as another FileIO does, but data files with texts for variants.

    Args:
        io: What opens all other files.
        paths: The data files.
        ids: The field ids of variants.
    """

    def __init__(self, io: FileIO, paths: Collection[str], ids: Collection[int]) -> None:
        super().__init__(io.properties)
        self._io, self._paths = io, frozenset(paths)
        self._ids = frozenset(str(number).encode() for number in ids)

    def new_input(self, location: str) -> InputFile:
        """Return a file to read."""
        file = self._io.new_input(location)
        return _TextFile(location, file, self._ids) if location in self._paths else file

    def new_output(self, location: str) -> Any:
        """Refuse to write."""
        raise NotImplementedError(f"{location} is only read")

    def delete(self, location: Any) -> None:
        """Refuse to delete."""
        raise NotImplementedError(f"{location} is only read")


class _TextFile(InputFile):
    def __init__(self, location: str, file: InputFile, ids: Collection[bytes]) -> None:
        super().__init__(location)
        self._file, self._ids = file, ids

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def open(self, seekable: bool = True) -> Any:
        out = pa.BufferOutputStream()
        with self._file.open() as source, parquet.ParquetFile(source) as file:
            if not any(_has_variant(field, self._ids) for field in file.schema_arrow):
                return self._file.open(seekable)
            schema = pa.schema([_text_field(field, self._ids) for field in file.schema_arrow])
            with parquet.ParquetWriter(out, schema, use_dictionary=False, compression="none") as writer:
                for group in range(file.num_row_groups):
                    rows = file.read_row_group(group).combine_chunks()
                    columns = [_with_texts(_whole(rows, index), field) for index, field in enumerate(schema)]
                    writer.write_table(pa.table(columns, schema=schema))
        return pa.BufferReader(out.getvalue())


def _whole(rows: pa.Table, index: int) -> pa.Array:
    column = rows.column(index)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _is_variant(field: pa.Field, ids: Collection[bytes]) -> bool:
    return (field.metadata or {}).get(_FIELD_ID) in ids and pa.types.is_struct(field.type)


def _has_variant(field: pa.Field, ids: Collection[bytes]) -> bool:
    inner = (field.type.field(index) for index in range(field.type.num_fields)) if field.type.num_fields else ()
    return _is_variant(field, ids) or any(_has_variant(child, ids) for child in inner)


def _text_field(field: pa.Field, ids: Collection[bytes]) -> pa.Field:
    """Return a field with texts for variants.

    Raises:
        UnsupportedError: A variant is in a list or a map, or in parts of its own (shredded).
    """
    if not _has_variant(field, ids):
        return field
    if _is_variant(field, ids):
        if {child.name for child in field.type} == {METADATA, VALUE}:
            return field.with_type(pa.large_string())
        raise _unsupported("shredded variants")
    if not pa.types.is_struct(field.type):
        raise _unsupported("variants in lists or maps")
    return field.with_type(pa.struct([_text_field(child, ids) for child in field.type]))


def _unsupported(what: str) -> UnsupportedError:
    hint = "calve changes TABLE prints the rows, with Spark"
    return UnsupportedError(f"Without Spark Calve cannot read {what}", step="read", hint=hint)


def _with_texts(values: pa.Array, field: pa.Field) -> pa.Array:
    """Return values with the type of a field: where that is a text and they are not, they are variants."""
    if values.type == field.type:
        return values
    if not pa.types.is_struct(field.type):
        return pa.array(map(_decoder(), values.to_pylist()), field.type)
    children = [_with_texts(values.field(index), child) for index, child in enumerate(field.type)]
    return pa.StructArray.from_arrays(children, fields=list(field.type), mask=values.is_null())


def _decoder() -> Callable[[dict[str, bytes] | None], str | None]:
    from pyspark.sql.variant_utils import VariantUtils  # needs no JVM, and half a second

    return partial(_decoded, VariantUtils.to_json)


def _decoded(to_json: Callable[[bytes, bytes], str], variant: dict[str, bytes] | None) -> str | None:
    if variant is None:
        return None
    try:
        return to_json(variant[VALUE], variant[METADATA])
    except Exception as error:  # of its kinds of errors none is public
        raise _unsupported(f"a variant: {error}") from error
