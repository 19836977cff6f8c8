"""The settings of a deployment, read once and strictly."""

import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic.fields import FieldInfo

from tracker.errors import ConfigurationError

# As a power of ten: 32 random hexadecimal digits have about 31, a repeated word 3.
_FEWEST_GUESSES = 24
# Words of examples; by chance one in a million keys has one.
_TO_BE_REPLACED = re.compile(r"secret|change|insert|example|random|password", re.I)
# zxcvbn ignores the rest, and its time grows with the square of the length.
_JUDGED_CHARACTERS = 72


Words = Annotated[
    tuple[str, ...],
    BeforeValidator(
        lambda one: (*one.replace(",", " ").split(),) if isinstance(one, str) else one
    ),
]


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


_PUBLIC_URL = _like(
    r"(https?://[A-Za-z0-9.:\[\]_-]+)?",
    "be like https://tracker.example.org, without a path",
)
# Unencrypted only within one machine.
_ISSUER = _like(
    r"(https://[^/?#]+.*|http://(localhost|127\.0\.0\.1)([:/].*)?)?",
    "begin with https://",
)
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


_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class Settings(BaseModel):
    """The settings; each is read from ``TRACKER_<NAME>`` or its ``…_FILE``.

    A secret is declared with ``repr=False``, and no page shows it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Annotated[Path, BeforeValidator(check_is_given)] = Field(
        default_factory=lambda: platformdirs.user_data_path("tracker"),
        description="Folder for the embedded database, images and the secret key.",
    )
    database_url: Annotated[str, BeforeValidator(check_is_given)] = Field(
        default="",
        description="SQLAlchemy URL of the database; SQLite in the data folder "
        "unless given. PostgreSQL: postgresql+psycopg://user:password@host/name.",
    )
    database_read_url: str = Field(
        default="",
        repr=False,
        description="SQLAlchemy URL of a replica, such as a standby. Exports and API "
        "reads about a detector come from it and may be seconds old. None by default.",
    )
    secret_key: str = Field(
        default="",
        repr=False,
        description="Signs the tokens of the forms, at least 32 random characters. "
        "Made and kept in the data folder unless given; several machines share one.",
    )
    backup_key: BackupKey = Field(
        default="",
        repr=False,
        description="Signs backups; restore then accepts only backups signed with it. "
        "At least 32 characters.",
    )
    image_store: ImageStoreUrl = Field(
        default="",
        description="Bucket that keeps the images of queries, s3://bucket/prefix; the "
        "data folder unless given. Needs the extra s3 and an access key.",
    )
    s3_endpoint: Endpoint = Field(
        default="",
        description="The address of the storage, if not Amazon's, such as "
        "https://s3.example.org.",
    )
    s3_region: Region = Field(
        default="us-east-1", description="The region of the bucket."
    )
    s3_access_key_id: str = Field(
        default="", description="The name of the access key to the bucket."
    )
    s3_secret_access_key: str = Field(
        default="", repr=False, description="The secret of that access key."
    )
    time_zone: TimeZone = Field(
        default="UTC",
        description="The zone of the days on which queries are asked, by its IANA "
        "name such as Europe/Berlin. When it changes, the worker counts them again.",
    )
    recompute_seconds: float = Field(
        default=5.0,
        ge=0.1,
        le=3600.0,
        description="Seconds between two runs of the job that recomputes intervals.",
    )
    keep_unlabelled_days: int = Field(
        default=0,
        ge=0,
        le=36_500,
        description="Days after which the worker deletes queries that were never "
        "labelled; 0 keeps them for ever.",
    )
    public_url: Annotated[str, _PUBLIC_URL] = Field(
        default="",
        description="The address of the server in browsers, such as "
        "https://tracker.example.org; with https, cookies are sent over https only.",
    )
    proxies: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Reverse proxies in front, each of which adds to "
        "X-Forwarded-For; with 0 that header is ignored.",
    )
    oidc_issuer: Annotated[str, _ISSUER] = Field(
        default="",
        description="The provider at which people sign in (OpenID Connect); needs the "
        "extra oidc.",
    )
    oidc_client_id: str = Field(
        default="", description="The id of this server at the provider."
    )
    oidc_client_secret: str = Field(
        default="", repr=False, description="The secret of this server at the provider."
    )
    oidc_role_claim: Annotated[str, BeforeValidator(check_is_given)] = Field(
        default="roles", description="The claim with the role of a person."
    )
    oidc_roles: RoleWords = Field(
        default=(),
        description="The word of a role in that claim, such as admin:staff; by default "
        "the role's own name.",
    )
    trusted_hosts: Hosts = Field(
        default=(),
        description="Host names, besides localhost, at which clients may address the "
        "server; separated by commas.",
    )
    image_hosts: Hosts = Field(
        default=(),
        description="Hosts whose images (image_url) pages may show; by commas.",
    )
    webhook_hosts: Hosts = Field(
        default=(),
        description="Hosts that webhooks may be sent to although they are not public, "
        "such as chat.example.internal; by commas.",
    )
    predictor_hosts: Hosts = Field(
        default=(),
        description="Hosts that images may be sent to for a prediction, such as "
        "model.example.internal:8080; by commas.",
    )
    smtp_host: str = Field(
        default="",
        description="The server that sends mail to people; without it, none is sent.",
    )
    smtp_port: int = Field(
        default=587, ge=1, le=65_535, description="The port of that server."
    )
    smtp_security: MailSecurity = Field(
        default="starttls", description="starttls, tls from the first byte, or none."
    )
    smtp_user: str = Field(default="", description="The user name at that server.")
    smtp_password: str = Field(
        default="", repr=False, description="The password at that server."
    )
    mail_from: str = Field(
        default="",
        description="The sender of mail, such as tracker@example.org; links in it "
        "lead to TRACKER_PUBLIC_URL.",
    )
    otlp_endpoint: Endpoint = Field(
        default="",
        description="The OpenTelemetry collector that estimates are sent to, such as "
        "http://collector:4318; none unless given.",
    )
    otlp_headers: Headers = Field(
        default="", repr=False, description="Sent with them, such as api-key=secret."
    )
    max_body_bytes: int = Field(
        default=256 * 2**20,
        ge=2**10,
        le=2**40,
        description="Largest body of a request, in bytes; a larger one gets 413.",
    )
    requests_per_minute: int = Field(
        default=0,
        ge=0,
        le=10**6,
        description="Requests that one API key may send to one web process in a "
        "minute; more get 429. 0 is no limit.",
    )
    security_contact: Contact = Field(
        default="",
        description="Where to report a weakness, such as "
        "mailto:security@example.org; shown at /.well-known/security.txt.",
    )
    second_factor_roles: Roles = Field(
        default=(),
        description="Roles whose accounts need a second step to sign in, such as "
        "admin,editor; separated by commas.",
    )
    web_threads: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Transactions of each kind, reads and writes, that one web process "
        "works on at the same time; further requests wait.",
    )
    web_connections: int = Field(
        default=512,
        ge=16,
        le=4096,
        description="Requests that one web process holds open at the same time. A "
        "client that sends or reads slowly takes up one of these and nothing else. One "
        "address may have half of them.",
    )
    web_processes: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Web processes behind one port; unless given, as many as there are "
        "processors, up to 4 on PostgreSQL and 2 on SQLite.",
    )
    log_level: LogLevel = Field(
        default="info", description="How much is logged: debug, info, warning or error."
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings from *environ*; raises ConfigurationError."""
        fields, values = cls.model_fields, dict[str, str]()
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
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigurationError(describe_errors(error, fields)) from error

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir / 'tracker.db'}"

    @property
    def image_dir(self) -> Path:
        return self.data_dir / "images"

    @property
    def allowed_hosts(self) -> list[str]:
        """Return every host at which clients may address the server."""
        own = urlsplit(self.public_url).hostname or ""
        own = f"[{own}]" if ":" in own else own
        named = [*_LOOPBACK_HOSTS, own, *self.trusted_hosts]
        return [name.lower() for name in named if name]

    @property
    def oidc_role_values(self) -> dict[str, str]:
        """The word of a role in the provider's claim, if it is not the role's name."""
        return dict(word.split(":", 1) for word in self.oidc_roles)

    @property
    def is_https(self) -> bool:
        return self.public_url.startswith("https://")

    def load_secret_key(self) -> str:
        """Return the secret key, made at the first start; raises ConfigurationError."""
        if self.secret_key:
            if not is_hard_to_guess(self.secret_key):
                raise ConfigurationError(
                    "TRACKER_SECRET_KEY must be at least 32 characters drawn at "
                    "random. Make one with: openssl rand -hex 32"
                )
            return self.secret_key
        path = self.data_dir / "secret_key"
        if not path.exists():
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Written to a temporary file and then linked: of two processes that start
            # at once one wins, and neither reads half a key.
            handle, written = tempfile.mkstemp(dir=self.data_dir)
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_hex(32))
                file.flush()
                # A power failure would leave an empty file.
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(written, path)
            Path(written).unlink()
        key = path.read_text().strip()
        if not is_hard_to_guess(key):
            raise ConfigurationError(
                f"the secret key in {path} is empty or easy to guess. Delete the file "
                "and start again to make a new one; everyone signs in again after that"
            )
        return key
