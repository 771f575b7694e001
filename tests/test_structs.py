"""Threads that read a struct for the first time at once; msgspec alone ends such a process within a few types."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import msgspec
from calve import structs

THREADS, FIELDS = 4, 20
sys.setswitchinterval(1e-6)

def read(kind, together):
    together.wait()
    text = b'{"inner": {"f1": 1}, "f2": 2}'
    return structs.decode(text, kind).inner.f1, structs.convert(msgspec.json.decode(text), kind).f2

with ThreadPoolExecutor(THREADS) as pool:
    for _ in range(40):
        fields = [(f"f{number}", int | None, None) for number in range(FIELDS)]
        inner = msgspec.defstruct("Inner", fields)
        kind = msgspec.defstruct("Outer", [("inner", inner), *fields])
        together = Barrier(THREADS)
        done = [pool.submit(read, kind, together) for _ in range(THREADS)]
        assert [one.result() for one in done] == [(1, 2)] * THREADS
print("read")
"""


def test_threads_may_read_a_struct_for_the_first_time_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr
