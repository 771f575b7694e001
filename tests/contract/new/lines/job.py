"""What tasks get to know of the sink: each write makes a file, whose name is the same when its events come again."""

import zlib
from dataclasses import dataclass
from pathlib import Path

from calve.event.reject import Code, Reject, rejects_table
from calve.record.written import IndexDocuments
from calve.sinks.job import DirectWriter, EventPreview, SinkJob
from calve.state.durable import replace


@dataclass(frozen=True)
class Job(SinkJob):
    prefix: str

    def preview(self, table, events):
        texts = enumerate(events["json"].to_pylist())
        bad = (Reject(row, Code.SINK_REFUSED, "", "it is bad") for row, text in texts if "bad" in text)
        return EventPreview(rejects_table(bad))

    def writer(self, work):
        return DirectWriter(work, Writer(self))


class Writer:
    def __init__(self, job):
        self.job, self.rows = job, 0

    def write(self, table, events):
        good = [f"{text}\n" for text in events["json"].to_pylist() if "bad" not in text]
        number = zlib.crc32(repr(events["event_version"].to_pylist()).encode())
        replace(Path(f"{self.job.prefix}{number:08x}"), "".join(good).encode())
        self.rows += len(good)
        return self.job.preview(table, events).rejects

    def written(self):
        return [IndexDocuments("lines", self.rows, 0)]
