"""Random pipelines: a source, and sinks of tables with any options that go together."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzz.generate import Field, Recipe

PIPELINE = "p"
CASED = ('"A"', '"é"', '"x.y"', '"x"')
ODD_KINDS = (
    *CASED,
    '""',
    '" "',
    '"a/b"',
    '".."',
    '"a`b"',
    '"a\\"b"',
    '"\\u0000"',
    '"\\ud800"',
    f'"{"n" * 300}"',
    '"..a"',
)
NO_TEXT_KINDS = ("null", "5", "true", '{"a":1}', "[]", "1e400")
ROUTES = {"only_a": '/kind == "a"', "only_b": '/kind == "b"'}
TYPES = {
    "long": ["long", "int", "string", "double", "decimal(20,2)", "float"],
    "double": ["double", "float", "string", "decimal(38,10)", "long"],
    "money": ["decimal(12,2)", "decimal(9,3)", "double", "string"],
    "text": ["string", "binary", "uuid", "long"],
    "stamp": ["timestamptz", "timestamp", "string", "date"],  # Spark reads no table with nanoseconds or times
    "day": ["date", "timestamp", "timestamptz", "string"],
    "flag": ["boolean", "string"],
    "millis": ["timestamptz", "timestamp", "long", "date"],
    "struct": [
        "struct<a: long, b: string>",
        "struct<a: int, C: string, d: list<long>>",
        "string",
        "map<string, string>",
        "variant",
    ],
    "list": ["list<string>", "list<long>", "list<double>", "string", "variant"],
    "objects": ["list<struct<a: long, b: string>>", "list<map<string, string>>", "string", "variant"],
    "map": ["map<string, long>", "map<string, string>", "map<string, decimal(20,0)>", "string", "variant"],
    "any": ["string", "variant", "long", "double", "timestamptz", "boolean", "list<string>", "struct<a: string>"],
}
PARTITIONS = {
    "stamp": ["day({})", "hour({})", "month({})", "year({})"],
    "day": ["day({})", "year({})"],
    "long": ["bucket(4, {})", "truncate(10, {})", "{}"],
    "text": ["truncate(3, {})", "bucket(2, {})", "{}"],
    "flag": ["{}"],
}
BY_SCHEMA = {"stamp": ["day", "hour", "month", "year", "identity"], "text": ["truncate[2]", "bucket[3]", "identity"]}
BY_SCHEMA |= {"day": ["day", "identity"], "long": ["bucket[4]", "truncate[10]", "identity"], "millis": ["identity"]}
BY_SCHEMA |= {"money": ["truncate[5]", "bucket[2]", "identity"], "flag": ["identity"]}


@dataclass(frozen=True)
class Sink:
    """One sink of tables.

    Attributes:
        namespace: Of its tables, and of no others.
        options: As in the YAML.
        route: The only route that it takes; empty: every event.
        exclude: Its `exclude_keys`.
        include: Its `include_keys`.
    """

    namespace: str
    options: dict[str, Any]
    route: str = ""
    exclude: Sequence[str] = ()
    include: Sequence[str] = ()

    @property
    def changes(self) -> bool:
        """Return whether rows are updated and deleted by their key."""
        return bool(self.options.get("upsert") or self.options.get("operation"))

    @property
    def given_types(self) -> dict[str, str]:
        """Return the types that columns are made with, where the options say so."""
        return given_types(self.options)

    def rejects_misfits(self, column: str) -> bool:
        """Return whether a value that does not fit a column makes its event a dead letter."""
        is_given = "schema" in self.options or column in self.given_types
        return self.options.get("on_type_mismatch", "null" if is_given else "dlq") == "dlq"

    def entry(self) -> dict[str, Any]:
        """Return the sink as it stands in the YAML."""
        around = {"exclude_keys": list(self.exclude), "include_keys": list(self.include)}
        around |= {"routes": [self.route]} if self.route else {}
        return {"iceberg": {**self.options, **{key: value for key, value in around.items() if value}}}


@dataclass(frozen=True)
class Setup:
    """One pipeline, and what its events are like.

    Attributes:
        source: `ndjson`, `ndjson.gz`, `json`, `csv`, `parquet`, `http` or `kafka`.
        sinks: Where its events go.
        recipe: How its events are made.
        marker: Fields of the one ordinary event of each batch.
        sizes: How many events the batches have.
    """

    source: str
    sinks: list[Sink]
    recipe: Recipe
    marker: dict[str, Any]
    sizes: list[int] = field(default_factory=list)

    def configuration(self, source: dict[str, Any]) -> dict[str, Any]:
        """Return the YAML's contents."""
        routes = [{name: condition} for name, condition in ROUTES.items()]
        routed = {"route": routes} if any(sink.route for sink in self.sinks) else {}
        return {PIPELINE: {"source": source, **routed, "sink": [sink.entry() for sink in self.sinks]}}


def given_types(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the types that a sink's options give to columns."""
    columns = options.get("schema", {}).get("columns", ())
    return {column["name"]: column["type"] for column in columns} | options.get("column_types", {})


def random_setup(rnd: random.Random, kinds: Sequence[str], sources: Sequence[str]) -> Setup:
    """Return a setup whose fields hold some of these kinds and whose events come from one of these sources."""
    names = rnd.sample(["city", "amount", "total", "user", "tags", "items", "note", "zip", "meta", "n1"], 8)
    fields = [Field("ts", "stamp"), *(Field(name, rnd.choice(kinds)) for name in names[: rnd.randint(1, 5)])]
    late = [Field(name, rnd.choice(kinds)) for name in names[5 : 5 + rnd.randint(0, 3)]]
    count = rnd.choice([1, 1, 1, 1, 2, 3])
    sinks = [_sink(rnd, f"s{number}", fields, late, count > 1) for number in range(count)]
    source = rnd.choice(sources)
    for sink in sinks if source == "parquet" else ():
        sink.options.setdefault("on_type_mismatch", "dlq")  # the default depends on whether the file's types are taken
    return Setup(
        source=source,
        sinks=sinks,
        recipe=_recipe(rnd, fields, late, sinks),
        marker={"kind": "a", "k": 1, "ts": "2026-03-04T05:06:07Z", "op": ""},
        sizes=[rnd.choice([3, 10, 30, 80, 300]) for _ in range(rnd.choice([2, 2, 3]))],
    )


def _recipe(rnd: random.Random, fields: list[Field], late: list[Field], sinks: list[Sink]) -> Recipe:
    changes = any(sink.changes for sink in sinks)
    dynamic = any("${" in sink.options["table_identifier"] for sink in sinks)
    keys = rnd.choice([[f'"k{n}"' for n in range(8)], [*map(str, range(9)), '"1"', "1.0", "1e0"]]) if changes else []
    if keys and rnd.random() < 0.3:
        keys = [*keys, "null", '""', '{"a":1}', '"\\ud800"', "1.5", "9" * 30]
    kinds = ['"a"', '"a"', '"b"', '"c"']
    if rnd.random() < 0.3:
        kinds += [rnd.choice(ODD_KINDS) for _ in range(3)] if dynamic else list(CASED)
        kinds += [] if changes and dynamic else [rnd.choice(NO_TEXT_KINDS)]
    words = ['"insert"', '"c"', '"U"', '"update"', '"d"', '"delete"', "null", '""'] if changes else []
    return Recipe(
        fields=fields,
        late=late,
        kinds=kinds,
        keys=keys,
        words=[*words, '"what"', "5", '"update_before"'] if words and rnd.random() < 0.3 else words,
        mixed=rnd.choice([0, 0, 0.02, 0.3]),
        odd=rnd.choice([0, 0.03, 0.03, 0.1, 0.5]),
        mutated=rnd.choice([0, 0, 0.05, 0.5]),
    )


def _sink(rnd: random.Random, namespace: str, fields: list[Field], late: list[Field], several: bool) -> Sink:
    options: dict[str, Any] = {"auto_create": True, "schema_evolution": rnd.random() < 0.75}
    options["table_identifier"] = f"{namespace}.t"
    version = rnd.choice(["", "2", "3"])
    if version:
        options["table_properties"] = {"format-version": version}
    if rnd.random() < 0.35:
        options["schema"] = _schema(rnd, fields)
    else:
        if rnd.random() < 0.35:
            options["table_identifier"] = rnd.choice([f"{namespace}.${{/kind}}", f"{namespace}.t_${{/kind}}"])
        if rnd.random() < 0.4:
            options["partition_by"] = _partitions(rnd, fields)
        if rnd.random() < 0.3:
            options["column_types"] = {each.name: rnd.choice(TYPES[each.kind]) for each in [*fields[1:], *late]}
    if rnd.random() < 0.4:
        options |= _changes(rnd)
    options |= _others(rnd, namespace)
    if "variant" in given_types(options).values():
        options["table_properties"] = {"format-version": "3"}
        options.pop("partial_updates", None)
    if given_types(options).get("ts") == "string":
        options.pop("event_time", None)
    names = [each.name for each in fields[1:]]
    exclude = rnd.sample(names, 1) if rnd.random() < 0.1 else []
    include = ["id", "kind", "k", "op", "ts", *names[:1], "late", "Id"] if not exclude and rnd.random() < 0.05 else []
    return Sink(
        namespace, options, rnd.choice(["only_a", "only_b", "_default", ""]) if several else "", exclude, include
    )


def _changes(rnd: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"identifier_columns": ["k"]}
    options |= rnd.choice([{"upsert": True}, {"operation": "${/op}"}, {"operation": "${/op}", "upsert": True}])
    options["write_mode"] = rnd.choice(["equality-delete", "merge-on-read", "copy-on-write"])
    if options["write_mode"] != "equality-delete" and rnd.random() < 0.3:
        options["partial_updates"] = "keep"
    return options


def _others(rnd: random.Random, namespace: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if rnd.random() < 0.5:
        options["on_type_mismatch"] = rnd.choice(["null", "dlq"])
    if rnd.random() < 0.2:
        options["case_insensitive"] = True
    if rnd.random() < 0.15:
        options["dlq"] = rnd.choice([{"table": f"letters_{namespace}.rejected"}, f"letters-{namespace}"])
    if rnd.random() < 0.1:
        options["branch"] = "audit"
    if rnd.random() < 0.2:
        options["distribution"] = rnd.choice(["none", "hash"])
    if rnd.random() < 0.2:
        options["max_batch_bytes"] = rnd.choice(["2kb", "20kb"])
    if rnd.random() < 0.1:
        options["max_open_writers"] = 1
    if rnd.random() < 0.1:
        options["event_time"] = "ts"
    if rnd.random() < 0.15:
        options["timestamp_unit"] = rnd.choice(["s", "us", "ns", "auto"])
    return options


def _schema(rnd: random.Random, fields: list[Field]) -> dict[str, Any]:
    columns = [{"name": "id", "type": "string"}, {"name": "kind", "type": "string", "required": rnd.random() < 0.2}]
    columns.append({"name": "k", "type": rnd.choice(["string", "long", "int", "decimal(9,2)"])})
    columns.append({"name": "ts", "type": rnd.choice(["timestamptz", "timestamp", "string"])})
    for each in fields[1:]:
        kind = rnd.choice(TYPES[each.kind] if rnd.random() < 0.9 else rnd.choice(list(TYPES.values())))
        columns.append({"name": each.name, "type": kind})
    if rnd.random() < 0.3:
        columns.append({"name": "fits", "type": rnd.choice(["binary", "fixed[3]"])})
    parts = [
        {"column": each.name, "transform": rnd.choice(BY_SCHEMA[each.kind])}
        for each, column in zip(fields, columns[3:])
        if each.kind in BY_SCHEMA and column["type"] == TYPES[each.kind][0] and rnd.random() < 0.3
    ]
    return {"columns": columns, "partition_spec": parts[:2]} if parts else {"columns": columns}


def _partitions(rnd: random.Random, fields: list[Field]) -> list[str]:
    found = ["kind"] if rnd.random() < 0.3 else []
    field = fields[0]
    found.append(rnd.choice(PARTITIONS[field.kind]).format(field.name))
    return [each for each in found if rnd.random() < 0.8] or ["bucket(3, id)"]
