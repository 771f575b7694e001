"""A process with an http source and the smallest honest pipeline behind it, to be killed: `pipeline.py FOLDER [LOG]`.

The log is in FOLDER, or where LOG says: on an object store. A batch is committed when `<number>.json` appears, with its events and its position; only then it is acknowledged.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from calve.settings import Size
from calve.sources.http import source
from calve.sources.http.settings import HttpSettings
from calve.state.folder import StateFolder
from calve.state.local_folder import LocalFolder
from calve.state.location import state_folder_at


def committed(folder: Path) -> list[Path]:
    """Give the batches in order."""
    return sorted((folder / "batches").glob("*.json"))


def run(folder: Path, log: StateFolder) -> None:
    """Serve until killed."""
    (folder / "batches").mkdir(exist_ok=True)
    done = committed(folder)
    position = json.loads(done[-1].read_text())["position"] if done else None
    number = len(done)
    http = source.open(HttpSettings(port=0, min_free_bytes=Size(0)), log, "p")
    http.start(position, once=False)
    print(http.address[1], flush=True)
    while True:
        planned = http.plan(position, 1 << 16)
        if planned is None:
            time.sleep(0.005)
            continue
        batches = [batch for split in planned.splits for batch in http.reader.read(split)]
        events = [json.loads(event) for batch in batches for event in batch.column("event").to_pylist()]
        part = folder / "batches" / "part"
        part.write_text(json.dumps({"position": planned.position, "events": events}))
        number, position = number + 1, planned.position
        part.rename(folder / "batches" / f"{number:06d}.json")
        http.acknowledge(planned)


if __name__ == "__main__":
    run(Path(sys.argv[1]), state_folder_at(sys.argv[2]) if sys.argv[2:] else LocalFolder(Path(sys.argv[1], "http")))
