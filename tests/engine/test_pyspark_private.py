"""One module knows what PySpark keeps to itself, and every name that it uses there is a name of this PySpark."""

from __future__ import annotations

import ast
import functools
import inspect
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import pyspark.core.context
import pyspark.errors.exceptions.captured
import pyspark.java_gateway
import pyspark.sql.classic.dataframe
import pyspark.sql.session
import pytest
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

import calve
from calve.engine import pyspark_private, session

SOURCE = Path(calve.__file__).parent
PRIVATE = Path(pyspark_private.__file__)
PYSPARK = (
    pyspark.core.context,
    pyspark.errors.exceptions.captured,
    pyspark.sql.classic.dataframe,
    pyspark.sql.session,
)
"""The modules of PySpark whose objects Calve holds."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def attributes(code: str, kind: type[ast.expr_context] | None = None) -> set[str]:
    """The private attributes that some code has: of all objects, or those that it sets."""
    nodes = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute))
    return {node.attr for node in nodes if is_private(node.attr) and (kind is None or isinstance(node.ctx, kind))}


def declared(module: ModuleType) -> set[str]:
    """The private attributes that classes of a module have, and those that their methods set."""
    classes = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__.startswith("pyspark")]
    return {name for one in classes for name in dir(one) if is_private(name)} | attributes(
        inspect.getsource(module), ast.Store
    )


@functools.cache
def kept() -> set[str]:
    return set[str]().union(*map(declared, PYSPARK)) - set(dir(namedtuple("Row", ())))


def test_every_private_name_is_one_of_this_pyspark() -> None:
    code = PRIVATE.read_text()
    used = attributes(code)
    assert used >= {"_jvm", "_jsc", "_gateway", "_jsparkSession", "_jdf", "_origin", "_accumulatorServer"}
    assert used - kept() == set()


def test_no_other_module_touches_what_pyspark_keeps_to_itself() -> None:
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Attribute) or node.attr not in kept() or file == PRIVATE:
                continue
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):  # those are its own
                found.append(f"{file.relative_to(SOURCE)}:{node.lineno} {node.attr}")
    assert found == []


@pytest.mark.spark
def test_what_pyspark_keeps_to_itself_is_what_calve_takes_it_for(spark: SparkSession) -> None:
    def name_of(java: object) -> str:
        return java.getClass().getName()

    engine = session.start()
    java = engine.jvm.java
    assert java.lang.Math.abs(-3) == 3
    assert engine.jvm.java.lang.Math is java.lang.Math, "the JVM searches its jars for it each time"
    java = engine.java_session
    assert name_of(java) == "org.apache.spark.sql.classic.SparkSession"
    assert name_of(engine.hadoop) == "org.apache.hadoop.conf.Configuration"
    assert list(engine.object_array("a", 1)) == ["a", 1]
    frame = engine.data_frame(java.range(3).toDF())
    assert [row[0] for row in frame.collect()] == [0, 1, 2]
    assert "Range" in name_of(pyspark_private.logical_plan(spark.range(3)))
    with pytest.raises(AnalysisException) as raised:
        spark.sql("select * from nowhere.at.all").collect()
    assert isinstance(raised.value, CapturedException)
    assert name_of(pyspark_private.java_exception_of(raised.value)).endswith("AnalysisException")
    process = pyspark_private.jvm_process()
    assert process is not None
    assert process.poll() is None
    assert not engine.has_stopped
