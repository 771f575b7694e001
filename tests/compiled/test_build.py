"""The library is built where there is cargo, once for the same sources, and never a reason to stop."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from calve.compiled import build

VERSION = '[ "$1" = --version ] && echo "cargo 1.90.0 (abc 2026-01-01)" && exit'
CARGO = f"""#!/bin/sh
{VERSION}
"""
CARGO += """echo "$@" >> {log}
while [ "$1" != --profile ]; do shift; done
out=target/${{CALVE_CORE_TARGET%%.*}}/$2
mkdir -p $out
echo "built of $CALVE_CORE_SOURCES GLIBC_2.18 GLIBC_2.28" > $out/{name}
"""
FAILING = f"""#!/bin/sh
{VERSION}
for line in $(seq 99); do echo "line $line" >&2; done
echo "error: linker \\`cc\\` not found" >&2
exit 101
"""


class Checkout:
    """A core with one source, a cargo that only pretends, and the place of the library."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.core, self.library, self.log = folder / "core", folder / "compiled" / build.FILE.name, folder / "log"
        for folder_ in (self.core / "src", self.library.parent, folder / "bin"):
            folder_.mkdir(parents=True)
        self.source = self.core / "src" / "lib.rs"
        self.source.write_text("// one")
        (self.core / "Cargo.toml").write_text('rust-version = "1.70"\n')
        self.cargo = folder / "bin" / "cargo"
        self.install(CARGO.format(log=self.log, name=self.library.name))
        monkeypatch.setenv("PATH", f"{self.cargo.parent}:/usr/bin:/bin")
        monkeypatch.setattr(build, "CORE", self.core)
        monkeypatch.setattr(build, "FILE", self.library)
        monkeypatch.setattr(build, "CHECKED", self.core / "target" / "checked" / self.library.name)

    def install(self, cargo: str) -> None:
        self.cargo.write_text(cargo)
        self.cargo.chmod(0o755)

    def builds(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    return Checkout(tmp_path, monkeypatch)


def test_what_is_built_is_put_where_it_is_looked_for(checkout: Checkout) -> None:
    assert build.build() == ""
    assert build.digest() in checkout.library.read_text()
    assert [*checkout.library.parent.iterdir()] == [checkout.library]


def test_nothing_is_built_twice_however_new_the_files_are(checkout: Checkout) -> None:
    build.build()
    os.utime(checkout.source, (9e9, 9e9))
    assert build.build() == ""
    assert checkout.builds() == 1


@pytest.mark.parametrize("change", ["changed", "added", "removed", "renamed"])
def test_other_sources_are_built_however_old_they_are(checkout: Checkout, change: str) -> None:
    other = checkout.core / "src" / "parse" / "other.rs"
    other.parent.mkdir()
    if change in ("removed", "renamed"):
        other.write_text("// other")
    build.build()
    match change:
        case "changed":
            checkout.source.write_text("// two")
        case "added":
            other.write_text("// other")
        case "removed":
            other.unlink()
        case "renamed":
            other.rename(other.with_name("another.rs"))
    os.utime(checkout.source, (0, 0))
    assert build.build() == ""
    assert checkout.builds() == 2


def test_the_library_of_the_tests_stands_beside_the_other_one(checkout: Checkout) -> None:
    build.build()
    assert build.build(checked=True) == ""
    assert build.CHECKED.is_file()
    assert "--profile checked" in checkout.log.read_text()
    assert build.build(checked=True) == ""
    assert checkout.builds() == 2


def test_without_cargo_one_sentence_says_what_that_means(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout.core))
    said = build.build()
    assert said.startswith("There is no cargo on the PATH")
    assert "works without it" in said
    assert "rustup" in said
    assert "\n" not in said


def test_a_library_of_the_same_sources_needs_no_cargo(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    build.build()
    monkeypatch.setenv("PATH", str(checkout.core))
    assert build.build() == ""


def test_an_outdated_library_that_cannot_be_rebuilt_is_removed_and_that_is_told(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build.build()
    checkout.source.write_text("// two")
    monkeypatch.setenv("PATH", str(checkout.core))
    assert build.build()
    assert not checkout.library.exists()
    assert "outdated library of the compiled core is removed" in capsys.readouterr().err


NO_TOOLCHAIN = """#!/bin/sh
echo 'error: rustup could not choose a version of cargo to run' >&2
echo help >&2
exit 1
"""
OLD = "#!/bin/sh\necho cargo 1.63.0\n"


@pytest.mark.parametrize(
    ("cargo", "reason"),
    [
        (
            NO_TOOLCHAIN,
            "cargo does not work: rustup could not choose a version of cargo to run, so the compiled core is not built.",
        ),
        ("#!/bin/sh\nexit 3\n", "cargo does not work: exit code 3, so"),
        ("#!/no/such/shell\n", "cargo does not start: No such file or directory, so"),
        (OLD, "cargo is too old: the core needs 1.70, and this is 1.63, so"),
    ],
)
def test_a_cargo_that_does_not_work_is_no_cargo(checkout: Checkout, cargo: str, reason: str) -> None:
    checkout.install(cargo)
    said = build.build()
    assert reason in said
    assert "works without it" in said
    assert "\n" not in said
    assert build.cargo_fault()
    command = [sys.executable, "-m", "calve.compiled.build", "--cargo"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == build.cargo_fault()


@pytest.mark.parametrize("cargo", [NO_TOOLCHAIN, OLD])
def test_set_up_and_checks_of_a_checkout_say_one_line_and_go_on_without_a_cargo_that_works(
    checkout: Checkout, tmp_path: Path, cargo: str
) -> None:
    """The commands are those of `make setup`, `make test` and `make check`."""
    root = Path(build.__file__).parents[3]
    shutil.copytree(root / "core", tmp_path / "core", ignore=shutil.ignore_patterns("target"), dirs_exist_ok=True)
    shutil.copytree(root / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.so", "*.dylib", "__pycache__"))
    checkout.install(cargo)
    reason = build.cargo_fault()
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "PYTHON": sys.executable}

    def said(*command: str | Path) -> list[str]:
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        assert ran.stderr == ""
        return ran.stdout.splitlines()

    for option in ([], ["--checked"]):
        (line,) = said(sys.executable, "-m", "calve.compiled.build", *option)
        assert line.startswith(f"{reason}, so the compiled core is not built. Calve works without it")
    assert said(tmp_path / "core" / "check.sh") == [f"{reason}: the compiled core is not checked"]


def test_a_cargo_that_fails_is_quoted_in_brief(checkout: Checkout) -> None:
    checkout.install(FAILING)
    assert build.cargo_fault() == ""
    said = build.build()
    assert "The compiled core could not be built. Calve works without it" in said
    assert "linker `cc` not found" in said
    assert len(said.splitlines()) < 15
    assert not checkout.library.exists()


@pytest.mark.parametrize(
    ("content", "tag"),
    [
        (b"\0GLIBC_2.2.5\0GLIBC_2.28\0GLIBC_2.9\0", "manylinux_2_28_x86_64"),
        (b"\0libc.musl-x86_64.so.1\0", "linux_x86_64"),
        (None, "any"),
    ],
)
def test_a_wheel_is_for_the_oldest_system_that_its_library_runs_on(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, content: bytes | None, tag: str
) -> None:
    monkeypatch.setattr(sysconfig, "get_platform", lambda: "linux-x86_64")
    if content is not None:
        checkout.library.write_bytes(content)
    assert build.wheel_platform() == tag


def test_a_wheel_for_another_machine_and_an_older_glibc_is_built_by_zig(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.build()
    monkeypatch.setenv("CALVE_CORE_TARGET", "aarch64-unknown-linux-gnu.2.28")
    assert build.build() == ""
    assert "zigbuild --target aarch64-unknown-linux-gnu.2.28 --profile release" in checkout.log.read_text()
    assert build.wheel_platform() == "manylinux_2_28_aarch64"


def test_the_page_on_installation_names_the_oldest_cargo_that_will_do() -> None:
    version = tomllib.loads((build.CORE / "Cargo.toml").read_text())["package"]["rust-version"]
    assert f"cargo ≥ {version}" in (build.CORE.parent / "docs" / "install.md").read_text()


@pytest.mark.skipif(bool(build.cargo_fault()), reason="there is no cargo that works")
def test_the_core_that_is_here_is_current_after_its_build() -> None:
    command = [sys.executable, "-m", "calve.compiled.build", "--checked"]
    for _ in range(2):
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert ran.stdout + ran.stderr == ""
    assert build.digest().encode() in build.CHECKED.read_bytes()
