"""Runs the tests in three processes side by side: plain ones, those that kill, and those with servers or the JVM.

The last two often wait, and take about as long as each other. Arguments are pytest's. What the first two say comes at
the end, each in one piece.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack

ASIDE = ("not spark and not services and not crash", "crash")
AHEAD = "(spark or services) and not crash"
NOTHING_TO_RUN = 5


def main() -> int:
    pytest = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    with ExitStack() as stack:
        said = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in ASIDE]
        aside = [
            subprocess.Popen([*pytest, "-m", marks], stdout=file, stderr=subprocess.STDOUT)
            for marks, file in zip(ASIDE, said, strict=True)
        ]
        try:
            codes = {subprocess.run([*pytest, "-m", AHEAD], check=False).returncode}
            codes |= {process.wait() for process in aside}
        finally:
            for process in aside:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)  # pytest ends what its tests have started
                process.wait()
        for file in said:
            file.seek(0)
            print(file.read())
    if codes - {0, NOTHING_TO_RUN}:
        return 1
    return 0 if 0 in codes else NOTHING_TO_RUN


if __name__ == "__main__":
    sys.exit(main())
