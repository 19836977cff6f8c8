"""The types of the settings, reading them from variables, and the errors."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import available_timezones

from pydantic import AfterValidator, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from tracker.errors import ConfigurationError

# As a power of ten: 32 random hexadecimal digits have about 31, a repeated word 3.
_FEWEST_GUESSES = 24
# Words of examples; by chance one in a million keys has one.
_TO_BE_REPLACED = re.compile(r"secret|change|insert|example|random|password", re.I)
# zxcvbn ignores the rest, and its time grows with the square of the length.
_JUDGED_CHARACTERS = 72


def _split_words(value: object) -> object:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_split_words)]


def _like(pattern: str, right: str) -> AfterValidator:
    """Refuse values that do not match *pattern*: they must *right*."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"it must {right}")
        return value

    return AfterValidator(check)


def _each_like(pattern: str, wrong: str) -> AfterValidator:
    """Refuse words of which one does not match *pattern*: it is *wrong*."""

    def check(words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            if not re.fullmatch(pattern, word):
                raise ValueError(f"{word!r} {wrong}")
        return words

    return AfterValidator(check)


PublicUrl = Annotated[
    str,
    _like(
        r"(https?://[A-Za-z0-9.:\[\]_-]+)?",
        "be like https://tracker.example.org, without a path",
    ),
]
# Unencrypted only within one machine.
_ISSUER = r"(https://[^/?#]+.*|http://(localhost|127\.0\.0\.1)([:/].*)?)?"
Issuer = Annotated[str, _like(_ISSUER, "begin with https://")]
# Each part of the prefix begins with a letter or digit, so none is ".." or empty.
_IMAGE_STORE = r"(s3:/(/[A-Za-z0-9][A-Za-z0-9._-]*)+)?"
ImageStoreUrl = Annotated[
    str, _like(_IMAGE_STORE, "be like s3://bucket or s3://bucket/prefix")
]
_ENDPOINT = r"(https?://[A-Za-z0-9.:\[\]-]+(/[\w./-]*)?)?"
Endpoint = Annotated[
    str,
    _like(_ENDPOINT, "be like https://s3.example.org"),
    AfterValidator(lambda value: value.rstrip("/")),
]
Region = Annotated[str, _like("[A-Za-z0-9-]+", "be like eu-west-3")]
LogLevel = Annotated[
    str, _like("debug|info|warning|error", "be debug, info, warning or error")
]

# In the format of OTEL_EXPORTER_OTLP_HEADERS; neither part may hold a line break.
Headers = Annotated[
    str,
    _like(
        r"([A-Za-z0-9-]+=[ -+\--~]+(,[A-Za-z0-9-]+=[ -+\--~]+)*)?",
        "be like api-key=secret, several separated by commas",
    ),
]
MailSecurity = Annotated[str, _like("starttls|tls|none", "be starttls, tls or none")]


def _check_zone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError("it must be the IANA name of a time zone, like Europe/Berlin")
    return value


TimeZone = Annotated[str, AfterValidator(_check_zone)]

Contact = Annotated[
    str,
    _like(
        r"(mailto:[^\s@]+@[^\s@]+|https://\S+|tel:[+0-9-]+)?",
        "be like mailto:security@example.org, https://example.org/security or "
        "tel:+4930123456",
    ),
]


_ROLE = "viewer|labeler|editor|admin"
Roles = Annotated[
    Words, _each_like(_ROLE, "is not a role; it must be like admin,editor")
]
RoleWords = Annotated[Words, _each_like(f"({_ROLE}):.+", "must be like admin:staff")]
# A name (with a leading dot for all names below it) or an address, maybe with a port.
_HOST = (
    r"(\.?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?"
    r"|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
)
Hosts = Annotated[
    Words,
    _each_like(
        _HOST,
        "is not a host; it must be like tracker.example.org, without https:// and "
        "without a path",
    ),
]
SHORTEST_KEY = 32


def check_is_given(value: Any) -> Any:
    """Return *value*; raises ValueError if it is empty."""
    # A variable set to nothing is a mistake; the default would hide it.
    if value == "":
        raise ValueError("it is empty; give it a value, or leave the variable out")
    return value


def _check_backup_key(value: str) -> str:
    as_printed = "python3 -c 'import secrets; print(secrets.token_hex())' prints"
    if value and len(value) < SHORTEST_KEY:
        raise ValueError(
            f"it has {len(value)} characters; it must have at least {SHORTEST_KEY}: "
            f"use one that {as_printed}"
        )
    if value and not is_hard_to_guess(value):
        raise ValueError(f"it is easy to guess; use one that {as_printed}")
    return value


BackupKey = Annotated[str, AfterValidator(_check_backup_key)]


def is_hard_to_guess(key: str) -> bool:
    """Return whether a secret key is long and no word, sentence or repetition."""
    if len(key) < SHORTEST_KEY or _TO_BE_REPLACED.search(key):
        return False
    # Its word lists take a tenth of a second to load, and few commands need them.
    from zxcvbn import zxcvbn  # noqa: PLC0415

    judged = zxcvbn(key[:_JUDGED_CHARACTERS])
    return float(judged["guesses_log10"]) >= _FEWEST_GUESSES


_PREFIX = "TRACKER_"
# Variables of the test suite and of tracker-client are not settings.
_OF_TESTS = "TRACKER_TEST_"
_OF_CLIENT = frozenset({"TRACKER_URL", "TRACKER_KEY", "TRACKER_SPOOL"})

Fields = Mapping[str, FieldInfo]


def read_variables(environ: Mapping[str, str], fields: Fields) -> dict[str, str]:
    """Return the texts of *fields* in *environ*; raises ConfigurationError."""
    values: dict[str, str] = {}
    for variable, value in environ.items():
        is_ours = variable.startswith(_PREFIX) and variable not in _OF_CLIENT
        if not is_ours or variable.startswith(_OF_TESTS):
            continue
        name, text = _read_variable(variable, value, fields)
        if name in values:
            raise ConfigurationError(
                f"{_PREFIX}{name.upper()} and its _FILE are both set; keep one"
            )
        values[name] = text
    return values


def _read_variable(variable: str, value: str, fields: Fields) -> tuple[str, str]:
    name = variable.removeprefix(_PREFIX).lower()
    if name in fields:
        return name, value
    stem = name.removesuffix("_file")
    if stem != name and stem in fields:
        try:
            text = Path(value).read_text().strip()
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(
                f"{variable}: cannot read {value}: {error}"
            ) from error
        # The default would silently replace an empty secret.
        if not text:
            raise ConfigurationError(f"{variable}: the file {value} is empty")
        return stem, text
    known = ", ".join(f"{_PREFIX}{field.upper()}" for field in fields)
    raise ConfigurationError(f"{variable} is not a setting; there are: {known}")


def describe_errors(error: ValidationError, fields: Fields) -> str:
    """Return a line for each invalid setting, with the valid values."""

    def line(detail: Any) -> str:
        name = str(detail["loc"][0])
        said = detail["msg"].removeprefix("Value error, ")
        limits = {
            bound: getattr(limit, bound)
            for limit in fields[name].metadata
            for bound in ("ge", "le")
            if hasattr(limit, bound)
        }
        if limits:
            is_whole = fields[name].annotation in {int, int | None}
            kind = "a whole number" if is_whole else "a number"
            # As the setting is written: not 1.09951e+12, and without commas.
            said = f"it must be {kind} from {limits['ge']:.15g} to {limits['le']:.15g}"
        # Errors are logged, and secrets must not be.
        given = repr(detail["input"]) if fields[name].repr else "…"
        return f"{_PREFIX}{name.upper()}={given}: {said}"

    return "\n".join(line(detail) for detail in error.errors())
