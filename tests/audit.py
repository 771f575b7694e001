"""Looks for known vulnerabilities in what Calve runs with: `make audit`.

Python's packages are those of the lock files, asked about at the Python Packaging Advisory Database by pip-audit. What
could not be asked about is a failure, too: an audit that asked nobody finds nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements-run.lock", "requirements-java.lock")
_SHOWN = 5


def main() -> int:
    """Print what was found; return 1 if something was, or could not be looked for."""
    problems = [problem for lock in LOCKS for problem in python(lock)] + rust()
    print(*problems, sep="\n") if problems else print("No known vulnerability.")
    print(
        "Jars (Spark's of pyspark, Iceberg's of calve/engine/jvm/jars.py) are not asked about: compare their versions with"
    )
    print(
        "the advisories of Apache Spark and Apache Iceberg, or run OWASP dependency-check on .venv and ~/.cache/calve."
    )
    return 1 if problems else 0


def python(lock: str) -> list[str]:
    """Return the problems of the packages of a lock file."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--disable-pip",
        "--no-deps",
        "--format",
        "json",
        "-r",
        str(ROOT / lock),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return [f"{lock}: {problem}" for problem in found(json.loads(ran.stdout))]
    except ValueError:
        lines = ran.stderr.strip().splitlines() or ["it said nothing"]
        return [f"{lock}: not audited: the advisory database cannot be reached, or pip-audit fails: {lines[-1][:300]}"]


def found(report: Mapping[str, Any]) -> list[str]:
    """Return the problems of pip-audit's report: vulnerabilities, and packages that were not audited."""
    packages = report["dependencies"]
    problems = [
        f"{package['name']} {package['version']}: {one['id']}, fixed in {', '.join(one['fix_versions']) or 'no version'}"
        for package in packages
        for one in package.get("vulns", ())
    ]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped:
        names = ", ".join(skipped[:_SHOWN]) + (" …" if len(skipped) > _SHOWN else "")
        reason = next(package["skip_reason"] for package in packages if "skip_reason" in package)
        problems.append(f"{len(skipped)} of {len(packages)} packages were not audited ({names}): {reason}")
    return problems or ([] if packages else ["it has no packages"])


def rust() -> list[str]:
    """Return the problems of the compiled core's crates."""
    others = [package["name"] for package in crates() if package["name"] != "calve-core"]
    if not others:
        print("core/Cargo.lock: no crates but its own, so there is nothing to audit.")
        return []
    if shutil.which("cargo-audit") is None:
        return ["core/Cargo.lock: not audited: cargo-audit is missing; cargo install --locked cargo-audit"]
    ran = subprocess.run(["cargo", "audit", "--quiet"], cwd=ROOT / "core", capture_output=True, text=True, check=False)
    return [f"core/Cargo.lock: {ran.stdout}{ran.stderr}".strip()] if ran.returncode else []


def crates() -> list[dict[str, Any]]:
    """Return the crates of the core."""
    packages: list[dict[str, Any]] = tomllib.loads((ROOT / "core" / "Cargo.lock").read_text())["package"]
    return packages


if __name__ == "__main__":
    sys.exit(main())
