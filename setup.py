"""Puts the compiled core into wheels; everything else about the package is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent / "src"))

from calve.compiled import build


class BuildCore(build_py):
    """Builds the library first, so that it is there when the package's files are collected."""

    def run(self) -> None:
        """Build the library, or leave it out, and collect."""
        if reason := build.build():
            print(reason, file=sys.stderr)
            Path(self.build_lib, "calve", "compiled", build.FILE.name).unlink(missing_ok=True)  # of an earlier build
        super().run()


class TagWheel(bdist_wheel):
    """Names the platform for which a wheel is; any Python will do, as the library knows nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag of Python, of its ABI and of the platform."""
        return "py3", "none", build.wheel_platform()


setup(cmdclass={"build_py": BuildCore, "bdist_wheel": TagWheel})
