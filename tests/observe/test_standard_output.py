from __future__ import annotations

import io
import os
import select
from types import SimpleNamespace

import pytest

from calve.observe.standard_output import flush_output, write_output

DATA = bytes(range(256)) * 4096


@pytest.mark.parametrize("is_buffered", [False, True])
def test_a_full_pipe_that_does_not_wait_is_written_when_its_reader_reads(
    is_buffered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    raw = io.FileIO(writer, "wb")
    output = io.BufferedWriter(raw) if is_buffered else raw
    received = bytearray()

    def read_all(*_: object) -> None:
        """Stand for the wait: it ends when the reader has read."""
        while chunk := _read(reader):
            received.extend(chunk)

    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output))
    monkeypatch.setattr(select, "select", read_all)
    write_output(DATA)
    flush_output()
    read_all()
    assert received == DATA
    output.close()
    os.close(reader)


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 1 << 20)
    except BlockingIOError:
        return b""
