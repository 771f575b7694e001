"""The command `calve`, with chunks of a load so small that there are several of a small table."""

from __future__ import annotations

import sys

from calve.cli.main import main
from calve.sources.mysql import load as mysql_load
from calve.sources.postgres import load as postgres_load
from sources.database.pipeline import CHUNK_BYTES, CHUNK_PAGES

if __name__ == "__main__":
    postgres_load._CHUNK_PAGES, mysql_load._CHUNK_BYTES = CHUNK_PAGES, CHUNK_BYTES
    sys.exit(main())
