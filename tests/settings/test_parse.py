import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from calve.errors import CalveError, SettingsError
from calve.pipeline.plugins import PLUGINS
from calve.settings import Plugins, SettingsErrors, parse, parse_text

Read = Callable[..., Any]

WHOLE = """\
version: "2"
orders-1:
  workers: 4
  delay: 100
  source:
    every: {port: 1}
  processor:
    - strict: {name: x}
  route:
    - errors: /status >= 500
    - slow: '/took > 1000'
  sink:
    - every:
        routes: [errors, _default]
        path: ${/kind}
    - strict:
        name: y
"""


def test_a_pipeline_is_read_whole(plugins: Plugins) -> None:
    (pipeline,) = parse_text(WHOLE, plugins).pipelines
    assert (pipeline.name, pipeline.workers, pipeline.delay, pipeline.line) == (
        "orders-1",
        4,
        timedelta(milliseconds=100),
        2,
    )
    assert (pipeline.source.name, pipeline.source.value.port, pipeline.source.line) == ("every", 1, 6)
    assert [(one.name, one.value.name) for one in pipeline.processors] == [("strict", "x")]
    assert pipeline.routes == {"errors": "/status >= 500", "slow": "/took > 1000"}
    first, second = pipeline.sinks
    assert (first.routes, first.value.path) == (("errors", "_default"), "${/kind}")
    assert (second.name, second.value.name, second.path) == ("strict", "y", "sink[1].strict")


def test_pipelines_pickle(plugins: Plugins) -> None:
    (pipeline,) = parse_text(WHOLE, plugins).pipelines
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("sink[0].every.path", "f:15:15"),
        ("sink[0].every", "f:13:7"),
        ("sink[0].every.routes[1]", "f:14:26"),
        ("sink[0].every.absent.deeper", "f:13:7"),
        ("route.slow", "f:11:13"),
        ("route[1].slow", "f:11:13"),
        ("processor[0].strict.name", "f:8:22"),
        ("nothing", "f:2:1"),
        ("", "f:2:1"),
    ],
)
def test_a_pipeline_knows_where_each_key_stands(plugins: Plugins, path: str, place: str) -> None:
    (pipeline,) = parse_text(WHOLE, plugins, name="f").pipelines
    assert str(pipeline.where(path)) == place


def test_the_plural_keys_are_the_same(plugins: Plugins) -> None:
    text = WHOLE.replace("processor:", "processors:").replace("route:", "routes:")
    (pipeline,) = parse_text(text, plugins, name="f").pipelines
    assert list(pipeline.routes) == ["errors", "slow"]
    assert str(pipeline.where("route.slow")) == "f:11:13"
    assert str(pipeline.where("processor[0].strict.name")) == "f:8:22"


def test_a_problem_found_later_has_its_place(plugins: Plugins) -> None:
    (pipeline,) = parse_text(WHOLE, plugins, name="f").pipelines
    problem = pipeline.problem("sink[0].every.path", "no such table")
    assert str(problem) == "f:15:15: orders-1.sink[0].every.path: no such table"
    assert str(SettingsErrors([problem])) == str(problem)


MISTAKES = """\
version: 3
orders:
  workers: 0
  wrokers: 2
  source:
    evry:
  route:
    - errors: /a ??
    - _default: /b
    - errors: /c
    - empty: ''
    - [x]
  sink:
    - every: {routes: [erors, 404], tags_target_key: t, forward_to: [x]}
    - every: {include_keys: [c, a/b]}
    - every: {include_keys: [a], exclude_keys: [c]}
    - strict: text
    - strict:
    - every
core:
  source: {every: , strict: {name: a}}
  sink: []
"no/path":
  processor: {}
  processors: []
  sink: {every: }
empty:
"""
TOLD = [
    "1:10: version: the version 3 is not compatible with the current version 2.17",
    "3:12: orders.workers: must be at least 1, not 0",
    "4:3: orders.wrokers: unknown key 'wrokers'; did you mean workers? "
    "(known: buffer, delay, notify, otlp, processor, route, sink, source, workers)",
    "6:5: orders.source.evry: unknown source 'evry'; did you mean every? (known: every, strict)",
    "8:15: orders.route[0].errors: ?? is no operator. Use ==",
    "9:7: orders.route[1]._default: this name is reserved for events that match no route",
    "10:7: orders.route[2].errors: the route 'errors' appears twice",
    "11:14: orders.route[3].empty: expected a condition, found ''",
    "12:7: orders.route[4]: expected one route as `name: condition`, found a list",
    "14:24: orders.sink[0].every.routes[0]: unknown route 'erors'; did you mean errors? "
    "(known: _default, empty, errors)",
    "14:31: orders.sink[0].every.routes[1]: unknown route '404' (known: _default, empty, errors)",
    "14:37: orders.sink[0].every.tags_target_key: is not supported: tags are not written; a route can ask for them with hasTags()",
    "14:57: orders.sink[0].every.forward_to: is not supported: use a second sink with a route instead",
    "15:33: orders.sink[1].every.include_keys[1]: a key is the name of a top-level field and cannot contain `/`",
    "16:48: orders.sink[2].every.exclude_keys: include_keys and exclude_keys cannot be combined; keep one",
    "17:15: orders.sink[3].strict: expected a map, found 'text'",
    "18:7: orders.sink[4].strict.name: is required but missing",
    "19:7: orders.sink[5]: expected a sink by name, e.g. `every:`, found 'every'",
    "20:1: core: this name is reserved; a pipeline cannot be called data-prepper, dataPrepper, core",
    "21:3: core.source: takes one source, found every, strict",
    "22:9: core.sink: needs at least one sink",
    "23:1: no/path: 'no/path' cannot name a pipeline: use up to 128 ASCII letters, digits, `-`, `_` and `.`",
    "23:1: no/path.source: is required but missing",
    "24:3: no/path.processor: expected a list (`- name: …`), found a map",
    "25:3: no/path.processor: processors means the same as processor; set only one",
    "26:3: no/path.sink: expected a list (`- name: …`), found a map",
    "27:1: empty: expected a map with `source` and `sink`, found nothing",
]


def test_every_error_comes_at_once_by_line(refused: Read) -> None:
    assert refused(MISTAKES) == TOLD


@pytest.mark.parametrize("version", ["2", "'2'", "2.17", "1.9"])
def test_a_version_that_is_not_newer_is_accepted(plugins: Plugins, version: str) -> None:
    assert parse_text(f"version: {version}\np: {{source: {{every: }}, sink: [every: ]}}", plugins).pipelines


@pytest.mark.parametrize("version", ["2.18", "3", "two", "[2]"])
def test_a_newer_version_is_refused(refused: Read, version: str) -> None:
    (error,) = refused(f"version: {version}\np: {{source: {{every: }}, sink: [every: ]}}")
    assert error.startswith("1:10: version: ")


def test_what_is_ignored_is_a_warning_with_its_line(plugins: Plugins) -> None:
    parsed = parse_text(
        "extension: {aws: {}}\np:\n  source: {every: }\n  buffer: {bounded_blocking: {}}\n  sink: [every: ]\n",
        plugins,
        name="f",
    )
    assert [str(warning) for warning in parsed.warnings] == [
        "f:1:1: extension: is ignored; Calve has no extensions",
        "f:4:3: p.buffer: is ignored: Calve needs no buffer between source and sinks",
    ]


def test_a_doubtful_expression_is_a_warning_with_its_line() -> None:
    text = """
p:
  source: {http: {}}
  route:
    - page: /path == "/index.html"
    - other: 'startsWith(/path, "/index")'
  sink:
    - opensearch: {hosts: [http://localhost:9200], index: a, routing: '${"/tenant"}'}
"""
    first, second = parse_text(text, PLUGINS, name="f").warnings
    assert str(first).startswith('f:5:13: p.route[0].page: "/index.html" is the field of that name')
    assert str(second).startswith('f:8:71: p.sink[0].opensearch.routing: "/tenant" is the field of that name')


CLEAR = """
p:
  source:
    kafka:
      bootstrap_servers: {host}:9092
      topics: [{{name: t, serde_format: avro}}]
      schema: {{registry_url: "http://{host}:8081", api_key: u, api_secret: s}}
      authentication: {{sasl: {{plaintext: {{username: u, password: s}}}}}}
  sink:
    - opensearch: {{hosts: ["http://{host}:9200"], index: a, username: u, password: s}}
    - iceberg: {{table_identifier: a.b, catalog: {{type: rest, uri: "http://{host}:8181", credential: "u:s"}}}}
"""


def test_credentials_without_tls_are_a_warning_unless_they_stay_on_this_machine() -> None:
    warnings = [str(warning) for warning in parse_text(CLEAR.format(host="h.example"), PLUGINS, name="f").warnings]
    assert [warning.split(": ")[1] for warning in warnings] == [
        "p.source.kafka.schema.registry_url",
        "p.source.kafka.authentication.sasl.plaintext",
        "p.sink[0].opensearch.hosts[0]",
        "p.sink[1].iceberg.catalog",
    ]
    assert all("without TLS" in warning for warning in warnings)
    own = "client_properties: {{sasl.mechanisms: PLAIN, sasl.username: u, sasl.password: s}}"
    raw = CLEAR.replace("authentication: {{sasl: {{plaintext: {{username: u, password: s}}}}}}", own)
    found = [str(warning) for warning in parse_text(raw.format(host="h.example"), PLUGINS).warnings]
    assert any("p.source.kafka.client_properties: sends the password without TLS" in warning for warning in found)
    for host in ("localhost", "127.0.0.1"):
        assert not parse_text(CLEAR.format(host=host), PLUGINS).warnings
    encrypted = CLEAR.replace("http:", "https:").replace(
        "authentication:", "encryption: {{type: ssl}}\n      authentication:"
    )
    assert not parse_text(encrypted.format(host="h.example"), PLUGINS).warnings


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", ""),
        ("host: 0.0.0.0", "lets everybody who reaches 0.0.0.0 send events"),
        ("host: '::', ssl: true, ssl_certificate_file: c, ssl_key_file: k", "lets everybody who reaches :: send"),
        ("host: 0.0.0.0, authentication: {unauthenticated: {}}", "lets everybody"),
        ("host: 10.1.2.3, authentication: {http_basic: {username: u, password: p}}", "is sent without TLS"),
        ("host: 127.0.0.1, authentication: {unauthenticated: {}}", ""),
    ],
)
def test_a_source_that_is_open_to_a_network_is_a_warning(options: str, said: str) -> None:
    text = f"p:\n  source: {{http: {{{options}}}}}\n  sink: [iceberg: {{table_identifier: a.b}}]\n"
    assert said in " ".join(map(str, parse_text(text, PLUGINS).warnings))
    assert bool(parse_text(text, PLUGINS).warnings) is bool(said)


def test_a_file_without_pipelines_is_refused(refused: Read) -> None:
    assert refused("version: 2") == ["1:1: no pipeline is defined"]
    assert refused("{}") == ["1:1: no pipeline is defined"]


def test_the_yaml_files_of_a_folder_are_merged(plugins: Plugins, tmp_path: Path) -> None:
    pipeline = "{source: {every: }, sink: [every: ]}\n"
    (tmp_path / "b.yml").write_text(f"b: {pipeline}")
    (tmp_path / "a.yaml").write_text(f"a: {pipeline}")
    (tmp_path / "notes.txt").write_text("not YAML: [")
    assert [one.name for one in parse(tmp_path, plugins).pipelines] == ["a", "b"]


def test_errors_of_all_files_come_at_once(plugins: Plugins, tmp_path: Path) -> None:
    pipeline = "{source: {every: }, sink: [every: ]}\n"
    (tmp_path / "a.yaml").write_text(f"p: {pipeline}")
    (tmp_path / "b.yaml").write_bytes(b"ok: 1\nx: \xff\n")
    (tmp_path / "c.yaml").write_text("[")
    (tmp_path / "d.yaml").write_text(f"# more\np: {pipeline}")
    with pytest.raises(SettingsErrors) as caught:
        parse(tmp_path, plugins)
    assert str(caught.value).replace(f"{tmp_path}/", "").split("\n") == [
        "b.yaml:2:4: this is not UTF-8 text (byte 0xff)",
        "c.yaml:1:2: this is not YAML: while parsing a flow node, expected the node content, but found '<stream end>'",
        "d.yaml:2:1: the key 'p' appears twice; first at a.yaml:1:1",
    ]


def test_a_path_that_cannot_be_read_is_one_clear_error(plugins: Plugins, tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "gone.yaml", "gone.yaml:1:1: this file cannot be read: No such file or directory"),
        (tmp_path, ":1:1: no *.yaml or *.yml file is in this folder"),
    ):
        with pytest.raises(SettingsErrors) as caught:
            parse(path, plugins)
        assert str(caught.value).endswith(message)


def test_a_file_may_begin_with_a_byte_order_mark(plugins: Plugins, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("\ufeffp: {source: {every: }, sink: [every: ]}", encoding="utf-8")
    assert parse(tmp_path / "a.yaml", plugins).pipelines[0].name == "p"


def test_a_file_without_end_is_refused(plugins: Plugins) -> None:
    with pytest.raises(SettingsErrors, match="larger than 1 MB"):
        parse("/dev/zero", plugins)


def test_the_process_environment_is_the_default(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALVE_TEST_PATH", "here")
    text = "p: {source: {every: {path: '${env:CALVE_TEST_PATH}'}}, sink: [every: ]}"
    assert parse_text(text, plugins).pipelines[0].source.value.path == "here"


def test_a_missing_variable_is_the_only_error_wherever_it_is(plugins: Plugins) -> None:
    parts = {"source": "{every: }", "sink": "[every: ]", "workers": "1", "notify": "[{http: {url: 'http://x/y'}}]"}
    missing = "${env:CALVE_TEST_MISSING}"
    for name in (*parts, "delay"):
        places = ("{every: {path: '%s'}}", "[every: {path: '%s'}]", "[{http: {url: '%s'}}]", "'%s'")
        for place in places:
            changed = {**parts, name: place % missing}
            text = "p: {" + ", ".join(f"{key}: {value}" for key, value in changed.items()) + "}"
            with pytest.raises(SettingsErrors, match="CALVE_TEST_MISSING is not set"):
                parse_text(text, plugins)


def test_errors_pickle_and_become_one_settings_error_as_data(plugins: Plugins) -> None:
    with pytest.raises(SettingsErrors) as caught:
        parse_text("version: 3", plugins)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems
    assert isinstance(CalveError.from_dict(caught.value.to_dict()), SettingsError)


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (
            "p:\n  source:\n    every:\n    port: 1\n  sink: [every: ]\n",
            ["4:5: p.source.port: indent it below every, as an option of it"],
        ),
        (
            "p:\n  source: {every: }\n  sink:\n    - every: {}\n      port: 1\n      path: a\n",
            [
                "5:7: p.sink[0].port: indent it below every, as an option of it",
                "6:7: p.sink[0].path: indent it below every, as an option of it",
            ],
        ),
        (
            "p:\nsource: {every: }\nsink: [every: ]\n",
            [
                "1:1: p: expected a map with `source` and `sink`, found nothing",
                "2:1: source: indent it below the name of a pipeline",
                "3:1: sink: indent it below the name of a pipeline",
            ],
        ),
    ],
)
def test_a_key_that_is_not_indented_enough_is_told_where_it_belongs(
    refused: Read, text: str, errors: list[str]
) -> None:
    assert refused(text) == errors


def test_a_pipeline_may_be_called_source(plugins: Plugins) -> None:
    parsed = parse_text("source:\n  source: {every: }\n  sink: [every: ]\n", plugins)
    assert [one.name for one in parsed.pipelines] == ["source"]
