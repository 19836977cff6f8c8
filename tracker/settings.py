"""What differs between deployments, read once and strictly."""

import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from tracker.errors import ConfigurationError

_PREFIX = "TRACKER_"
# A name, one that begins with a dot for all below it, or an address; with a port.
_HOST = re.compile(
    r"(\.?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?"
    r"|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
)
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
# Keys that stand in examples all over the world are no secrets.
_KNOWN_KEYS = frozenset({"changeme", "change-me", "secret", "dev", "top-secret!"})


def _split_words(value: object) -> object:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_split_words)]


def _like(pattern: str, right: str) -> AfterValidator:
    """Take what *pattern* matches, and else say that it must *right*."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"it must {right}")
        return value

    return AfterValidator(check)


PublicUrl = Annotated[
    str,
    _like(
        r"(https?://[A-Za-z0-9.:\[\]_-]+)?",
        "be like https://tracker.example.org, without a path",
    ),
]
# In the clear only within one machine.
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


def _check_role_words(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if not re.fullmatch("(viewer|labeler|editor|admin):.+", word):
            raise ValueError(f"{word!r} must be like admin:staff")
    return words


RoleWords = Annotated[Words, AfterValidator(_check_role_words)]


def _check_hosts(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if not _HOST.fullmatch(word):
            raise ValueError(
                f"{word!r} is no host; it must be like tracker.example.org, without "
                "https:// and without a path"
            )
    return words


Hosts = Annotated[Words, AfterValidator(_check_hosts)]


def _check_is_given(value: Any) -> Any:
    # Somebody meant to name one; the default would quietly be another than that.
    if value == "":
        raise ValueError("it is empty; give it a value, or leave the variable out")
    return value


class Settings(BaseModel):
    """The settings; each is read from ``TRACKER_<NAME>`` or its ``…_FILE``.

    A secret is declared with ``repr=False``, and is then not shown on a page either.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Annotated[Path, BeforeValidator(_check_is_given)] = Field(
        default_factory=lambda: platformdirs.user_data_path("tracker"),
        description="Folder for the embedded database, images and the secret key.",
    )
    database_url: Annotated[str, BeforeValidator(_check_is_given)] = Field(
        default="",
        description="SQLAlchemy URL of the database; SQLite in the data folder "
        "unless given. PostgreSQL: postgresql+psycopg://user:password@host/name.",
    )
    secret_key: str = Field(
        default="",
        repr=False,
        description="Signs the tokens of the forms, at least 32 characters. Made "
        "and kept in the data folder unless given; several machines share one.",
    )
    image_store: ImageStoreUrl = Field(
        default="",
        description="Bucket that keeps the images of queries, s3://bucket/prefix; the "
        "data folder unless given. Needs the extra s3 and an access key.",
    )
    s3_endpoint: Endpoint = Field(
        default="",
        description="Where the bucket is served, if not by Amazon, such as "
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
    public_url: PublicUrl = Field(
        default="",
        description="Where browsers find the server, such as "
        "https://tracker.example.org; with https, cookies go over nothing else.",
    )
    proxies: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Reverse proxies in front, each of which adds to "
        "X-Forwarded-For; without any that header is not believed.",
    )
    oidc_issuer: Issuer = Field(
        default="",
        description="Where people sign in instead of here (OpenID Connect); needs "
        "the extra oidc.",
    )
    oidc_client_id: str = Field(
        default="", description="How the provider knows this server."
    )
    oidc_client_secret: str = Field(
        default="", repr=False, description="What proves it to the provider."
    )
    oidc_role_claim: str = Field(
        default="roles",
        description="The claim that says which role somebody has.",
    )
    oidc_roles: RoleWords = Field(
        default=(),
        description="Words of that claim, each behind the role it stands for, such "
        "as admin:staff; without one a role's own name does.",
    )
    trusted_hosts: Hosts = Field(
        default=(),
        description="Names, besides localhost, under which browsers and programs "
        "may address the server; separated by commas.",
    )
    image_hosts: Hosts = Field(
        default=(),
        description="Hosts whose images (image_url) pages may show; by commas.",
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
    web_threads: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Requests that one web process answers at the same time.",
    )
    web_processes: int = Field(
        default=1, ge=1, le=64, description="Web processes behind one port."
    )
    log_level: LogLevel = Field(
        default="info",
        description="How much is logged: debug, info, warning or error.",
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings from *environ*.

        Raises ConfigurationError for an unknown ``TRACKER_`` variable (it is most
        likely a misspelt one) and for a value that is out of bounds.
        """
        values: dict[str, str] = {}
        for variable, value in environ.items():
            # The test suite has variables of its own, which are no settings.
            if variable.startswith(_PREFIX) and not variable.startswith(
                "TRACKER_TEST_"
            ):
                name, text = _read_variable(variable, value)
                if name in values:
                    raise ConfigurationError(
                        f"{_PREFIX}{name.upper()} and its _FILE are both set; keep one"
                    )
                values[name] = text
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigurationError(_describe(error)) from error

    @property
    def database(self) -> str:
        """The URL of the database, with the default filled in."""
        return self.database_url or f"sqlite:///{self.data_dir / 'tracker.db'}"

    @property
    def image_dir(self) -> Path:
        """The folder that keeps the images of queries, unless a bucket does."""
        return self.data_dir / "images"

    @property
    def allowed_hosts(self) -> list[str]:
        """Return every name under which the server may be addressed."""
        own = urlsplit(self.public_url).hostname
        return [*_LOOPBACK_HOSTS, *([own] if own else []), *self.trusted_hosts]

    @property
    def oidc_role_values(self) -> dict[str, str]:
        """The word of the provider for each role that has another one than its name."""
        return dict(word.split(":", 1) for word in self.oidc_roles)

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the server over HTTPS."""
        return self.public_url.startswith("https://")

    def load_secret_key(self) -> str:
        """Return the secret key, made and stored at the first start.

        Raises ConfigurationError for a key that is short or publicly known.
        """
        if self.secret_key:
            if len(self.secret_key) < 32 or self.secret_key.lower() in _KNOWN_KEYS:
                raise ConfigurationError(
                    "TRACKER_SECRET_KEY must be at least 32 characters, for example "
                    "the output of: openssl rand -hex 32"
                )
            return self.secret_key
        path = self.data_dir / "secret_key"
        if not path.exists():
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Written elsewhere and then linked: of two processes that start at
            # once one wins, and neither ever reads half a key.
            handle, written = tempfile.mkstemp(dir=self.data_dir)
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_hex(32))
            with suppress(FileExistsError):
                os.link(written, path)
            Path(written).unlink()
        return path.read_text()


def _read_variable(variable: str, value: str) -> tuple[str, str]:
    name = variable.removeprefix(_PREFIX).lower()
    if name in Settings.model_fields:
        return name, value
    stem = name.removesuffix("_file")
    if stem != name and stem in Settings.model_fields:
        try:
            return stem, Path(value).read_text().strip()
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(
                f"{variable}: cannot read {value}: {error}"
            ) from error
    known = ", ".join(f"{_PREFIX}{field.upper()}" for field in Settings.model_fields)
    raise ConfigurationError(f"{variable} is not a setting; there are: {known}")


def _describe(error: ValidationError) -> str:
    """Return one line for each setting that is wrong, with what would be right."""

    def line(detail: Any) -> str:
        name = str(detail["loc"][0])
        right = _describe_bounds(name) or detail["msg"].removeprefix("Value error, ")
        return f"{_PREFIX}{name.upper()}={detail['input']!r}: {right}"

    return "\n".join(line(detail) for detail in error.errors())


def _describe_bounds(name: str) -> str | None:
    field = Settings.model_fields[name]
    limits = {
        bound: getattr(limit, bound)
        for limit in field.metadata
        for bound in ("ge", "le")
        if hasattr(limit, bound)
    }
    if not limits:
        return None
    kind = "a whole number" if field.annotation is int else "a number"
    # Not 1.09951e+12, and without commas, as it is to be written.
    return f"it must be {kind} from {limits['ge']:.15g} to {limits['le']:.15g}"
