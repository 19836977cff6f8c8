"""Names of accounts and keys that nobody may mistake for one another."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import insert

from tests.conftest import START, by
from tracker.errors import ConflictError, InvalidInputError
from tracker.services.people.accounts import (
    check_name,
    create_account,
    find_alike,
    get_account,
)
from tracker.storage.base import list_rows
from tracker.storage.database import Database
from tracker.storage.people import Account


@pytest.mark.parametrize(
    ("taken", "alike"),
    [
        ("lena", "LENA"),
        ("lena", "\uff4cena"),
        ("Straße", "STRASSE"),
        ("Zoë", "ZOE\u0308"),
        ("ﬁnn", "Finn"),
        ("m²", "M2"),
        ("\u1e9e", "ss"),
    ],
)
def test_a_name_that_differs_in_case_or_form_alone_is_taken(
    database: Database, taken: str, alike: str
) -> None:
    with database.write() as session:
        create_account(session, taken, "viewer", by(at=START))
        assert find_alike(session, alike) == ("an account", taken)
        with pytest.raises(ConflictError, match="choose another name"):
            create_account(session, alike, "viewer", by(at=START))
        create_account(session, f"{taken}a", "viewer", by(at=START))


@pytest.mark.parametrize("name", ["Zoë 💡", "=camera()", "是", "O'Neill", "שלום"])
def test_what_can_be_seen_can_be_a_name(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "hidden", ["\x00", "\n", "\x7f", "\u200b", "\u200d", "\u202e", "\ud800", "\ue000"]
)
def test_what_cannot_be_seen_is_no_part_of_a_name(hidden: str) -> None:
    with pytest.raises(InvalidInputError, match="is not right"):
        check_name(f"a{hidden}b")


def test_accounts_of_before_stay_as_they_are(database: Database) -> None:
    names = ["lena", "LENA", "le\u200bna"]
    with database.write() as session:
        rows = [{"name": name, "role": "viewer", "created_at": START} for name in names]
        more = {"has_all_detectors": True}
        session.execute(insert(Account), [row | more for row in rows])
    with database.read() as session:
        for name in names:
            assert get_account(session, name).name == name


def test_of_two_at_once_one_gets_the_name(database: Database) -> None:
    names = ["lena", "LENA", "Lena", "lEna"]
    start = Barrier(len(names))

    def create(name: str) -> bool:
        start.wait()
        try:
            with database.write() as session:
                create_account(session, name, "viewer", by(at=START))
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(len(names)) as pool:
        assert sum(pool.map(create, names)) == 1
    with database.read() as session:
        assert len(list_rows(session, Account)) == 1
