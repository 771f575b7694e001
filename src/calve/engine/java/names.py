"""Names of Java that are looked up once: py4j asks the JVM for each part of a name each time, and the JVM then searches
all its jars, which takes half a millisecond of CPU for a part.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaPackage, JVMView

__all__ = ["JavaNames", "java_names"]


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


@lru_cache(1)
def java_names(jvm: JVMView) -> JavaNames:
    """Return the names of a JVM: the same ones for all engines on it, which so share the classes of `java_class`."""
    return JavaNames(jvm)
