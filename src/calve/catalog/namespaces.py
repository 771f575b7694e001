"""The namespaces of a catalog: created with their parents, dropped again, and asked for. On the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError

__all__ = ["EXISTS", "ask", "create", "drop", "unless"]

EXISTS = ("org.apache.iceberg.exceptions.AlreadyExistsException",)
"""Somebody else created it meanwhile."""


def create(jvm: Any, catalog: Any, levels: Sequence[str]) -> list[Any]:
    """Create the missing levels of a namespace, parents first, and return them; Java's errors go through.

    Args:
        jvm: The JVM.
        catalog: A Java catalog; one without namespaces is left alone.
        levels: The parts of the namespace's name.
    """
    identifier = jvm.org.apache.iceberg.catalog.TableIdentifier.parse
    made: list[Any] = []
    for depth in range(1, len(levels) + 1) if _has_namespaces(jvm, catalog) else ():
        namespace = identifier(".".join([*levels[:depth], "table"])).namespace()
        if not catalog.namespaceExists(namespace):
            made += unless(EXISTS, partial(_create, catalog, namespace)) or []
    return made


def drop(catalog: Any, made: Sequence[Any]) -> None:
    """Drop what `create` returned."""
    for namespace in reversed(made):
        catalog.dropNamespace(namespace)


def ask(jvm: Any, catalog: Any) -> None:
    """Ask for the topmost namespaces, which fails if the warehouse is missing; Java's errors go through."""
    if _has_namespaces(jvm, catalog):
        catalog.listNamespaces(jvm.org.apache.iceberg.catalog.Namespace.empty())


def unless(classes: tuple[str, ...], action: Callable[[], Any]) -> Any:
    """Call `action`, or return None when Java raises an exception of one of these classes (full names)."""
    try:
        return action()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() not in classes:
            raise
        return None


def _create(catalog: Any, namespace: Any) -> list[Any]:
    catalog.createNamespace(namespace)
    return [namespace]


def _has_namespaces(jvm: Any, catalog: Any) -> bool:
    namespaces = jvm.java.lang.Class.forName("org.apache.iceberg.catalog.SupportsNamespaces")
    return bool(namespaces.isInstance(catalog))
