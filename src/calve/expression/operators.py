"""The operators: each compiles values to a value.

Boolean operators are false if an operand has the wrong kind; arithmetic is then a fault, which fails the complete
expression. `and` and `or` always evaluate both sides.
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
            # `or` is false if a side is not a boolean, even if the other one is true
            sql = f"({sql} AND {left.boolean} IS NOT NULL AND {right.boolean} IS NOT NULL)"
            sql = f"coalesce({sql}, false)"
        return flag(sql, *left.fault, *right.fault)

    return combine


def _not(operand: Value) -> Value:
    sql = "false" if operand.boolean is None else f"coalesce(NOT {operand.boolean}, false)"
    return flag(sql, *operand.fault)


def _numbers(operator: str, left: Value, right: Value) -> str:
    """Compare numbers by value: as DOUBLE, but exactly if both are integers; NULL for other kinds.

    Data Prepper compares fractions in 32 bits; Calve compares in 64 bits, so that 0.1 and 0.1000000001 differ.
    """
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
        match = f"regexp_full_match({left.string}, {right.string})"
        # a pattern from the event may be invalid
        sql = f"coalesce({negation}{match if right.constant else f'try({match})'}, false)"
    return flag(sql, *left.fault, *right.fault)


def _faults(*operands: Value) -> tuple[str, ...]:
    """Return the faults of operands, without those of a wrong kind: then the result is NULL anyway."""
    return tuple(fault for operand in operands for fault in operand.fault if fault != _absent(operand))


def _absent(operand: Value) -> str:
    return f"({' AND '.join(f'{view} IS NULL' for view in (operand.number, operand.string) if view) or 'true'})"


def _computed(double: str, whole: str | None, *operands: Value) -> Value:
    result = number(double, whole, *_faults(*operands))
    return result.failing(_absent(result))


def _impossible(*operands: Value) -> Value:
    return number("NULL::DOUBLE", None, *_faults(*operands), "true")


def _arithmetic(operator: str) -> Callable[[Value, Value], Value]:
    def calculate(left: Value, right: Value) -> Value:
        if left.number is None or right.number is None:
            return _impossible(left, right)
        whole = None
        if left.integer is not None and right.integer is not None:
            whole = f"try({left.integer} {operator} {right.integer})"  # beyond 64 bits the result is a DOUBLE
        return _computed(f"({left.number} {operator} {right.number})", whole, left, right)

    return calculate


def _divide(left: Value, right: Value) -> Value:
    if left.number is None or right.number is None:
        return _impossible(left, right)
    return _computed(f"({left.number} / nullif({right.number}, 0))", None, left, right)


def _remainder(left: Value, right: Value) -> Value:
    if left.integer is None or right.integer is None:
        return _impossible(left, right)
    whole = f"try({left.integer} % nullif({right.integer}, 0))"
    return _computed(f"({whole})::DOUBLE", whole, left, right)


def _negative(operand: Value) -> Value:
    if operand.number is None:
        return _impossible(operand)
    whole = None if operand.integer is None else f"try(- {operand.integer})"
    return _computed(f"(- {operand.number})", whole, operand)


def _add(left: Value, right: Value) -> Value:
    """Add two numbers, or join two strings; the kinds may differ from row to row."""
    total = _arithmetic("+")(left, right)
    if left.string is None or right.string is None:
        return total
    joined = text(f"({left.string} || {right.string})", *_faults(left, right))
    if left.number is None or right.number is None:
        return joined.failing(_absent(joined))
    both = Value(
        f"coalesce({joined.json}, {total.json})",
        f"coalesce({joined.text}, {total.text})",
        total.number,
        total.integer,
        joined.string,
        fault=joined.fault,
    )
    return both.failing(_absent(both))


def member(operand: Value, members: list[Value], negated: bool) -> Value:
    """Compile `in` and `not in`: members have one kind, and it must match (1 is not in {1.0}); mixed kinds fail."""
    kinds = {_kind(value) for value in members}
    if len(kinds) > 1:
        return flag("false", *operand.fault, "true")
    kind = kinds.pop()
    if kind == "null":
        sql = operand.is_null
    elif kind != "float":
        sql = _among(operand.json, [value.json for value in members])
    elif operand.number is None:
        sql = "false"
    else:
        fraction = "" if operand.integer is None else f"{operand.integer} IS NULL AND "
        sql = f"({fraction}{_among(operand.number, [str(value.number) for value in members])})"
    return flag(f"(NOT {sql})" if negated else sql, *operand.fault)


def _among(view: str, listed: list[str]) -> str:
    # DuckDB expands IN with up to 4 values, and each comparison parses the event; expanded here, the scope sees that
    if len(listed) <= 4:
        return f"coalesce({' OR '.join(f'{view} = {literal}' for literal in listed)}, false)"
    return f"coalesce({view} IN ({', '.join(listed)}), false)"


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
    """Return whether a value is of a type; null has no type.

    A JSON number with a fraction is a double (Data Prepper reads it as a float, which has no type), an integer beyond
    64 bits a big_decimal.
    """
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
