"""Data Prepper's expression language, compiled to DuckDB SQL."""

from calve.expression.condition import Condition, compile_condition
from calve.expression.errors import ExpressionSyntaxError
from calve.expression.format import Format, compile_format, compile_value

__all__ = ["Condition", "ExpressionSyntaxError", "Format", "compile_condition", "compile_format", "compile_value"]
