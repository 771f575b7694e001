"""The namespaces of a catalog: dropped again, and asked for. On the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError

__all__ = ["ask", "drop", "unless"]


def drop(catalog: Any, created: Sequence[Any]) -> None:
    """Drop these, the last one first: its parents are before it."""
    for namespace in reversed(created):
        catalog.dropNamespace(namespace)


def ask(jvm: Any, catalog: Any) -> None:
    """Ask for the topmost namespaces, which fails if the warehouse is missing; Java's errors go through."""
    namespaces = jvm.java.lang.Class.forName("org.apache.iceberg.catalog.SupportsNamespaces")
    if namespaces.isInstance(catalog):
        catalog.listNamespaces(jvm.org.apache.iceberg.catalog.Namespace.empty())


def unless(classes: tuple[str, ...], action: Callable[[], Any]) -> Any:
    """Call `action`, or return None when Java raises an exception of one of these classes (full names)."""
    try:
        return action()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() not in classes:
            raise
        return None
