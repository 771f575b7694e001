"""Java classes from the sources beside Python modules: for loops that would be slow through py4j.

Spark's Janino compiles a source once; the cache keeps the classes. Janino itself costs half a second of each start,
because Java must check every class of its signed jar.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from calve.engine.jvm import spark_package
from calve.engine.jvm.cache import cache_folder
from calve.errors import EngineError

__all__ = ["class_file", "java_class"]

_lock = threading.Lock()
_loaded: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""The classes of each JVM: py4j remembers methods by the class's name, so a JVM must load each name only once."""


def java_class(jvm: Any, module: str, name: str) -> Any:
    """Return the class of the file `<name>.java`: in 0.01 s from the cache, in 0.5 s if it must be compiled.

    The file must not declare a package, nor use generics, which Janino lacks. Safe in several threads and processes.

    Args:
        jvm: The JVM of Spark's driver.
        module: A Python module in whose folder the file is.
        name: The class.
    """
    package, source = _source(module, name)
    with _lock:
        classes = _loaded.setdefault(jvm, {})
        if package not in classes:
            loader = _load(jvm, package, source)
            classes[package] = loader.loadClass(f"{package}.{name}")
        loaded_class: Any = classes[package]
        return loaded_class


def class_file(module: str, name: str) -> Path:
    """Return the jar of a class that `java_class` has loaded.

    Raises:
        EngineError: It could not be written.
    """
    file = _jar(_source(module, name)[0])
    if not file.is_file():
        hint = "Set the variable CALVE_CACHE to a folder that can be written"
        raise EngineError(f"Classes for Spark's tasks cannot be kept in {file.parent}", step="engine", hint=hint)
    return file


def _source(module: str, name: str) -> tuple[str, str]:
    """Return the package of a source, which is named by what the source says, and the source."""
    source = files(module.rpartition(".")[0]).joinpath(f"{name}.java").read_text()
    return f"compiled{hashlib.sha256(f'{spark_package.version()} {source}'.encode()).hexdigest()[:16]}", source


def _jar(package: str) -> Path:
    return cache_folder() / "java" / f"{package}.jar"


def _load(jvm: Any, package: str, source: str) -> Any:
    """Return a class loader that has the classes of a source."""
    file = _jar(package)
    with contextlib.suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(file) as jar:
        classes = {entry.removesuffix(".class").replace("/", "."): jar.read(entry) for entry in jar.namelist()}
        os.utime(file)  # the time of its last use
        parent = jvm.Thread.currentThread().getContextClassLoader()
        return jvm.org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader(classes, parent)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(f"package {package};{source}")
    with contextlib.suppress(OSError):  # a read-only cache
        _keep(file, {name: bytes(code) for name, code in compiler.getBytecodes().items()})
    return compiler.getClassLoader()


def _keep(file: Path, classes: dict[str, bytes]) -> None:
    """Write the classes to the cache, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".compiled") as folder:
        unpublished = Path(folder) / file.name
        with zipfile.ZipFile(unpublished, "w") as jar:
            for name, code in classes.items():
                jar.writestr(f"{name.replace('.', '/')}.class", code)
        unpublished.replace(file)
