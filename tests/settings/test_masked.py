"""The YAML that the dashboard shows has no secret, wherever it stands, and is otherwise what was given."""

from __future__ import annotations

import yaml

from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.settings.masked import MOST_CHARACTERS

CANARY = "hunter2-and-more"
TEXT = f"""
# the old password was {CANARY}
shop:
  source:
    kafka:
      bootstrap_servers: ["broker:9092"]
      topics: [{{name: orders, group_id: g}}]
      authentication: {{sasl: {{plaintext: {{username: ann, password: {CANARY}}}}}}}
      client_properties: {{security.protocol: SASL_SSL, ssl.key.password: abc, sasl.oauthbearer.config: "k={CANARY}"}}
  processor:
    - add_entries: {{entries: [{{key: note, value: "seen {CANARY}", overwrite_if_key_exists: true}}]}}
  route:
    - known: '/id > 0'
  sink:
    - iceberg:
        table_identifier: a.b
        catalog: {{type: rest, uri: "https://ann:{CANARY}@h/x?token={CANARY}", warehouse: w, credential: a:b, token: pw}}
        table_properties: {{a: "1", my.password: xyz}}
        routes: [known]
    - opensearch: {{hosts: ["https://h:9200"], index: i, username: ann, password: "${{env:OS_PASSWORD}}"}}
    - opensearch: {{hosts: ["https://h:9200"], index: j, username: ann, password: "x${{env:OS_PASSWORD:-{CANARY}}}y"}}
"""


def shown(text: str) -> str:
    (pipeline,) = parse_text(text, PLUGINS, environment={"OS_PASSWORD": "from-outside"}).pipelines
    return pipeline.shown


def test_secrets_and_comments_are_left_out_and_the_rest_is_as_given() -> None:
    text = shown(TEXT)
    assert CANARY not in text
    for short in ("a:b", "pw", "abc", "xyz", "from-outside"):
        assert short not in text
    assert "#" not in text
    pipeline = yaml.safe_load(text)["shop"]
    assert pipeline["source"]["kafka"] == {
        "bootstrap_servers": ["broker:9092"],
        "topics": [{"name": "orders", "group_id": "g"}],
        "authentication": {"sasl": {"plaintext": {"username": "ann", "password": "…"}}},
        "client_properties": {
            "security.protocol": "SASL_SSL",
            "ssl.key.password": "…",
            "sasl.oauthbearer.config": "…",
        },
    }
    iceberg, *documents = (next(iter(sink.values())) for sink in pipeline["sink"])
    assert iceberg["catalog"] == {
        "type": "rest",
        "uri": "https://h/x?token=…",
        "warehouse": "w",
        "credential": "…",
        "token": "…",
    }
    assert iceberg["table_properties"] == {"a": "1", "my.password": "…"}
    assert [sink["password"] for sink in documents] == ["${env:OS_PASSWORD}", "…"]
    assert documents[0]["hosts"] == ["https://h:9200"]
    assert pipeline["route"] == [{"known": "/id > 0"}]


def test_a_pipeline_that_feeds_others_is_shown_with_them() -> None:
    text = """
a: {source: {http: }, sink: [{pipeline: {name: b}}]}
b: {source: {pipeline: {name: a}}, sink: [{iceberg: {table_identifier: x.y}}]}
"""
    assert list(yaml.safe_load(shown(text))) == ["a", "b"]


def test_a_very_long_definition_is_cut() -> None:
    columns = ", ".join(f"c{number}: long" for number in range(9_000))
    text = f"a: {{source: {{http: }}, sink: [{{iceberg: {{table_identifier: x.y, column_types: {{{columns}}}}}}}]}}"
    assert len(shown(text)) < MOST_CHARACTERS + 100
    assert shown(text).endswith("only the beginning\n")
