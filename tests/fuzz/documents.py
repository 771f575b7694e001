"""Configurations that are changed as text and as trees, from the examples of the documentation."""

from __future__ import annotations

import copy
import functools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
ODD_TEXTS = (
    *("", " ", "\t", "\x00", "\x01", "\x7f", "\x85", "\u2028", "\ufeff", "\ud800", "\U0010ffff", "\u202e", "ü" * 300),
    *(
        "&a ",
        "*a",
        "*",
        "!!python/object:os.system x",
        "!!binary =",
        "!x",
        "? ",
        "- ",
        "|",
        ">",
        "|+9",
        "%YAML 9.9",
        "---",
        "...",
    ),
    *("[" * 300, "{" * 300, "- " * 300, "<<: *a", "<<: ", '"', "'", "#", "@", "`", ": ", "\n", "\r", "\r\n", "  "),
    *(
        "9" * 5000,
        "1e999",
        "-0",
        "0x" + "f" * 99,
        ".inf",
        ".nan",
        "1_000",
        "2001-01-01",
        "12:30:45",
        "0o17",
        "~",
        "yes",
        "null",
    ),
)
ODD_VALUES = (
    *(
        "${",
        "${}",
        "${/",
        "${/a",
        "${/a/b}",
        "${a}",
        "${env:",
        "${env:}",
        "${env:PORT}",
        "${env:EMPTY}",
        "${env:NOT_SET}",
    ),
    *(
        "${env:NOT_SET:-${env:PORT}}",
        "${file:",
        "${file:}",
        "${file:/nowhere}",
        "${file:/}",
        "${file:\x00}",
        "${" * 500,
        "$" * 99,
    ),
    *(
        '${getMetadata("kafka_topic")}',
        "${getMetadata(}",
        "${{aws_secrets:a:b}}",
        "%{yyyy",
        "%{yyyy.MM}",
        "%{",
        "%{X:Y:Z}",
    ),
    *(
        "/a ==",
        "/a == 1 and",
        "(" * 3000,
        "not " * 3000,
        "/a == 1" + " and /a == 1" * 3000,
        '/a == "',
        "/a in {",
        '/a =~ "("',
    ),
    *(
        "list<" * 3000,
        "struct<a: " * 500,
        "decimal(99,-1)",
        "fixed[99999999999]",
        "map<a>",
        "bucket(0, a)",
        "day()",
        "truncate(-1, a)",
    ),
    *(
        "(" * 500,
        "(a+)+$",
        "(?P<a",
        "[",
        "\\",
        "(?R)",
        "a{99999}",
        "*" * 99,
        "**/" * 99,
        "{a,b}" * 99,
        "s3://",
        "s3:///x",
        "file://",
    ),
    *(
        "5m",
        "-5m",
        "1e9h",
        "9999999999d",
        "64mb",
        "-1b",
        "1e400gb",
        "0.1b",
        ":",
        "host:99999",
        "http://[",
        "é.é",
        "a" * 5000,
    ),
    *(
        None,
        True,
        False,
        0,
        -1,
        1 << 63,
        10**400,
        1.5,
        float("inf"),
        float("nan"),
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"a": {"a": 1}},
    ),
    *(["a"] * 300, [["a"]], [{}], {"1": 1}, {str(n): n for n in range(300)}, b"\xff"),
)
Bomb = Callable[[random.Random], str]


@functools.cache
def examples() -> list[str]:
    """Return the YAML of the documentation."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [block for page in pages for block in FENCE.findall(page.read_text())]


def make(seed: str) -> str:
    """Return the configuration of a seed: always the same one."""
    rnd = random.Random(f"yaml-{seed}")
    if rnd.random() < 0.05:
        return rnd.choice(BOMBS)(rnd)
    text = rnd.choice(examples())
    for _ in range(rnd.choice([0, 1, 1, 1, 2, 3])):
        text = rnd.choice([change_tree, change_tree, change_text])(rnd, text)
    return text


def change_text(rnd: random.Random, text: str) -> str:
    """Change some characters or lines."""
    lines = text.split("\n")
    at, line = rnd.randrange(len(text) + 1), rnd.randrange(len(lines))
    odd = rnd.choice(ODD_TEXTS)
    match rnd.randrange(8):
        case 0:
            return text[:at] + odd + text[at:]
        case 1:
            return text[:at] + text[at + rnd.choice([1, 5, 50]) :]
        case 2:
            lines.insert(line, lines[rnd.randrange(len(lines))])
        case 3:
            del lines[line]
        case 4:
            lines[line] = rnd.choice([" ", "  ", "\t", "    "]) + lines[line]
        case 5:
            lines[line] = lines[line].lstrip()
        case 6:
            lines[line] = lines[line].partition(":")[0] + ": " + odd
        case 7:
            other = rnd.choice(examples()).split("\n")
            lines[line:line] = other[: rnd.randrange(len(other))]
    return "\n".join(lines)


def change_tree(rnd: random.Random, text: str) -> str:
    """Change a value, a key or a branch; a text that is no YAML any more is changed as text."""
    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError, TypeError, OverflowError):
        return change_text(rnd, text)
    places = list(_places(tree))
    if not places:
        return change_text(rnd, text)
    _change_place(rnd, *rnd.choice(places), places)
    try:
        return yaml.safe_dump(
            tree, allow_unicode=rnd.random() < 0.5, sort_keys=False, default_flow_style=rnd.random() < 0.2
        )
    except (ValueError, RecursionError):  # a number of more digits than Python prints
        return change_text(rnd, text)


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting and len(found) < 5000:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        found += [(each, key) for key in keys]
        waiting += [each[key] for key in keys]
    return found


def _change_place(rnd: random.Random, parent: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    value = parent[key]
    match rnd.randrange(7):
        case 0 | 1 | 2:
            parent[key] = copy.deepcopy(rnd.choice(ODD_VALUES))
        case 3 if isinstance(value, str):
            at = rnd.randrange(len(value) + 1)
            parent[key] = value[:at] + str(rnd.choice(ODD_VALUES))[:500] + value[at:]
        case 4:
            other, name = rnd.choice(places)
            parent[key] = other[name] if rnd.random() < 0.3 else copy.deepcopy(other[name])  # the same: an alias
        case 5 if isinstance(parent, dict):
            parent[
                rnd.choice(
                    [
                        "unknown",
                        key.upper() if isinstance(key, str) else key,
                        f"{key} ",
                        "",
                        1,
                        None,
                        "a.b",
                        "a/b",
                        "ü" * 99,
                    ]
                )
            ] = value
        case 6:
            parent[key] = [copy.deepcopy(value) for _ in range(rnd.choice([2, 50]))]
        case _:
            del parent[key]


def _laughs(rnd: random.Random) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, rnd.choice([3, 9, 30]))]
    return "\n".join(lines)


def _ladder(rnd: random.Random) -> str:
    """Each step is an alias of the one before, some levels deeper."""
    depth, steps = rnd.choice([1, 30, 38]), rnd.choice([5, 40, 600])
    lines = ["a0: &a0 x", *(f"a{n}: &a{n} {'[' * depth}*a{n - 1}{']' * depth}" for n in range(1, steps))]
    key = rnd.choice(["route", "sink", "processor", "source: {http: {path: *a0}}\n  route"])
    return "\n".join([*lines, f"p:\n  {key}: *a{steps - 1}"])


def _many_keys(rnd: random.Random) -> str:
    count, where = (
        rnd.choice([3_000, 40_000]),
        rnd.choice(["{}", "p: {}", "p: {{source: {{http: {}}}, sink: [stdout: ]}}"]),
    )
    return where.format("{" + ", ".join(f"prt{n}: {n}" for n in range(count)) + "}")


def _long_keys(rnd: random.Random) -> str:
    head = "".join(f"{' ' * n}? {'k' * rnd.choice([1000, 20_000])}\n{' ' * n}:\n" for n in range(1, 30))
    return f"p:\n{head}{' ' * 31}[{', '.join(['1'] * 20_000)}]"


def _many_pipelines(rnd: random.Random) -> str:
    count = rnd.choice([200, 2000])
    sink = rnd.choice(["iceberg: {table_identifier: a.b}", "nothing: ", "pipeline: {name: p1}"])
    return "\n".join(f"p{n}: {{source: {{http: {{port: {n}}}}}, sink: [{sink}]}}" for n in range(count))


def _many_items(rnd: random.Random) -> str:
    item = rnd.choice(
        [
            "{r: '/a == 1'}",
            "{r: '/a =='}",
            "x",
            "{drop_events: {drop_when: '/a == 1'}}",
            "{iceberg: {table_identifier: a.b}}",
        ]
    )
    part = rnd.choice(["route", "processor", "sink"])
    rest = "" if part == "sink" else ", sink: [{iceberg: {table_identifier: a.b}}]"
    return f"p: {{source: {{http: }}, {part}: [{', '.join([item] * rnd.choice([500, 4000]))}]{rest}}}"


def _deep(rnd: random.Random) -> str:
    opening, closing = rnd.choice([("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")])
    depth = rnd.choice([30, 41, 1000, 100_000])
    return f"p: {opening * depth}x{closing * depth}"


BOMBS = (_laughs, _ladder, _many_keys, _long_keys, _many_pipelines, _many_items, _deep)
