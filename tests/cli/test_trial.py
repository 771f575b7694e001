from __future__ import annotations

import json
import sys

import pytest

from .conftest import Shell

YAML = """\
one:
  source:
    http: {}
  sink:
    - iceberg:
        table_identifier: shop.${/kind}
        auto_create: true
"""
EVENTS = '{"kind": "a", "n": 1}\n\n{"kind": "\\u001b[31m/"}\nno\n'


@pytest.fixture(autouse=True)
def _own_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "calve.cli.trial", raising=False)


def test_the_fate_of_each_event_is_told_then_the_tables_then_a_summary(shell: Shell) -> None:
    result = shell("try", shell.write("a.yaml", YAML), shell.write("b.ndjson", EVENTS))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "line 1: shop.a"
    assert lines[1].startswith("line 3: rejected, BAD_TABLE_NAME in table_identifier: ")
    assert lines[2].startswith("line 4: rejected, MALFORMED: ")
    assert lines[4:7] == ["shop.a: 1 row, would be created", "  CREATE TABLE lakehouse.shop.a (", "    kind string,"]
    assert lines[-1] == "3 events: 1 row for 1 table, 2 rejected. Nothing was written."
    assert "\x1b" not in result.stdout


def test_of_several_sinks_it_is_told_which_one_takes_or_refuses_an_event(shell: Shell) -> None:
    yaml = (
        YAML
        + "    - pipeline: {name: two}\n"
        + YAML.replace("one:", "two:").replace("http: {}", "pipeline: {name: one}")
    )
    yaml = yaml.replace("table_identifier: shop.${/kind}", "table_identifier: fixed.t", 1)
    result = shell("try", shell.write("a.yaml", yaml), shell.write("b.ndjson", EVENTS))
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "line 1: fixed.t (iceberg)",
        "line 1: shop.a (two.iceberg)",
        "line 3: fixed.t (iceberg)",
        "line 3: rejected by two.iceberg, BAD_TABLE_NAME in table_identifier: the table name 'shop.\\x1b[31m/' "
        "has a character that is not allowed",
    ]
    assert lines[4].startswith("line 4: rejected, MALFORMED: ")


def test_json_is_a_line_for_each_event_then_for_each_table(shell: Shell) -> None:
    result = shell("try", shell.write("a.yaml", YAML), shell.write("b.ndjson", EVENTS), "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["type"] for one in found] == ["event", "event", "event", "table"]
    fate = {"tables": [{"sink": "iceberg", "table": "shop.a"}], "rejects": [], "processed": [], "dropped": 0}
    assert found[0] == {"type": "event", "number": 1, "line": 1, **fate}
    assert found[1]["rejects"][0]["code"] == "BAD_TABLE_NAME"
    assert (found[3]["table"], found[3]["rows"], found[3]["created"]) == ("shop.a", 1, True)


PROCESSED = """\
one:
  source:
    http: {}
  processor:
    - split_event: {field: n, delimiter: " "}
    - drop_events: {drop_when: '/n == "x"'}
    - convert_type: {key: n, tags_on_failure: [odd]}
  sink:
    - iceberg: {table_identifier: shop.a, auto_create: true}
"""


def test_an_event_is_shown_before_and_after_each_processor_that_changes_it(shell: Shell) -> None:
    events = '{"n":"1 x y"}\n{"n":"x"}\n{"m":2}\n'
    arguments = ("try", shell.write("a.yaml", PROCESSED), shell.write("b.ndjson", events))
    assert shell(*arguments).stdout.splitlines()[:14] == [
        'line 1: {"n":"1 x y"}',
        '  processor[0] split_event: {"n":"1"}',
        '  processor[0] split_event: {"n":"x"}',
        '  processor[0] split_event: {"n":"y"}',
        '  processor[1] drop_events: {"n":"1"}',
        '  processor[1] drop_events: {"n":"y"}',
        '  processor[2] convert_type: {"n":1}',
        '  processor[2] convert_type: {"n":"y"} tags: odd',
        "line 1: shop.a",
        "line 1: shop.a",
        "line 1: dropped by a processor",
        'line 2: {"n":"x"}',
        "  processor[1] drop_events: no event is left",
        "line 2: dropped by a processor",
    ]
    [_, second, *_] = map(json.loads, shell(*arguments, "--json").stdout.splitlines())
    done = {"processor": "processor[1] drop_events", "before": ['{"n":"x"}'], "after": [], "tags": []}
    assert (second["processed"], second["dropped"]) == ([done], 1)


def test_nothing_is_written(shell: Shell) -> None:
    shell("try", shell.write("a.yaml", YAML), shell.write("b.ndjson", EVENTS))
    assert sorted(path.name for path in shell.folder.rglob("*")) == ["a.yaml", "b.ndjson"]


def test_a_pipeline_of_several_is_chosen_by_its_name(shell: Shell) -> None:
    shell.write("a.yaml", YAML + YAML.replace("one:", "two:").replace("http: {}", "http: {port: 0}"))
    shell.write("b.ndjson", EVENTS)
    result = shell("try", "a.yaml", "b.ndjson")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error: There are 2 pipelines. Choose one with --pipeline: one, two\n"
    assert shell("try", "a.yaml", "b.ndjson", "--pipeline", "three").exit_code == 2
    assert shell("try", "a.yaml", "b.ndjson", "--pipeline", "two").exit_code == 0


def test_a_wrong_configuration_is_exit_code_2_and_missing_events_are_a_sentence(shell: Shell) -> None:
    shell.write("bad.yaml", YAML.replace("auto_create", "auto_crate"))
    wrong = shell("try", "bad.yaml", shell.write("b.ndjson", EVENTS))
    assert (wrong.exit_code, wrong.stderr.startswith("bad.yaml:7:")) == (2, True)
    missing = shell("try", shell.write("a.yaml", YAML), "c.ndjson")
    assert missing.exit_code == 1
    assert missing.stderr.startswith("Error: The sample events c.ndjson cannot be read: no such file or directory. ")
    assert shell("try", "a.yaml", ".").exit_code == 1


def test_what_asks_for_metadata_is_noted(shell: Shell) -> None:
    asking = YAML.replace("shop.${/kind}", "'shop.${getMetadata(\"headers\")}'")
    result = shell("try", shell.write("a.yaml", asking), shell.write("b.ndjson", EVENTS))
    assert result.exit_code == 0
    assert result.stderr.startswith("Note: the table_identifier of iceberg uses metadata that sample events lack")


def test_metadata_is_what_the_command_line_says(shell: Shell) -> None:
    shell.write("b.ndjson", '{"x": 1}\n')
    kafka = 'kafka: {bootstrap_servers: ["h:1"], topics: [{name: t, group_id: g}]}'
    asking = YAML.replace("http: {}", kafka).replace("/kind}", 'getMetadata("kafka_topic")}')
    asking = asking.replace("  sink:", '  route:\n    - two: getMetadata("kafka_partition") == 2\n  sink:')
    shell.write("a.yaml", asking.replace("table_identifier", "routes: [two]\n        table_identifier"))
    given = ("--metadata", "kafka_topic=clicks", "--metadata", "kafka_partition=2")
    result = shell("try", "a.yaml", "b.ndjson", *given)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("line 1: shop.clicks\n")
    assert shell("try", "a.yaml", "b.ndjson", *given[:2]).stdout.startswith("line 1: skipped: ")
    wrong = shell("try", "a.yaml", "b.ndjson", "--metadata", "topic=clicks")
    assert (wrong.exit_code, wrong.stderr[:45]) == (2, "Error: The source kafka has no metadata topic")


def test_the_help_teaches_by_an_example(shell: Shell) -> None:
    result = shell("try", "--help")
    assert result.exit_code == 0
    assert "calve try orders.yaml sample.ndjson" in result.output


KEYED = """\
one:
  source:
    kafka: {bootstrap_servers: ["nobody:1"], topics: [{name: customers}]}
  sink:
    - iceberg: {table_identifier: shop.customers, auto_create: true, identifier_columns: from_key}
"""


def test_lines_may_begin_with_the_keys_of_their_records(shell: Shell) -> None:
    lines = '{"id":1}\t{"name":"a"}\n{"id":2}\tnull\n{"name":"x"}\n{"id":3}\t\n{"id":1}\t{"id":2}\n'
    result = shell("try", shell.write("a.yaml", KEYED), shell.write("b", lines), "--key-delimiter", "\\t")
    fates = result.stdout.splitlines()
    assert fates[:2] == ["line 1: shop.customers", "line 2: shop.customers"]
    assert fates[2].startswith("line 3: rejected, NO_KEY: the record has no key")
    assert fates[3] == "line 4: shop.customers"
    assert "KEY_MISMATCH in id" in fates[4]
    assert "SET IDENTIFIER FIELDS id" in result.stdout
    assert result.stderr == ""


def test_one_key_for_all_is_text_and_what_is_missing_is_told_with_the_option(shell: Shell) -> None:
    yaml, event = shell.write("a.yaml", KEYED), shell.write("b", '{"n":1}')
    assert "kafka_key string NOT NULL" in shell("try", yaml, event, "--metadata", "kafka_key=007").stdout
    assert "kafka_key (--key-delimiter, or one key for all" in shell("try", yaml, event).stderr
    assert "no text divides keys" in shell("try", yaml, event, "--key-delimiter", "").stderr
    http = shell.write("c.yaml", YAML)
    assert "The source http has no metadata kafka_key" in shell("try", http, event, "--key-delimiter", ":").stderr


def test_events_that_look_like_connects_json_are_told(shell: Shell) -> None:
    event = shell.write("b", '{"schema":{"type":"struct"},"payload":{"a":1}}')
    said = shell("try", shell.write("a.yaml", YAML.replace("${/kind}", "a")), event).stderr
    assert "the events of the table shop.a consist of schema and payload" in said
    assert "serde_format: connect_json" in said


def test_the_verdict_of_each_rule_is_told(shell: Shell) -> None:
    rules = """\
        expect:
          - {column: n, max: 1, on_failure: fail}
          - {column: m, in: [a], on_failure: "null"}
          - {column: k, not_null: true}
        publish: {when: {min_rows: 3, max_null_share: {m: 0.5}}}
"""
    yaml = YAML.replace("shop.${/kind}", "shop.a") + rules
    events = '{"k": 1, "n": 1, "m": "a"}\n{"k": 2, "n": 2, "m": "a"}\n{"k": 3, "n": 1, "m": "b"}\n'
    result = shell("try", shell.write("a.yaml", yaml), shell.write("b.ndjson", events))
    lines = result.stdout.splitlines()
    assert lines[1] == "line 2: rejected, shop.a: EXPECTATION_STOPS in n: rule n_max: n must be at most 1"
    assert [line for line in lines if line.startswith("  rule")] == [
        "  rule m_in: 1 row would not follow it",
        "  rule n_max: 1 row would not follow it",
        "  rule k_not_null: all rows follow it",
    ]
    assert [line for line in lines if line.startswith("  publish rule")] == [
        "  publish rule min_rows waits: 2 of at least 3 rows",
        "  publish rule max_null_share.m waits: m is NULL in 1 of 2 rows (50.000%), at most 50.000%",
    ]
