"""results.json: the shipped schema is current and agrees with the classes; wrong files are refused in sentences."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from devmind.errors import DevmindError
from devmind.report.page import render
from devmind.report.results import Results, load, schema_text, validate

SHIPPED = files("devmind.report") / "results.schema.json"


def test_the_shipped_schema_is_current() -> None:
    assert SHIPPED.read_text(encoding="utf-8") == schema_text(), (
        "run: python -c \"from devmind.report.results import schema_text; print(schema_text(), end='')\""
        " > devmind/report/results.schema.json"
    )


def test_a_second_validator_agrees(results: dict[str, Any]) -> None:
    schema = json.loads(SHIPPED.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(results, schema)
    results["lessons"][0]["status"] = "abandoned"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(results, schema)
    with pytest.raises(DevmindError, match=r"lessons.0.status"):
        validate(results)


def test_load_says_what_is_wrong_with_a_file(tmp_path: Path, results: dict[str, Any]) -> None:
    path = tmp_path / "results.json"
    with pytest.raises(DevmindError, match="There is no file"):
        load(path)
    path.write_text("{")
    with pytest.raises(DevmindError, match="is not JSON"):
        load(path)
    path.write_text("[1]")
    with pytest.raises(DevmindError, match="not results"):
        load(path)
    path.write_text(json.dumps(results | {"schema": 2}))
    with pytest.raises(DevmindError, match=r"schema 2, this devmind reads 1; update"):
        load(path)
    path.write_text(json.dumps(results))
    assert load(path) == validate(results)
    assert isinstance(load(path), Results)


def test_an_unknown_key_is_ignored(results: dict[str, Any]) -> None:
    assert render(results | {"weather": "fine"}) == render(results)
