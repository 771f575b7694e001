"""The process of the http source that is fuzzed: `python -m fuzz.receiver FOLDER OPTIONS`; it serves until its input ends.

It prints its port, and at the end, as JSON, what it counted and the most memory that it had.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from calve.settings import Size
from calve.sources.http import source
from calve.sources.http.settings import HttpAuthentication, HttpBasic, HttpSettings
from fuzz.messages import PASSWORD, USER


def settings(options: dict[str, Any]) -> HttpSettings:
    """Return the settings of a round."""
    secured = HttpAuthentication(http_basic=HttpBasic(username=USER, password=PASSWORD))
    return HttpSettings(
        port=0,
        min_free_bytes=Size(1 << 20),
        max_request_length=Size(options["max_body"]),
        compression="gzip" if options["packed"] else "none",
        authentication=secured if options["secured"] else None,
        request_timeout=timedelta(seconds=options["timeout"]),
        metadata_headers=["x-request"],
        allowed_hosts=["x", "h" * 3000],
    )


def memory_kb(name: str) -> int:
    """Return a figure of this process: `VmRSS` or `VmHWM`."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


def main() -> None:
    """Serve."""
    logging.basicConfig(level="WARNING", format="%(message)s")
    http = source.open(settings(json.loads(sys.argv[2])), Path(sys.argv[1]), "p")
    http.start(None, once=False)
    before = memory_kb("VmRSS")
    print(http.address[1], flush=True)
    sys.stdin.read()
    http.stop()
    print(json.dumps({"grown_kb": memory_kb("VmHWM") - before}), flush=True)


if __name__ == "__main__":
    main()
