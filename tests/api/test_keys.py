"""Keys end when they should, and say when they were used and whose they are."""

import threading
from datetime import timedelta

import pytest

from tests.api.problems import assert_problem
from tests.conftest import START, by
from tracker.errors import InvalidInputError
from tracker.services.people.keys import create_key
from tracker.storage.base import find_row
from tracker.storage.people import ApiKey

PATH = "/api/v1/detectors"


def make(database, name="camera", **given):
    with database.write() as session:
        text = create_key(session, name, "viewer", by("maria", START), **given)
    return {"Authorization": f"Bearer {text}"}


def stored(database, name="camera"):
    with database.read() as session:
        return find_row(session, ApiKey, name=name)


def test_a_key_ends_after_its_time_and_not_before(app, database, clock):
    headers, client = make(database, expires="90d"), app.test_client()
    clock.at = START + timedelta(days=90, seconds=-1)
    assert client.get(PATH, headers=headers).status_code == 200
    clock.at = START + timedelta(days=90)
    wrong = client.get(PATH, headers=headers)
    assert "expired" in assert_problem(wrong, 401)["detail"]


@pytest.mark.parametrize("expires", ["0d", "90", "3651d", "9" * 30 + "d", "-1d", "٣d"])
def test_a_time_that_makes_no_sense_is_refused(database, expires):
    with pytest.raises(InvalidInputError, match="90d or 12w"):
        make(database, expires=expires)
    assert stored(database) is None


def test_weeks_are_seven_days(database):
    make(database, expires="2w")
    assert stored(database).expires_at == START + timedelta(days=14)


def test_who_makes_a_key_answers_for_it_unless_it_is_said(database):
    make(database)
    make(database, name="other", owner="otto")
    assert (stored(database).owner, stored(database, "other").owner) == (
        "maria",
        "otto",
    )


def test_a_use_is_noted_once_a_minute(app, database, clock):
    headers, client = make(database), app.test_client()
    assert stored(database).last_used_at is None
    client.get(PATH, headers=headers)
    first = stored(database).last_used_at
    assert first is not None
    clock.at += timedelta(seconds=58)
    client.get(PATH, headers=headers)
    assert stored(database).last_used_at == first
    clock.at += timedelta(seconds=2)
    client.get(PATH, headers=headers)
    assert stored(database).last_used_at > first


def test_no_reader_waits_for_a_writer_to_note_its_use(app, database):
    headers, client = make(database), app.test_client()
    answers = []
    with database.write() as session:
        # Some of the work of an import, whose end nobody knows.
        create_key(session, "import", "editor", by("maria", START))
        reader = threading.Thread(
            target=lambda: answers.append(client.get(PATH, headers=headers).status_code)
        )
        reader.start()
        reader.join(10)
        assert answers == [200]


def test_every_answer_says_what_is_left_of_the_limit(api, app, settings, clock):
    from dataclasses import replace

    context = app.extensions["tracker"]
    limited = settings.model_copy(update={"requests_per_minute": 2})
    app.extensions["tracker"] = replace(context, settings=limited)
    clock.at = clock.at.replace(second=20, microsecond=0)
    answers = [api.get("/detectors"), api.get("/detectors/none"), api.get("/detectors")]
    assert [answer.status_code for answer in answers] == [200, 404, 429]
    for answer, left in zip(answers, (1, 0, 0), strict=True):
        assert answer.headers["RateLimit-Policy"] == '"requests";q=2;w=60'
        assert answer.headers["RateLimit"] == f'"requests";r={left};t=40'
    assert int(answers[-1].headers["Retry-After"]) >= 40
