import contextlib
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.settings import Plugins, SettingsErrors, parse_text
from kit.examples import examples

PIPELINE_KEYS = ["p", "version", "source", "sink", "route", "processor", "buffer", "workers", "every", "strict", "a/b"]
OPTION_KEYS = ["port", "topics", "name", "codec", "csv", "routes", "include_keys", "path", "headers", "wait", "limit"]
KEYS = st.sampled_from([*PIPELINE_KEYS, *OPTION_KEYS])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | KEYS
    | st.text(max_size=8)
    | st.sampled_from(["5m", "64mb", "${env:A}", "${env:", "${/a}", "9" * 500, "1e999", "0x10", "~", "yes"])
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=5),
    max_leaves=25,
)
LINES = st.text(alphabet=" \n\t-:[]{}&*!|>'\"%@`#,?~abp1\\x\u2028\ufeff\x85é${env}", max_size=80)
ENVIRONMENT = {"A": "80"}


def wrapped(every: Any) -> dict[str, Any]:
    return {"p": {"source": {"every": every}, "sink": [{"every": every}, {"strict": every}], "route": every}}


def parse(text: str, plugins: Plugins) -> None:
    with contextlib.suppress(SettingsErrors):
        parse_text(text, plugins, environment=ENVIRONMENT)


@settings(max_examples=examples(60), deadline=None)
@given(text=LINES)
def test_junk_is_never_more_than_settings_errors(plugins: Plugins, text: str) -> None:
    parse(text, plugins)


@settings(max_examples=examples(60), deadline=None)
@given(tree=TREES | TREES.map(wrapped))
def test_any_tree_is_never_more_than_settings_errors(plugins: Plugins, tree: Any) -> None:
    parse(yaml.safe_dump(tree, allow_unicode=True), plugins)


@settings(max_examples=examples(50), deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_is_never_more_than_settings_errors(plugins: Plugins, text: str) -> None:
    parse(text, plugins)
