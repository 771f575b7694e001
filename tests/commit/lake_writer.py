"""A process of its own that appends batches to a table, for the tests that kill it: `folder pipeline first last`."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from calve.catalog.catalog import Catalog, embedded
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.record.content_file import ContentFile

SCHEMA = '{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":false,"type":"long"}]}'


def main(folder: Path, pipeline: str, first: int, last: int) -> None:
    engine = session.start("local[1]")
    catalog = Catalog(engine, embedded(folder))
    catalog.create("db.events", SCHEMA)
    print("ready", flush=True)
    sys.stdin.readline()  # so that writers meet
    write(catalog, pipeline, first, last)
    session.stop(engine)


def write(catalog: Catalog, pipeline: str, first: int, last: int) -> None:
    """Append the batches that the table lacks, each with its number in a row."""
    table = catalog.load("db.events")
    assert table
    for batch in range(first, last + 1):
        path = Path(table.location) / "data" / f"{pipeline}-{batch}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
        pq.write_table(pa.table({"id": [batch]}, schema=schema), path)
        file = ContentFile(
            spec_id=0,
            content="DATA",
            file_path=str(path),
            file_format="PARQUET",
            partition=[],
            file_size_in_bytes=path.stat().st_size,
            record_count=1,
        )
        append(catalog, CommitTarget("db.events", table.uuid), Mark(pipeline, "state", last), {batch: [file]})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
