"""Kinds of detectors: their classes, and what is said about an input in each."""

import json
from typing import Any

from tracker.errors import InvalidInputError
from tracker.services.device import BINARY, COUNT, MULTI_CLASS
from tracker.storage.detectors import Detector
from tracker.storage.device import DeviceSettings
from tracker.words import UNCLEAR

RESULT_TYPES = {
    BINARY: "binary_classification",
    MULTI_CLASS: "multi_classification",
    COUNT: "counting",
}
_USUAL_MOST = 10
_LARGEST_COUNT = 50
# What older versions of the SDK send.
_OLD_WORDS = {
    "PASS": "YES",
    "FAIL": "NO",
    "NEEDS_REVIEW": UNCLEAR,
    "__UNSURE": UNCLEAR,
}


def choose_classes(
    mode: str, configuration: dict[str, Any]
) -> tuple[list[Any], dict[str, Any] | None]:
    """Return the classes of a new detector, and its configuration as it is kept."""
    if mode == BINARY:
        return ["YES", "NO"], None
    if mode == MULTI_CLASS:
        names = configuration.get("class_names")
        if not isinstance(names, list):
            raise _wrong_configuration("class_names must be a list of classes.")
        return names, {"class_names": names}
    if mode == COUNT:
        return _choose_counts(configuration)
    raise InvalidInputError.of(
        "mode",
        f"{_quote(mode)} is not a valid choice: Tracker measures classifiers, which "
        f"are {', '.join(RESULT_TYPES)}.",
    )


def _choose_counts(
    configuration: dict[str, Any],
) -> tuple[list[Any], dict[str, Any] | None]:
    most = configuration.get("max_count")
    most = _USUAL_MOST if most is None else most
    if not isinstance(most, int) or not 1 <= most <= _LARGEST_COUNT:
        raise _wrong_configuration(f"max_count must be 1 to {_LARGEST_COUNT}.")
    name = configuration.get("class_name")
    if not isinstance(name, str) or not name:
        raise _wrong_configuration("class_name must say what is counted.")
    counts = [str(number) for number in range(most + 1)]
    return [*counts, f">{most}"], {"class_name": name, "max_count": most}


def _wrong_configuration(message: str) -> InvalidInputError:
    return InvalidInputError.of("mode_configuration", message)


def read_class(
    detector: Detector, settings: DeviceSettings, said: object, *, field: str
) -> str:
    """Return the class, or UNCLEAR, that a program means by *said*."""
    # True is an int, and YES.
    word = _words(settings.mode).get(str(said).upper(), str(said))
    if settings.mode == COUNT and word.isascii() and word.isdigit():
        most = _most(settings)
        word = str(int(word)) if len(word) < 9 and int(word) <= most else f">{most}"
    is_word = isinstance(said, str | int)
    if not is_word or (word not in detector.classes and word != UNCLEAR):
        raise InvalidInputError.of(field, f"{_quote(said)} is not a valid choice.")
    return word


def _words(mode: str) -> dict[str, str]:
    words = {UNCLEAR: UNCLEAR}
    if mode == BINARY:
        words |= {"YES": "YES", "NO": "NO", "TRUE": "YES", "FALSE": "NO", **_OLD_WORDS}
    return words


def _most(settings: DeviceSettings) -> int:
    assert settings.mode_configuration is not None
    return int(settings.mode_configuration["max_count"])


def _quote(said: object) -> str:
    return json.dumps(said, ensure_ascii=False)[:100]


def dump_result(
    settings: DeviceSettings, answer: str, confidence: float | None, source: str
) -> dict[str, Any]:
    """Return the result of a query whose answer is a class, or UNCLEAR."""
    result = {
        "confidence": confidence,
        "from_edge": False,
        "result_type": RESULT_TYPES[settings.mode],
        "source": source,
    }
    if settings.mode != COUNT:
        return {**result, "label": answer}
    is_greater = answer.startswith(">")
    number = int(answer.removeprefix(">")) if answer != UNCLEAR else None
    return {**result, "count": number, "greater_than_max": is_greater}
