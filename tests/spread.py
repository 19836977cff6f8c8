"""Whether every statement could run where each server has some of the detectors.

Then the rows of a detector, in all tables, are on one server.  So every table that
hangs on a detector begins its keys with it, and no statement may join rows of two such
tables, or two rows of one, without saying that they are of one detector.
"""

import re
from collections import Counter
from functools import cache
from itertools import chain

from tracker.storage.operations import schema

# What stays in one place, or has a copy on every server, and why.
WORKSPACE = {
    "accounts": "a person may see several detectors",
    "account_detectors": "asked by account, before any detector is known",
    "address_checks": "of an account",
    "api_keys": "a program may use several detectors",
    "api_key_detectors": "asked by key, before any detector is known",
    "audit_events": "the log of the installation, also of what is of no detector",
    "badges": "finds the detector of an address that does not name it",
    "deliveries": "of a webhook, also of no event; one sender goes through all",
    "detector_groups": "its name is unique for all",
    "detectors": "its name is unique for all; every other table refers to it",
    "heartbeats": "of a worker",
    "mail_mutes": "of an account",
    "passkeys": "of an account",
    "pins": "of an account",
    "recovery_codes": "of an account",
    "sign_in_links": "of an account",
    "sign_in_steps": "of an account",
    "sign_in_tries": "of an address that tries",
    "sign_ins": "of an account",
    "stored_answers": "of an account or a key",
    "tasks": "one queue for all workers; some are of no detector",
    "totps": "of an account",
    "webhook_detectors": "of a webhook",
    "webhooks": "may tell of several detectors",
}
SPREAD = schema.metadata.tables.keys() - WORKSPACE.keys()

_ONE = rf"(?:{'|'.join(sorted(SPREAD, key=len, reverse=True))})(?: AS \w+)?"
_ANY = r"\w+(?: AS \w+)?"
_FROM = re.compile(
    rf"\b(?:FROM|JOIN|UPDATE|USING)(?: LATERAL)? \(?({_ANY}(?:, {_ANY})*)"
)
_NAME = re.compile(
    rf"({'|'.join(sorted(SPREAD, key=len, reverse=True))})(?: AS (\w+))?"
)
_OWN = r"(\w+)\.detector_id"
_OTHER = r"(\w+)\.(?:detector_id|id)\b"
_VALUE = r"(?:%\(\w+\)s|[0-9]+|CAST\(%|ANY)"
_SAME = (
    re.compile(rf"\b{_OWN} = {_OTHER}"),
    # A row among those of a statement beside it.
    re.compile(rf"\({_OWN}, [^()]*\) IN \(SELECT {_OWN}"),
)
_IS_VALUE = (re.compile(rf"\b{_OWN} = {_VALUE}"), re.compile(rf"\({_OWN}, [^()]*\) = "))
_AMONG = re.compile(rf"\b{_OWN} IN \((?!SELECT)")
_DETECTOR = "of the detector that is asked about"


@cache
def find_strangers(statement: str) -> frozenset[str]:
    """Return the tables of a statement that are joined without their detector.

    *statement* is as it goes to PostgreSQL.
    """
    parts = re.split(" UNION (?:ALL )?", " ".join(statement.split()))
    return frozenset().union(*map(_find_strangers, parts))


def _find_strangers(statement: str) -> frozenset[str]:
    used = _count_tables(statement)
    if used.total() < 2:
        return frozenset()
    groups, said = _group(statement)
    chosen = groups.get(_DETECTOR)
    if chosen is None:
        chosen = groups.get(next(iter(used)))
    return frozenset(
        name
        for name, times in used.items()
        if chosen is None or groups.get(name) != chosen or said[name] < times
    )


def _count_tables(statement: str) -> Counter[str]:
    """Count how often each table that hangs on a detector is read, by its alias."""
    listed = chain.from_iterable(one.split(", ") for one in _FROM.findall(statement))
    found = (_NAME.fullmatch(one) for one in listed)
    return Counter(one[2] or one[1] for one in found if one is not None)


def _group(statement: str) -> tuple[dict[str, int], Counter[str]]:
    """Return which aliases have one detector, and how often each says so."""
    groups: dict[str, int] = {}
    said = Counter[str]()
    pairs = [pair for same in _SAME for pair in same.findall(statement)]
    pairs += [
        (one, _DETECTOR) for value in _IS_VALUE for one in value.findall(statement)
    ]
    said.update(_AMONG.findall(statement))
    for number, pair in enumerate(pairs):
        said.update(pair)
        joined = {groups.get(one, number) for one in pair}
        groups |= dict.fromkeys(pair, number)
        groups = {a: number if b in joined else b for a, b in groups.items()}
    return groups, said
