"""Every key of Data Prepper's plugins is taken, or refused or ignored with a reason; none is merely unknown."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.processors.deduplicate import Aggregate
from calve.settings import parse_text
from calve.settings.option import declared, ignored_keys, refused_keys
from calve.settings.problems import SettingsErrors
from calve.sources.file.codec_settings import CodecSettings

LIST = Path(__file__).with_name("data_prepper_keys.txt")
OURS = {"source": PLUGINS.sources, "processor": PLUGINS.processors, "sink": PLUGINS.sinks}
SINK = {"iceberg": {"table_identifier": "a.b", "auto_create": True}}
SQS = {"queue_url": "https://sqs.us-east-1.amazonaws.com/000000000000/q"}


def listed() -> Iterator[tuple[str, str, list[str]]]:
    """Yield the kind, the name and the keys of each plugin."""
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    for text in "\n".join(lines).replace("\n    ", " ").splitlines():
        head, _, keys = text.partition(":")
        kind, name = head.split(" ")
        yield kind, name, keys.split()


def classes(hint: Any) -> Iterator[type]:
    """Yield the settings classes in the type of an option."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for inner in typing.get_args(hint):
        yield from classes(inner)


def is_named(settings: type, path: list[str]) -> bool:
    """Return whether a key, or one on the way to it, is an option, refused or ignored."""
    head, *rest = path
    if head in {**refused_keys(settings), **ignored_keys(settings)}:
        return True
    for option in declared(settings).values():
        if head in option.names:
            inner = list(classes(option.type))
            return not rest or not inner or any(is_named(kind, rest) for kind in inner)
    return False


PLUGIN_KEYS = [pytest.param(*plugin, id=" ".join(plugin[:2])) for plugin in listed()]


@pytest.mark.parametrize(("kind", "name", "keys"), PLUGIN_KEYS)
def test_every_key_is_taken_or_has_a_reason(kind: str, name: str, keys: list[str]) -> None:
    if kind == "codec":
        [codec] = classes(declared(CodecSettings)[name].type) if name in declared(CodecSettings) else [None]
        assert codec is not None or name in refused_keys(CodecSettings)
        assert [key for key in keys if codec and not is_named(codec, key.split("."))] == []
    elif kind == "action":
        problems = [text for _, text in Aggregate(identification_keys=["a"], action={name: {}}).check()]
        assert not any(text.startswith("unknown") for text in problems)
    elif name not in OURS[kind]:
        assert PLUGINS.refused[kind][name]
    else:
        assert [key for key in keys if not is_named(OURS[kind][name], key.split("."))] == []


def test_no_plugin_is_refused_that_is_there_and_no_key_that_is_an_option() -> None:
    for kind, plugins in OURS.items():
        assert not plugins.keys() & PLUGINS.refused[kind].keys()
        for settings in plugins.values():
            names = {name for option in declared(settings).values() for name in option.names}
            assert not names & {*refused_keys(settings), *ignored_keys(settings)}
            assert not refused_keys(settings).keys() & ignored_keys(settings).keys()


def parsed(source: dict[str, Any], *processors: dict[str, Any], sink: dict[str, Any] = SINK) -> Any:
    return parse_text(json.dumps({"p": {"source": source, "processor": processors, "sink": [sink]}}), PLUGINS)


@pytest.mark.parametrize(
    ("pipeline", "path", "words"),
    [
        ([{"s3": {"sqs": SQS, "s3_select": {"expression": "select *"}}}], "source.s3.s3_select", "drop_events"),
        ([{"file": {"path": "a", "codec": {"json": {"include_keys_metadata": ["a"]}}}}], "include_keys_metadata", "ad"),
        ([{"http": {"acm_certificate_arn": "a"}}], "source.http.acm_certificate_arn", "ssl_certificate_file"),
        ([{"dynamodb": {}}], "source.dynamodb", "export to S3"),
        ([{"http": {}}, {"rate_limiter": {}}], "processor[0].rate_limiter", "decides by the clock"),
    ],
)
def test_a_refused_key_or_plugin_says_why_at_its_place(pipeline: list[Any], path: str, words: str) -> None:
    with pytest.raises(SettingsErrors) as raised:
        parsed(*pipeline)
    [problem] = raised.value.problems
    assert problem.path.endswith(path)
    assert words in problem.message


def test_a_refused_key_that_asks_for_nothing_is_taken_and_one_without_effect_is_a_warning() -> None:
    parsed({"http": {"use_acm_certificate_for_ssl": False, "acm_certificate_arn": None}})
    kafka = {"bootstrap_servers": ["b:1"], "topics": [{"name": "t", "fetch_max_wait": 500}]}
    [warning] = parsed({"kafka": kafka}).warnings
    assert warning.path == "p.source.kafka.topics[0].fetch_max_wait"
    assert warning.message == "has no effect: librdkafka's limits hold; client_properties can set them"


def test_an_s3_source_takes_objects_of_a_time() -> None:
    bucket = {"bucket": {"name": "logs", "end_time": "2026-02-01T00:00:00+01:00"}}
    scan = {"buckets": [bucket], "start_time": "2026-01-01T00:00:00", "end_time": "2027-01-01T00:00:00"}
    [pipeline] = parsed({"s3": {"scan": scan}}).pipelines
    settings, day = pipeline.source.value.scan, 86_400 * 10**9
    january, february = 1_767_225_600 * 10**9, 1_769_904_000 * 10**9 - 3_600 * 10**9
    times = [january, january + 1, february - 1, february, february + day]
    assert [settings.is_chosen(settings.buckets[0].bucket, time) for time in times] == [False, True, True, False, False]
    with pytest.raises(SettingsErrors, match="is no time"):
        parsed({"s3": {"scan": {**scan, "start_time": "yesterday"}}})
    with pytest.raises(SettingsErrors, match=r"buckets\[0\].bucket: end_time is not after start_time"):
        parsed({"s3": {"scan": {**scan, "start_time": "2026-02-01T00:00:00"}}})
