"""Runs the tests in two processes side by side: plain ones, and those with servers or the JVM, which often wait.

Arguments are pytest's. What the plain ones say comes at the end, in one piece.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

PLAIN = "not spark and not services and not crash"
NOTHING_TO_RUN = 5


def main() -> int:
    pytest = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    with tempfile.TemporaryFile("w+") as said:
        plain = subprocess.Popen([*pytest, "-m", PLAIN], stdout=said, stderr=subprocess.STDOUT)
        try:
            codes = {subprocess.run([*pytest, "-m", f"not ({PLAIN})"], check=False).returncode, plain.wait()}
        finally:
            plain.kill()
            plain.wait()
        said.seek(0)
        print(said.read())
    if codes - {0, NOTHING_TO_RUN}:
        return 1
    return 0 if 0 in codes else NOTHING_TO_RUN


if __name__ == "__main__":
    sys.exit(main())
