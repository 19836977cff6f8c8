"""The settings of a deployment, read once and strictly."""

import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tracker.errors import ConfigurationError
from tracker.settings.fields import (
    BackupKey,
    Contact,
    Endpoint,
    Headers,
    Hosts,
    ImageStoreUrl,
    Issuer,
    LogLevel,
    MailSecurity,
    PublicUrl,
    Region,
    Roles,
    RoleWords,
    TimeZone,
    check_is_given,
    describe_errors,
    is_hard_to_guess,
    read_variables,
)

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
    public_url: PublicUrl = Field(
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
    oidc_issuer: Issuer = Field(
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
        default="roles",
        description="The claim with the role of a person.",
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
        default="info",
        description="How much is logged: debug, info, warning or error.",
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings from *environ*; raises ConfigurationError."""
        fields = cls.model_fields
        try:
            return cls.model_validate(read_variables(environ, fields))
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
