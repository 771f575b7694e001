from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

from calve.sources.database.epochs import Epochs
from calve.sources.database.stream import DatabaseStream, StreamContext
from calve.state.local_folder import LocalFolder
from sources.database.test_reload import OTHER


class Ending(DatabaseStream):
    """Ends by itself, after the pipeline has asked it to stop a table."""

    def __init__(self, folder: Path) -> None:
        epochs = Epochs(LocalFolder(folder))
        epochs.begin([OTHER])
        context = StreamContext(SimpleNamespace(shown="shop"), "p", None, None, epochs, {}, None)  # type: ignore[arg-type]
        super().__init__(context, until=7)
        self.asked = threading.Event()

    def _read(self) -> None:
        assert self.asked.wait(60)
        self.reached = True


def test_a_table_is_stopped_that_the_ending_stream_was_asked_to_stop(tmp_path: Path) -> None:
    stream = Ending(tmp_path)
    stream.start()
    stream.stop_table(OTHER.oid, "it changed during the load", "")
    stream.asked.set()
    stream.stop()
    again = Epochs(LocalFolder(tmp_path))
    again.load()
    assert again.tables[OTHER.oid].stopped == "it changed during the load"
