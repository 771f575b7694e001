"""The metadata attributes of objects."""

import pyarrow as pa

__all__ = ["METADATA"]

METADATA = {
    "file_path": pa.string(),
    "file_row": pa.int64(),
    "s3_bucket": pa.string(),
    "s3_key": pa.string(),
    "s3_etag": pa.string(),
}
