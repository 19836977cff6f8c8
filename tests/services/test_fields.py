"""What is said of wrong input: the value, and in our words what would be right."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from pydantic import ValidationError

from tracker import api
from tracker.api.parameters import Page
from tracker.errors import FieldError, InvalidInputError
from tracker.http import BadParametersError
from tracker.services.detectors import NewDetector
from tracker.services.fields import Input, parse_input
from tracker.services.labelling.labels import NewLabel
from tracker.services.labelling.studies import NewStudy
from tracker.services.queries.queries import NewQuery
from tracker.services.wording import (
    describe_errors,
    dump_instant,
    show,
    show_name,
)

RIGHT: dict[str, Any] = {"name": "door", "question": "Is it closed?"}
WRONG = (
    None,
    True,
    0,
    -1,
    1.9,
    10**400,
    math.inf,
    math.nan,
    "",
    "é" * 5_000,
    "\ud800",
    b"bytes",
    [],
    ["ONE"],
    ["ONE"] * 2_000,
    [[], {}],
    {},
    {"a": {1: 2}},
    object(),
)


def _refused(model: type[Input], values: dict[str, Any]) -> list[FieldError]:
    try:
        model.model_validate(values)
    except ValidationError as error:
        return describe_errors(error)
    except (BadParametersError, InvalidInputError) as error:
        return list(error.errors)
    return []


@pytest.mark.parametrize(
    ("model", "values", "field", "message"),
    [
        (
            NewDetector,
            {"classes": []},
            "classes",
            "[] is not right: there must be at least 2",
        ),
        (
            NewDetector,
            {"classes": ["ONE"]},
            "classes",
            "['ONE'] is not right: there must be at least 2",
        ),
        (
            NewDetector,
            {"classes": "YES"},
            "classes",
            "'YES' is not right: it must be a list",
        ),
        (
            NewDetector,
            {"classes": ["YES", 1]},
            "classes.1",
            "1 is not right: it must be text",
        ),
        (NewDetector, {"name": ""}, "name", "'' is not right: it must not be empty"),
        (
            NewDetector,
            {"name": "x" * 201},
            "name",
            f"'{'x' * 60}…' (201 characters) is not right: "
            "it must have at most 200 characters",
        ),
        (
            NewDetector,
            {"labels_wanted": 99},
            "labels_wanted",
            "99 is not right: it must be at most 9",
        ),
        (
            NewDetector,
            {"labels_wanted": 0},
            "labels_wanted",
            "0 is not right: it must be at least 1",
        ),
        (
            NewDetector,
            {"labels_wanted": 1.9},
            "labels_wanted",
            "1.9 is not right: it must be a whole number",
        ),
        (
            NewDetector,
            {"target": 1.0},
            "target",
            "1.0 is not right: it must be less than 1",
        ),
        (
            NewDetector,
            {"target": 0.0},
            "target",
            "0.0 is not right: it must be more than 0",
        ),
        (
            NewDetector,
            {"target": "high"},
            "target",
            "'high' is not right: it must be a number",
        ),
        (
            NewDetector,
            {"colour": 1},
            "colour",
            "is not a known field (its value was 1)",
        ),
        (NewLabel, {}, "label", "is required"),
        (
            NewDetector,
            {"name": {"of": [True, None, datetime(2026, 1, 31, 12, tzinfo=UTC)]}},
            "name",
            "{'of': [true, null, 2026-01-31T12:00:00Z]} is not right: it must be text",
        ),
        (
            NewQuery,
            {"predicted": "YES", "confidence": math.nan},
            "confidence",
            "nan is not right: it must be a number that is not infinite",
        ),
        (
            NewQuery,
            {"predicted": "YES", "metadata": []},
            "metadata",
            "[] is not right: it must be an object with named values",
        ),
        (
            NewQuery,
            {"predicted": "YES", "sampling": "some"},
            "sampling",
            "'some' is not right: it must be one of random, targeted, unstated",
        ),
        (
            NewLabel,
            {"label": "YES", "settles": "yes"},
            "settles",
            "'yes' is not right: it must be true or false",
        ),
        (
            NewStudy,
            {"name": "x", "kind": "other", "rounds": [{"accuracy": 1.0}] * 2},
            "kind",
            "'other' is not right: it must be 'bootstrap' or 'seeds'",
        ),
        (
            NewStudy,
            {"name": "x", "kind": "seeds", "rounds": [1, 2]},
            "rounds.0",
            "1 is not right: it must be an object with named values",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(
    model: type[Input], values: dict[str, Any], field: str, message: str
) -> None:
    given = RIGHT | values if model is NewDetector else values
    with pytest.raises(InvalidInputError) as caught:
        parse_input(model, given)
    assert caught.value.errors[0] == FieldError(field, message)


def _models(of: type[Input] = Input) -> Iterator[type[Input]]:
    for model in of.__subclasses__():
        yield model
        yield from _models(model)


@pytest.mark.slow
def test_no_input_is_refused_in_the_words_of_a_library(app: Flask) -> None:
    assert api.OPTIONS
    # A page of no particular list is asked for by nobody.
    models = [one for one in _models() if one is not Page]
    assert len(models) > 25
    # A span such as 7d counts from the instant of the request.
    with app.test_request_context():
        said = {
            (
                model.__name__,
                wrong.field,
                wrong.message.rpartition(" is not right: ")[2],
            )
            for model in models
            for name in model.model_fields
            for value in WRONG
            for wrong in _refused(model, {name: value})
        }
    assert len(said) > 100
    for model, field, message in sorted(said):
        place = (model, field, message)
        assert "should" not in message, place
        assert "valid" not in message, place
        assert "another value" not in message, place


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ä" * 101, f"'{'ä' * 60}…' (101 characters)"),
        ("q" * 1_001, f"'{'q' * 60}…' (1,001 characters)"),
        ("ä" * 80, f"'{'ä' * 80}'"),
        ("Zoë 💡 是 שלום", "'Zoë 💡 是 שלום'"),
        ("it's", '"it\'s"'),
        ("a\x00\n\x7fb", "'a\\x00\\n\\x7fb'"),
        ("a\u202eb\u200b\u2066", "'a\\u202eb\\u200b\\u2066'"),
        ("\ud800", "'\\ud800'"),
        (["ä\u202e"], "['ä\\u202e']"),
        (12, "12"),
    ],
)
def test_a_value_is_shown_as_it_was_typed(value: object, shown: str) -> None:
    assert show(value) == shown
    show(value).encode()


def test_a_name_is_shown_without_quotes_and_counted_as_it_is() -> None:
    assert show_name("größe\u202e") == "größe\\u202e"
    assert show_name("ä" * 101) == f"{'ä' * 60}… (101 characters)"


def test_both_passes_of_an_hour_are_dumped_as_they_are():
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    assert first == first.replace(fold=1)
    assert dump_instant(first) == "2026-10-25T00:30:00Z"
    assert dump_instant(first.replace(fold=1)) == "2026-10-25T01:30:00Z"
