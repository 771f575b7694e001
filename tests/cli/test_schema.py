from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from .conftest import GOOD, Shell


@pytest.mark.usefixtures("pipelines")
def test_the_schema_takes_what_is_right_and_refuses_what_is_wrong(shell: Shell) -> None:
    result = shell("schema")
    assert result.exit_code == 0
    validator = jsonschema.validators.validator_for(schema := json.loads(result.stdout))(schema)
    assert validator.is_valid(yaml.safe_load(GOOD))
    assert not validator.is_valid(yaml.safe_load(GOOD.replace("place", "plaice")))
