"""Random expressions over random events, against an evaluator that is written from the language's description only."""

import json
import math
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from calve.expression import compile_condition, compile_format
from kit.examples import examples

FAILED = object()


class Failure(Exception):
    pass


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def kind(value):
    return "number" if is_number(value) else type(value).__name__


def equal(left, right):
    if kind(left) == kind(right) == "list":
        return len(left) == len(right) and all(map(same, left, right))
    if kind(left) == kind(right) == "dict":
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return kind(left) == kind(right) and left == right


def same(left, right):
    """Inside lists and maps 1 and 1.0 differ, as do maps in another order: their text is compared."""
    return type(left) is type(right) and equal(left, right)


def arithmetic(operator, left, right):
    if operator == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if not (is_number(left) and is_number(right)):
        raise Failure
    if operator == "/":
        if right == 0:
            raise Failure
        return float(left) / float(right)
    if operator == "%":
        if isinstance(left, float) or isinstance(right, float) or right == 0:
            raise Failure
        return int(math.fmod(left, right))
    result = {"+": left + right, "-": left - right, "*": left * right}[operator]
    return float(result) if isinstance(result, int) and abs(result) >= 2**63 else result


def ordered(operator, left, right):
    if not (is_number(left) and is_number(right)):
        return False
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]


def find(event, path):
    for step in path.strip("/").split("/"):
        if isinstance(event, dict):
            event = event.get(step)
        elif isinstance(event, list) and re.fullmatch("0|[1-9][0-9]*", step) and int(step) < len(event):
            event = event[int(step)]
        else:
            return None
    return event


TYPES = {
    "integer": lambda value: kind(value) == "number" and isinstance(value, int) and -(2**31) <= value < 2**31,
    "double": lambda value: isinstance(value, float),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "map": lambda value: isinstance(value, dict),
}


def evaluate(tree, event):
    operation, *operands = tree
    if operation == "literal":
        return operands[0]
    if operation == "pointer":
        return find(event, operands[0])
    if operation == "typeof":
        return TYPES[operands[1]](find(event, operands[0]))
    if operation in ("in", "not in"):
        value = evaluate(operands[0], event)
        found = any(type(value) is type(each) and value == each for each in operands[1])
        return found == (operation == "in")
    values = [evaluate(operand, event) for operand in operands]
    if operation == "not":
        return not values[0] if isinstance(values[0], bool) else False
    if operation == "negative":
        if not is_number(values[0]):
            raise Failure
        return -values[0]
    if operation == "length":
        if values[0] is None:
            return None
        if not isinstance(values[0], (str, list, dict)):
            raise Failure
        return len(values[0])
    if operation == "contains":
        if any(value is not None and not isinstance(value, str) for value in values):
            raise Failure
        return None not in values and values[1] in values[0]
    return binary(operation, *values)


def binary(operation, left, right):
    if operation in ("and", "or"):
        if not (isinstance(left, bool) and isinstance(right, bool)):
            return False
        return left and right if operation == "and" else left or right
    if operation in ("==", "!="):
        return equal(left, right) == (operation == "==")
    if operation in ("<", "<=", ">", ">="):
        return ordered(operation, left, right)
    return arithmetic(operation, left, right)


def written(tree):
    operation, *operands = tree
    if operation == "literal":
        return json.dumps(operands[0], ensure_ascii=False)
    if operation == "pointer":
        return operands[0]
    if operation == "typeof":
        return f"({operands[0]} typeof {operands[1]})"
    if operation in ("in", "not in"):
        members = ", ".join(json.dumps(each, ensure_ascii=False) for each in operands[1])
        return f"({written(operands[0])} {operation} {{{members}}})"
    if operation == "not":
        return f"(not {written(operands[0])})"
    if operation == "negative":
        return f"(-{written(operands[0])})"
    if operation in ("length", "contains"):
        return f"{operation}({', '.join(map(written, operands))})"
    return f"({written(operands[0])} {operation} {written(operands[1])})"


STRINGS = st.sampled_from(["", "x", "xy", "12", "true", "null", "it's", "é😀", "[1]"])
NUMBERS = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**62]),
    st.sampled_from([0.5, -2.0, 1.0, 2.5, 12345.678, 0.1, 1500.0]),
)
SCALARS = st.one_of(NUMBERS, STRINGS, st.booleans(), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "0"]), inner, max_size=3),
    max_leaves=5,
)
EVENTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3)
POINTERS = st.sampled_from(["/a", "/b", "/c", "/a/b", "/a/0", "/b/1", "/c/a/0"])
FIELDS = st.tuples(st.just("pointer"), POINTERS)
LITERALS = st.tuples(st.just("literal"), SCALARS.filter(lambda value: not is_number(value) or value >= 0))
SETS = st.one_of(
    st.lists(st.integers(-3, 12), min_size=1, max_size=6),
    st.lists(STRINGS, min_size=1, max_size=6),
    st.lists(st.sampled_from([0.5, 1.0, 2.5, -2.0]), min_size=1, max_size=6),
    st.lists(st.booleans(), min_size=1, max_size=2),
)
TEXTS = FIELDS | st.tuples(st.just("literal"), STRINGS)


def extended(inner):
    two = (inner, inner)
    return st.one_of(
        st.tuples(st.sampled_from(["and", "or", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"]), *two),
        st.tuples(st.sampled_from(["not", "negative"]), inner),
        st.tuples(st.sampled_from(["in", "not in"]), inner, SETS),
        st.tuples(st.just("typeof"), POINTERS, st.sampled_from(sorted(TYPES))),
        st.tuples(st.just("length"), TEXTS),
        st.tuples(st.just("contains"), TEXTS, TEXTS),
    )


TREES = st.recursive(FIELDS | LITERALS, extended, max_leaves=8)
CONDITIONS = st.one_of(
    st.tuples(st.sampled_from(["==", "!=", "<", ">=", "and", "or"]), TREES, TREES), st.tuples(st.just("not"), TREES)
)


def result(tree, event):
    try:
        return evaluate(tree, event)
    except (Failure, OverflowError):
        return FAILED


@settings(max_examples=examples(40), deadline=None)
@given(CONDITIONS, st.lists(EVENTS, min_size=2, max_size=8))
def test_conditions_agree_with_the_oracle(evaluator, tree, events):
    sql = compile_condition(written(tree)).sql
    expected = [result(tree, event) is True for event in events]
    assert evaluator.run(sql, tuple(events), {}) == expected


def shown(value):
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@settings(max_examples=examples(50), deadline=None)
@given(st.one_of(FIELDS, extended(TREES)), st.lists(EVENTS, min_size=2, max_size=8))
def test_format_strings_agree_with_the_oracle(evaluator, tree, events):
    text = written(tree)
    if "}" in text:  # a part ends there, so sets cannot stand in it
        return
    found = evaluator.run(compile_format(f"<${{{text}}}>").sql, tuple(events), {})
    for event, has in zip(events, found, strict=True):
        value = result(tree, event)
        if value is FAILED:
            assert has is None
        elif isinstance(value, float):
            assert math.isclose(float(has[1:-1]), value)
        else:
            assert has == f"<{shown(value)}>"


@given(st.text(max_size=30))
def test_any_text_compiles_or_is_a_syntax_error(text):
    for compiled in (compile_condition, compile_format):
        try:
            compiled(text)
        except Exception as error:
            assert type(error).__name__ == "ExpressionSyntaxError", repr(error)  # noqa: PT017
