"""Builds the library of the compiled core with cargo, in a checkout and for a wheel.

`python -m calve.compiled.build [--checked]` does it. That there is no cargo that works is no failure and told on
stdout, as Calve works without it; that cargo fails to build is told on stderr. `--cargo` only tells what is wrong with
cargo. A library carries the digest of its sources, so that nothing is built twice and an outdated library is noticed.
`CALVE_CORE_TARGET` builds for another machine or an older glibc with cargo-zigbuild: `make wheel`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from calve.compiled.library import FILE, SLOWER

__all__ = ["CHECKED", "CORE", "build", "cargo_fault", "digest", "wheel_platform"]

CORE = Path(__file__).parents[3] / "core"
"""The sources, in a checkout."""
CHECKED = CORE / "target" / "checked" / FILE.name
"""The library for the tests: with debug assertions, and overflow checked."""
_WITHOUT = f"Calve works without it, but {SLOWER}"
_HINT = "To have it, install Rust (https://rustup.rs) and do this again"
_SOURCES_VARIABLE = "CALVE_CORE_SOURCES"
"""What `ffi.rs` puts into the library."""
_TARGET_VARIABLE = "CALVE_CORE_TARGET"
"""A target of Rust with a version of glibc, e.g. `aarch64-unknown-linux-gnu.2.28`; not set: this machine."""
_SOURCES = ("Cargo.toml", "Cargo.lock", "src/**/*.rs")
_LINES = 12


def build(*, checked: bool = False) -> str:
    """Build the library unless it is there and of these sources; an outdated one that cannot be rebuilt is removed.

    Returns:
        Why it could not be built, as a sentence with the way out; empty when the library is there.
    """
    library = CHECKED if checked else FILE
    sources = digest()
    if library.is_file() and sources.encode() in library.read_bytes():
        return ""
    reason = _try(library, "checked" if checked else "release", sources)
    if reason and library.is_file():
        print("      The outdated library of the compiled core is removed", file=sys.stderr)
        library.unlink()
    return reason


def digest() -> str:
    """Return the digest of the sources and of the kind of machine: it identifies a library."""
    here = f"{sys.platform} {platform.machine()} {platform.libc_ver()[0]}"
    hasher = hashlib.sha256((_target() or here).encode())
    for file in sorted(file for pattern in _SOURCES for file in CORE.glob(pattern)):
        content = file.read_bytes()
        hasher.update(f"\n{file.relative_to(CORE).as_posix()} {len(content)}\n".encode() + content)
    return hasher.hexdigest()


def wheel_platform() -> str:
    """Return the platform tag of a wheel: any without the library; on Linux the oldest glibc that has its symbols.

    It needs nothing but glibc and libgcc, which manylinux allows (PEP 600). A library for musl names no glibc.
    """
    if not FILE.is_file():
        return "any"
    here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    minors = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", FILE.read_bytes())]
    machine = _target().partition("-")[0] or here.removeprefix("linux_")
    return f"manylinux_2_{max(minors)}_{machine}" if minors else here


def cargo_fault() -> str:
    """Return why no cargo can build the core, as a clause; empty: it can."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return "There is no cargo on the PATH"
    try:
        ran = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{cargo} does not start: {error.strerror}"
    if ran.returncode:  # rustup's proxy without a toolchain
        lines = [line.strip().rstrip(".") for line in ran.stderr.splitlines() if line.strip()]
        return f"{cargo} does not work: {lines[0].removeprefix('error: ') if lines else f'exit code {ran.returncode}'}"
    version = re.search(r"(\d+)\.(\d+)", ran.stdout)
    if version and (int(version[1]), int(version[2])) < _oldest():
        return f"{cargo} is too old: the core needs {'.'.join(map(str, _oldest()))}, and this is {version[0]}"
    return ""


def _target() -> str:
    return os.environ.get(_TARGET_VARIABLE, "")


def _oldest() -> tuple[int, int]:
    """Return the oldest version of cargo that will do."""
    version = re.search(r'rust-version = "(\d+)\.(\d+)"', (CORE / "Cargo.toml").read_text())
    return (int(version[1]), int(version[2])) if version else (0, 0)


def _try(library: Path, profile: str, sources: str) -> str:
    if fault := cargo_fault():
        return f"{fault}, so the compiled core is not built. {_WITHOUT}. {_HINT}"
    cargo = shutil.which("cargo") or "cargo"
    print(f"      cargo builds the compiled core ({profile}), some seconds", file=sys.stderr, flush=True)
    folder = _target().partition(".")[0]
    built = CORE / "target" / folder / profile / FILE.name
    if said := _run(cargo, profile, sources) or ("" if built.is_file() else f"there is no {built}"):
        return f"The compiled core could not be built. {_WITHOUT}. cargo's last lines:\n{said}"
    if built != library:
        _publish(built, library)
    return ""


def _run(cargo: str, profile: str, sources: str) -> str:
    """Run cargo; return its last lines when it fails."""
    build = ["zigbuild", "--target", _target()] if _target() else ["build"]
    command = [cargo, *build, "--profile", profile, "--offline", "--locked", "--target-dir", str(CORE / "target")]
    environment = os.environ | {_SOURCES_VARIABLE: sources}
    try:
        subprocess.run(command, cwd=CORE, env=environment, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        return "\n".join(error.stderr.strip().splitlines()[-_LINES:]) or str(error)
    except OSError as error:
        return str(error)
    return ""


def _publish(built: Path, library: Path) -> None:
    """Put the library in its place at once: a process that has the old one open keeps it."""
    unpublished = library.with_name(f".{library.name}.{os.getpid()}")
    shutil.copy(built, unpublished)
    unpublished.replace(library)


if __name__ == "__main__":
    if "--cargo" in sys.argv[1:]:
        print(cargo_fault())
    elif said := build(checked="--checked" in sys.argv[1:]):
        print(said, file=sys.stdout if cargo_fault() else sys.stderr)
