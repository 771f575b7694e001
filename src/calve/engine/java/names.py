"""Names of Java that are looked up once: py4j asks the JVM for each part of a name each time, and the JVM then searches
all its jars, which takes half a millisecond of CPU for a part.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaPackage, JVMView

__all__ = ["JavaNames"]


class JavaNames:
    """The packages and classes in a package of Java, or in the JVM.

    Args:
        parent: What py4j has for it.
    """

    def __init__(self, parent: JVMView | JavaPackage) -> None:
        self._parent = parent

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._parent, name)
        if isinstance(member, JavaPackage):
            member = JavaNames(member)
        vars(self)[name] = member
        return member
