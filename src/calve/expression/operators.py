"""The operators, each from values to a value.

Operators that yield a boolean are false where an operand is of the wrong kind; arithmetic there is a fault, which makes
the whole expression fail. `and` and `or` look at both sides always.
"""

from __future__ import annotations

from collections.abc import Callable

from calve.expression.value import Value, flag, number, text

__all__ = ["BINARY", "UNARY", "member", "type_of"]


def _both(operator: str) -> Callable[[Value, Value], Value]:
    def combine(left: Value, right: Value) -> Value:
        if left.boolean is None or right.boolean is None:
            return flag("false", *left.fault, *right.fault)
        sql = f"({left.boolean} {operator} {right.boolean})"
        if left.nullable or right.nullable:
            # a side that is no boolean makes `or` false even beside true
            sql = f"({sql} AND {left.boolean} IS NOT NULL AND {right.boolean} IS NOT NULL)"
            sql = f"coalesce({sql}, false)"
        return flag(sql, *left.fault, *right.fault)

    return combine


def _not(operand: Value) -> Value:
    sql = "false" if operand.boolean is None else f"coalesce(NOT {operand.boolean}, false)"
    return flag(sql, *operand.fault)


def _numbers(operator: str, left: Value, right: Value) -> str:
    """Compare two numbers by value: as DOUBLE, but exactly where both are whole and may be large; NULL for other kinds."""
    sql = f"{left.number} {operator} {right.number}"
    if left.integer is None or right.integer is None or left.small or right.small:
        return f"({sql})"
    whole = f"{left.integer} {operator} {right.integer}"
    return f"coalesce({whole}, {sql})"


def _ordered(operator: str) -> Callable[[Value, Value], Value]:
    def compare(left: Value, right: Value) -> Value:
        sql = "false"
        if left.number is not None and right.number is not None:
            sql = f"coalesce({_numbers(operator, left, right)}, false)"
        return flag(sql, *left.fault, *right.fault)

    return compare


def _equality(left: Value, right: Value) -> str:
    if left.constant:
        left, right = right, left
    numeric = left.number is not None and right.number is not None
    parts = [f"coalesce({_numbers('=', left, right)}, false)"] if numeric else []
    if right.constant:
        if right.number is None:
            parts = [f"coalesce({left.json} = {right.json}, false)"]
    elif right.json == "NULL::VARCHAR":
        parts = [left.is_null]
    else:
        parts.append(f"coalesce({left.json}, 'null') = coalesce({right.json}, 'null')")
    return f"({' OR '.join(parts)})" if parts else "false"


def _equal(left: Value, right: Value) -> Value:
    return flag(_equality(left, right), *left.fault, *right.fault)


def _unequal(left: Value, right: Value) -> Value:
    return flag(f"(NOT {_equality(left, right)})", *left.fault, *right.fault)


def _matches(left: Value, right: Value) -> Value:
    return _regex("", left, right)


def _differs(left: Value, right: Value) -> Value:
    return _regex("NOT ", left, right)


def _regex(negation: str, left: Value, right: Value) -> Value:
    sql = "false"
    if left.string is not None and right.string is not None:
        found = f"regexp_full_match({left.string}, {right.string})"
        # a pattern that comes from the event may be wrong
        sql = f"coalesce({negation}{found if right.constant else f'try({found})'}, false)"
    return flag(sql, *left.fault, *right.fault)


def _arithmetic(operator: str) -> Callable[[Value, Value], Value]:
    def calculate(left: Value, right: Value) -> Value:
        fault = (*left.fault, *right.fault)
        if left.number is None or right.number is None:
            return number("NULL::DOUBLE", None, *fault, "true")
        double = f"({left.number} {operator} {right.number})"
        whole = None
        if left.integer is not None and right.integer is not None:
            whole = f"try({left.integer} {operator} {right.integer})"  # beyond 64 bits it goes on as DOUBLE
        return number(double, whole, *fault, f"({double} IS NULL)")

    return calculate


def _divide(left: Value, right: Value) -> Value:
    fault = (*left.fault, *right.fault)
    if left.number is None or right.number is None:
        return number("NULL::DOUBLE", None, *fault, "true")
    double = f"({left.number} / nullif({right.number}, 0))"
    return number(double, None, *fault, f"({double} IS NULL)")


def _remainder(left: Value, right: Value) -> Value:
    fault = (*left.fault, *right.fault)
    if left.integer is None or right.integer is None:
        return number("NULL::DOUBLE", None, *fault, "true")
    whole = f"({left.integer} % nullif({right.integer}, 0))"
    return number(f"{whole}::DOUBLE", whole, *fault, f"({whole} IS NULL)")


def _negative(operand: Value) -> Value:
    if operand.number is None:
        return number("NULL::DOUBLE", None, *operand.fault, "true")
    double = f"(- {operand.number})"
    whole = None if operand.integer is None else f"try(- {operand.integer})"
    return number(double, whole, *operand.fault, f"({double} IS NULL)")


def _add(left: Value, right: Value) -> Value:
    """Add two numbers, or join two strings; what they are may differ from row to row."""
    joined = None
    if left.string is not None and right.string is not None:
        joined = text(f"({left.string} || {right.string})", *left.fault, *right.fault)
    total = _arithmetic("+")(left, right)
    if joined is None:
        return total
    if left.number is None or right.number is None:
        return joined.failing(f"({joined.string} IS NULL)")
    shown = f"coalesce({joined.text}, {total.text})"
    return Value(
        f"coalesce({joined.json}, {total.json})",
        shown,
        total.number,
        total.integer,
        joined.string,
        fault=(*left.fault, *right.fault, f"({joined.string} IS NULL AND {total.number} IS NULL)"),
    )


def member(operand: Value, members: list[Value], negated: bool) -> Value:
    """`in` and `not in`: members of one kind, compared with their kind (1 is not in {1.0}); a mixed set is a fault."""
    kinds = {_kind(value) for value in members}
    if len(kinds) > 1:
        return flag("false", *operand.fault, "true")
    kind, listed = kinds.pop(), ", ".join(value.number if _kind(value) == "float" else value.json for value in members)  # type: ignore[misc]
    if kind == "null":
        sql = operand.is_null
    elif kind != "float":
        sql = f"coalesce({operand.json} IN ({listed}), false)"
    elif operand.number is None:
        sql = "false"
    else:
        whole = "" if operand.integer is None else f" AND {operand.integer} IS NULL"
        sql = f"coalesce({operand.number} IN ({listed}){whole}, false)"
    return flag(f"(NOT {sql})" if negated else f"({sql})", *operand.fault)


def _kind(value: Value) -> str:
    if value.integer is not None:
        return "integer"
    if value.number is not None:
        return "float"
    if value.boolean is not None:
        return "boolean"
    return "null" if value.string is None else "string"


_TYPES = {
    "string": "starts_with({0}, '\"')",
    "boolean": "{0} IN ('true', 'false')",
    "map": "starts_with({0}, '{{')",
    "array": "starts_with({0}, '[')",
    "integer": "try_cast({0} AS INTEGER)::VARCHAR = {0}",
    "long": "try_cast({0} AS BIGINT)::VARCHAR = {0} AND try_cast({0} AS INTEGER) IS NULL",
    "double": "try_cast({0} AS DOUBLE) IS NOT NULL AND regexp_matches({0}, '[.eE]')",
    "big_decimal": "regexp_full_match({0}, '-?[0-9]+') AND try_cast({0} AS BIGINT) IS NULL",
}


def type_of(operand: Value, kind: str) -> Value:
    """`typeof`: a JSON number with a fraction is a double (Data Prepper makes it a float, of which no type is), a whole number
    beyond 64 bits a big_decimal; null has no type."""
    return flag(f"coalesce({_TYPES[kind].format(operand.json)}, false)", *operand.fault)


UNARY: dict[str, Callable[[Value], Value]] = {"not": _not, "-": _negative}
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "and": _both("AND"),
    "or": _both("OR"),
    "==": _equal,
    "!=": _unequal,
    "=~": _matches,
    "!~": _differs,
    **{operator: _ordered(operator) for operator in ("<", "<=", ">", ">=")},
    **{operator: _arithmetic(operator) for operator in "-*"},
    "+": _add,
    "/": _divide,
    "%": _remainder,
}
