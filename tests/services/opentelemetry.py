"""OpenTelemetry's SDKs for Go and Java and its Collector: applications that send the records of `sources.otlp.numbered`.

They are fetched on demand only, with `CALVE_SDKS=1`: to build a Collector takes minutes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from calve.engine.jvm import jdk
from calve.engine.jvm.cache import cache_folder
from services import jars

VARIABLE = "CALVE_SDKS"
JAVA_VERSION = "1.68.0"
_GO = Path(__file__).with_name("go")
_JAVA = Path(__file__).with_name("Sdk.java")


def is_wanted() -> bool:
    """Return whether these applications are to be built and run."""
    return bool(os.environ.get(VARIABLE))


def missing_go() -> str:
    """Return why the applications in Go cannot be built; empty if they can."""
    return "" if shutil.which("go") else "there is no go on PATH"


def missing_java() -> str:
    """Return why the application in Java cannot be run; empty if it can."""
    executable = jdk.find().executable
    return "" if executable.with_name("javac").exists() else f"{executable} is without a compiler"


def go(name: str) -> Path:
    """Return the program `sdk` or `collector`, built once for its sources and locked versions.

    Raises:
        RuntimeError: It cannot be built; with the compiler's output.
    """
    files = sorted(file for file in _GO.rglob("*") if file.is_file())
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    program = cache_folder() / "services" / f"opentelemetry-go-{digest}" / name
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as work:
            command = ["go", "build", "-mod=readonly", "-o", f"{work}/{name}", f"./{name}"]
            done = subprocess.run(command, cwd=_GO, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{name} is not built:\n{done.stderr[-2000:]}")
            Path(work, name).rename(program)
    return program


def java() -> list[str]:
    """Return the command of the application in Java; its jars are downloaded once."""
    modules = ("opentelemetry-sdk-extension-autoconfigure", "opentelemetry-exporter-otlp")
    folder = jars.resolve(
        f"opentelemetry-{JAVA_VERSION}", *(f"io.opentelemetry:{name}:{JAVA_VERSION}" for name in modules)
    )
    return [str(jdk.find().executable), "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/*", str(_JAVA)]


def fetch() -> str:
    """Build and download what can be, and return where it is."""
    programs = [str(go(name)) for name in ("sdk", "collector") if not missing_go()]
    return ", ".join([*programs, " ".join(java())])
