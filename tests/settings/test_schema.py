import json
from typing import Any

import jsonschema
import pytest
import yaml

from calve.settings import Plugins, json_schema, parse_text

GOOD = [
    "p: {source: {every: }, sink: [{every: }]}",
    """
version: 2
extension: {}
orders:
  workers: 4
  source:
    every:
      port: 1
      ratio: 0.25
      flag: true
      mode:
      wait: 5m
      timeout: 100
      limit: 1.5kb
      folder: /tmp
      themes: [{name: 1}]
      path: [a, b]
      headers: {a: 1, b: true}
      codec: {csv: , json: {delimiter: ;}}
      backup:
      anything: [1, {}]
      password: geheimnis
  processors:
    - strict: {name: x}
  routes:
    - a: /x == 1
  sink:
    - every: {routes: [a, _default], port: "${env:PORT:-80}", flag: "${env:ON:-true}"}
""",
]
BAD = [
    "p: {source: {every: {prot: 1}}, sink: [{every: }]}",
    "p: {source: {every: {port: 70000}}, sink: [{every: }]}",
    "p: {source: {every: {port: x}}, sink: [{every: }]}",
    "p: {source: {every: {flag: 'yes'}}, sink: [{every: }]}",
    "p: {source: {every: {mode: x}}, sink: [{every: }]}",
    "p: {source: {every: {wait: 5}}, sink: [{every: }]}",
    "p: {source: {every: {limit: 64}}, sink: [{every: }]}",
    "p: {source: {every: {topics: [{}]}}, sink: [{every: }]}",
    "p: {source: {every: {topics: [{name: a}, {name: b}, {name: c}]}}, sink: [{every: }]}",
    "p: {source: {every: {codec: {cvs: }}}, sink: [{every: }]}",
    "p: {source: {strict: }, sink: [{every: }]}",
    "p: {source: {evry: }, sink: [{every: }]}",
    "p: {source: {every: }, sink: []}",
    "p: {source: {every: }}",
    "p: {sink: [{every: }]}",
    "p: {source: {every: }, sink: [{every: {tags_target_key: x}}]}",
    "p: {source: {every: }, sinks: [{every: }]}",
    "p: {source: {every: }, sink: [{every: , strict: {name: a}}]}",
    "p: {source: {every: }, route: {a: b}, sink: [{every: }]}",
    "p:",
    "{}",
]


@pytest.fixture
def validator(plugins: Plugins) -> Any:
    schema = json_schema(plugins)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(json.loads(json.dumps(schema)))


@pytest.mark.parametrize("text", GOOD)
def test_what_parses_is_valid_in_the_schema(plugins: Plugins, validator: Any, text: str) -> None:
    assert parse_text(text, plugins).pipelines
    assert [error.message for error in validator.iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize("text", BAD)
def test_what_does_not_parse_is_not_valid_in_the_schema(refused: Any, validator: Any, text: str) -> None:
    assert refused(text)
    assert not validator.is_valid(yaml.safe_load(text))


def test_every_key_is_described_and_defaults_are_written_as_in_yaml(plugins: Plugins) -> None:
    pipeline = json_schema(plugins)["additionalProperties"]["properties"]
    every = pipeline["source"]["properties"]["every"]
    assert every["description"] == "Has an option of every kind."
    assert every["additionalProperties"] is False
    assert {key: every["properties"][key].get("default") for key in ("port", "wait", "limit", "mode", "topics")} == {
        "port": 2021,
        "wait": "10s",
        "limit": "64mb",
        "mode": "null",
        "topics": [],
    }
    assert all(each["description"] for each in every["properties"].values())
