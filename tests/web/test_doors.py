"""Small doors: the name of a host, networks, slow passwords, full disks."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from tests.conftest import START, by
from tests.web.conftest import PASSWORD, try_password
from tracker.services.by import network_of
from tracker.services.people import accounts
from tracker.services.people.accounts import (
    create_account,
    disable_account,
    get_account,
)
from tracker.services.people.sign_ins import (
    TRIES_PER_ADDRESS,
    TooManyTriesError,
    begin_try,
)
from tracker.storage.database import Database
from tracker.web.health import find_disk_trouble


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "LocalHost:8000"])
def test_a_host_is_known_in_any_case(app: Flask, host: str) -> None:
    asked = app.test_client().get("/healthz", headers={"Host": host})
    assert asked.status_code == 200
    other = app.test_client().get("/healthz", headers={"Host": f"x{host}"})
    assert other.status_code == 400


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a socket", "a socket"),
    ],
)
def test_one_line_counts_as_one_address(address: str, network: str) -> None:
    assert network_of(address) == network


def test_a_line_with_many_addresses_has_no_more_tries(database: Database) -> None:
    from dataclasses import replace

    with database.write() as session:
        for number in range(TRIES_PER_ADDRESS):
            asked = replace(by(), address=f"2001:db8::{number + 1:x}")
            begin_try(session, f"name {number}", asked)
        with pytest.raises(TooManyTriesError):
            begin_try(session, "one more", replace(by(), address="2001:db8::ffff"))
        begin_try(session, "another", replace(by(), address="2001:db8:0:1::1"))


def disable(database: Database) -> None:
    with database.write() as session:
        create_account(session, "boss", "admin", by(at=START))
        disable_account(session, get_account(session, "maria"), by(at=START))


def change(database: Database) -> None:
    with database.write() as session:
        # Not by the service: to hash a new one takes the same turn.
        get_account(session, "maria").password_hash = "another"


@pytest.mark.thorough
@pytest.mark.parametrize("happen", [disable, change])
def test_what_changes_while_a_password_is_looked_at_counts(
    app: Flask, database: Database, maria: str, happen: Callable[[Database], None]
) -> None:
    answers = []

    def enter() -> None:
        answers.append(try_password(app.test_client(), PASSWORD).status)

    visitor = threading.Thread(target=enter)
    with accounts._ONE_AT_A_TIME:
        visitor.start()
        # Until the password was read, and waits for its turn to be looked at.
        wait_for_try(database)
        happen(database)
    visitor.join(30)
    assert answers == [401]


def wait_for_try(database: Database) -> None:
    import time

    from sqlalchemy import func, select

    from tracker.storage.people import SignInTry

    for _ in range(500):
        with database.read() as session:
            if session.scalar(select(func.count()).select_from(SignInTry)):
                time.sleep(0.2)
                return
        time.sleep(0.02)
    pytest.fail("nobody tried")


def test_a_disk_without_room_or_right_is_known(tmp_path: Path) -> None:
    assert find_disk_trouble(tmp_path) == "ok"
    assert find_disk_trouble(tmp_path / "not" / "there" / "yet") == "ok"
    # A file system of the kernel, in which there is room for nothing.
    assert find_disk_trouble(Path("/sys")) == "it is full"


def test_a_disk_that_is_mounted_read_only_is_known() -> None:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    found = [
        Path(place)
        for _, place, _, options, *_ in mounts
        if "ro" in options.split(",") and Path(place).is_dir()
    ]
    if not found:
        pytest.skip("nothing is mounted read-only here")
    assert {find_disk_trouble(place) for place in found} == {"it is read-only"}
