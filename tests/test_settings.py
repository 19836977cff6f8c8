"""Settings are read strictly, and an error says what would be right."""

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tracker.errors import ConfigurationError
from tracker.settings import Settings

KEY = "9f86d081884c7d659a2feaa0c55ad015"


def refused(environ: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Settings.from_env(environ)
    return str(caught.value)


def test_an_unknown_variable_is_an_error_that_names_it_and_the_known_ones() -> None:
    message = refused({"TRACKER_DATABSE_URL": "x"})

    assert "TRACKER_DATABSE_URL is not a setting" in message
    for name in Settings.model_fields:
        assert f"TRACKER_{name.upper()}" in message


def test_variables_of_others_and_of_the_tests_are_left_alone() -> None:
    environ = {"HOME": "/root", "TRACKER_TEST_POSTGRES_URL": "x", "XTRACKER_A": "y"}
    environ |= {"TRACKER_URL": "x", "TRACKER_KEY": "y", "TRACKER_SPOOL": "z"}
    assert Settings.from_env(environ) == Settings.from_env({})


def test_what_only_begins_like_a_variable_of_the_client_is_unknown() -> None:
    assert "TRACKER_KEYS is not a setting" in refused({"TRACKER_KEYS": "x"})


@pytest.mark.parametrize(
    ("variable", "value", "field", "read"),
    [
        ("TRACKER_DATA_DIR", "/var/lib/tracker", "data_dir", Path("/var/lib/tracker")),
        ("TRACKER_DATABASE_URL", "sqlite:////a.db", "database", "sqlite:////a.db"),
        (
            "TRACKER_DATABASE_READ_URL",
            "sqlite:////b",
            "database_read_url",
            "sqlite:////b",
        ),
        ("TRACKER_SECRET_KEY", KEY, "secret_key", KEY),
        ("TRACKER_IMAGE_STORE", "s3://a.b/c/d", "image_store", "s3://a.b/c/d"),
        ("TRACKER_S3_ENDPOINT", "http://[::1]:9/", "s3_endpoint", "http://[::1]:9"),
        ("TRACKER_S3_REGION", "eu-west-3", "s3_region", "eu-west-3"),
        ("TRACKER_S3_ACCESS_KEY_ID", "AK", "s3_access_key_id", "AK"),
        ("TRACKER_S3_SECRET_ACCESS_KEY", "a/b+c", "s3_secret_access_key", "a/b+c"),
        ("TRACKER_RECOMPUTE_SECONDS", "0.5", "recompute_seconds", 0.5),
        ("TRACKER_TIME_ZONE", "Europe/Berlin", "time_zone", "Europe/Berlin"),
        ("TRACKER_PROXIES", "2", "proxies", 2),
        ("TRACKER_PUBLIC_URL", "https://a.example", "public_url", "https://a.example"),
        ("TRACKER_TRUSTED_HOSTS", "a, b c,d", "trusted_hosts", ("a", "b", "c", "d")),
        ("TRACKER_TRUSTED_HOSTS", "", "trusted_hosts", ()),
        (
            "TRACKER_OIDC_ISSUER",
            "https://a.example",
            "oidc_issuer",
            "https://a.example",
        ),
        (
            "TRACKER_OIDC_ISSUER",
            "http://localhost:9/a",
            "oidc_issuer",
            "http://localhost:9/a",
        ),
        ("TRACKER_OIDC_CLIENT_ID", "tracker", "oidc_client_id", "tracker"),
        ("TRACKER_OIDC_CLIENT_SECRET", "s", "oidc_client_secret", "s"),
        ("TRACKER_OIDC_ROLE_CLAIM", "groups", "oidc_role_claim", "groups"),
        (
            "TRACKER_OIDC_ROLES",
            "admin:a:b, viewer:c",
            "oidc_role_values",
            {"admin": "a:b", "viewer": "c"},
        ),
        ("TRACKER_IMAGE_HOSTS", "a.example", "image_hosts", ("a.example",)),
        (
            "TRACKER_TRUSTED_HOSTS",
            "t, .t.example, [fe80::1], t.example:8000, 192.0.2.1, a_b-c.example.",
            "trusted_hosts",
            (
                *("t", ".t.example", "[fe80::1]", "t.example:8000"),
                *("192.0.2.1", "a_b-c.example."),
            ),
        ),
        ("TRACKER_MAX_BODY_BYTES", "1024", "max_body_bytes", 1024),
        ("TRACKER_KEEP_UNLABELLED_DAYS", "365", "keep_unlabelled_days", 365),
        ("TRACKER_REQUESTS_PER_MINUTE", "600", "requests_per_minute", 600),
        ("TRACKER_WEB_THREADS", "256", "web_threads", 256),
        ("TRACKER_WEB_CONNECTIONS", "4096", "web_connections", 4096),
        ("TRACKER_WEBHOOK_HOSTS", "a.example", "webhook_hosts", ("a.example",)),
        ("TRACKER_PREDICTOR_HOSTS", "b:8080", "predictor_hosts", ("b:8080",)),
        (
            "TRACKER_SECURITY_CONTACT",
            "mailto:a@b.example",
            "security_contact",
            "mailto:a@b.example",
        ),
        (
            "TRACKER_SECOND_FACTOR_ROLES",
            "admin, editor",
            "second_factor_roles",
            ("admin", "editor"),
        ),
        ("TRACKER_OTLP_ENDPOINT", "http://c:4318", "otlp_endpoint", "http://c:4318"),
        ("TRACKER_OTLP_HEADERS", "a=b,c=d", "otlp_headers", "a=b,c=d"),
        ("TRACKER_SMTP_HOST", "smtp.example.org", "smtp_host", "smtp.example.org"),
        ("TRACKER_SMTP_PORT", "465", "smtp_port", 465),
        ("TRACKER_SMTP_SECURITY", "tls", "smtp_security", "tls"),
        ("TRACKER_SMTP_USER", "tracker", "smtp_user", "tracker"),
        ("TRACKER_SMTP_PASSWORD", "word", "smtp_password", "word"),
        ("TRACKER_MAIL_FROM", "t@example.org", "mail_from", "t@example.org"),
        ("TRACKER_WEB_PROCESSES", "64", "web_processes", 64),
        ("TRACKER_BACKUP_KEY", KEY, "backup_key", KEY),
        ("TRACKER_LOG_LEVEL", "warning", "log_level", "warning"),
    ],
)
def test_each_variable_is_read(
    variable: str, value: str, field: str, read: object
) -> None:
    assert getattr(Settings.from_env({variable: value}), field) == read


def test_every_setting_is_among_those_read() -> None:
    [mark] = test_each_variable_is_read.pytestmark
    covered = {case[0].removeprefix("TRACKER_").lower() for case in mark.args[1]}
    assert covered == Settings.model_fields.keys()


@pytest.mark.parametrize(
    ("variable", "value", "right"),
    [
        ("TRACKER_RECOMPUTE_SECONDS", "0", "it must be a number from 0.1 to 3600"),
        ("TRACKER_RECOMPUTE_SECONDS", "3601", "a number from 0.1 to 3600"),
        ("TRACKER_RECOMPUTE_SECONDS", "nan", "a number from 0.1 to 3600"),
        ("TRACKER_RECOMPUTE_SECONDS", "soon", "a number from 0.1 to 3600"),
        ("TRACKER_RECOMPUTE_SECONDS", "", "a number from 0.1 to 3600"),
        ("TRACKER_IMAGE_STORE", "/var/lib/images", "like s3://bucket"),
        ("TRACKER_IMAGE_STORE", "s3://", "like s3://bucket"),
        ("TRACKER_IMAGE_STORE", "s3://bucket/../other", "like s3://bucket"),
        ("TRACKER_IMAGE_STORE", "s3://bucket//prefix", "like s3://bucket"),
        ("TRACKER_IMAGE_STORE", "s3://bucket/?acl", "like s3://bucket"),
        ("TRACKER_IMAGE_STORE", "gs://bucket", "like s3://bucket"),
        ("TRACKER_S3_ENDPOINT", "s3.example.org", "like https://s3.example.org"),
        ("TRACKER_S3_ENDPOINT", "https://a.example/?b", "like https://"),
        ("TRACKER_S3_ENDPOINT", "https://me@a.example", "like https://"),
        ("TRACKER_S3_REGION", "eu west", "it must be like eu-west-3"),
        ("TRACKER_PROXIES", "some", "it must be a whole number from 0 to 10"),
        ("TRACKER_OIDC_ISSUER", "http://a.example", "must begin with https://"),
        ("TRACKER_OIDC_ISSUER", "http://localhost.example", "begin with https://"),
        ("TRACKER_OIDC_ISSUER", "https://", "begin with https://"),
        ("TRACKER_SECOND_FACTOR_ROLES", "boss", "must be like admin,editor"),
        ("TRACKER_SECURITY_CONTACT", "me", "be like mailto:security@example.org"),
        ("TRACKER_OIDC_ROLES", "boss:staff", "must be like admin:staff"),
        ("TRACKER_OIDC_ROLE_CLAIM", "", "it is empty; give it a value"),
        ("TRACKER_PUBLIC_URL", "tracker.example.org", "like https://"),
        ("TRACKER_PUBLIC_URL", "https://a.example/x", "without a path"),
        ("TRACKER_PUBLIC_URL", "https://me@a.example", "like https://"),
        ("TRACKER_PUBLIC_URL", "ftp://a.example", "like https://"),
        ("TRACKER_MAX_BODY_BYTES", "1023", "from 1024 to 1099511627776"),
        ("TRACKER_MAX_BODY_BYTES", "10 MB", "from 1024 to 1099511627776"),
        ("TRACKER_WEB_THREADS", "0", "a whole number from 1 to 256"),
        ("TRACKER_WEB_PROCESSES", "65", "a whole number from 1 to 64"),
        ("TRACKER_LOG_LEVEL", "loud", "debug, info, warning or error"),
        ("TRACKER_LOG_LEVEL", "", "debug, info, warning or error"),
        ("TRACKER_DATABASE_URL", "", "it is empty; give it a value"),
        ("TRACKER_DATA_DIR", "", "it is empty; give it a value"),
        ("TRACKER_TRUSTED_HOSTS", "a b/c", "'b/c' is not a host; it must be like"),
        ("TRACKER_TRUSTED_HOSTS", "https://a.example", "without https://"),
        ("TRACKER_IMAGE_HOSTS", "a.example;", "'a.example;' is not a host"),
        ("TRACKER_IMAGE_HOSTS", "*.a.example", "'*.a.example' is not a host"),
    ],
)
def test_a_bad_value_is_refused_with_its_variable_and_what_would_be_right(
    variable: str, value: str, right: str
) -> None:
    message = refused({variable: value})

    assert message.startswith(f"{variable}={value!r}: ")
    assert right in message
    # None of the words of the library that checks.
    assert not re.search("Input should|Value error|pattern", message)


def test_all_bad_values_are_named_at_once() -> None:
    message = refused({"TRACKER_WEB_THREADS": "0", "TRACKER_LOG_LEVEL": "loud"})

    assert message.splitlines() == [
        "TRACKER_WEB_THREADS='0': it must be a whole number from 1 to 256",
        "TRACKER_LOG_LEVEL='loud': it must be debug, info, warning or error",
    ]


def test_a_value_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")

    settings = Settings.from_env({"TRACKER_SECRET_KEY_FILE": str(file)})

    assert settings.load_secret_key() == KEY


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_has_its_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "absent"
    variable = f"TRACKER_{name.upper()}_FILE"

    assert refused({variable: str(file)}).startswith(f"{variable}: cannot read {file}")


def test_a_file_that_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"\xff\xfe\x00")

    assert "TRACKER_SECRET_KEY_FILE" in refused({"TRACKER_SECRET_KEY_FILE": str(file)})


def test_a_value_and_its_file_contradict_each_other(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)

    message = refused({"TRACKER_SECRET_KEY": KEY, "TRACKER_SECRET_KEY_FILE": str(file)})

    assert "TRACKER_SECRET_KEY and its _FILE are both set" in message
    assert KEY not in message


def test_the_database_lies_in_the_data_folder_unless_it_is_named() -> None:
    settings = Settings(data_dir=Path("/somewhere"))

    assert settings.database == "sqlite:////somewhere/tracker.db"
    assert settings.image_dir == Path("/somewhere/images")


def test_loopback_may_always_be_addressed() -> None:
    assert Settings(trusted_hosts=("t.example",)).allowed_hosts == [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "t.example",
    ]


def test_a_setting_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().web_threads = 4  # type: ignore[misc]


def test_an_empty_file_of_a_secret_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("\n")

    message = refused({"TRACKER_SECRET_KEY_FILE": str(file)})

    assert message == f"TRACKER_SECRET_KEY_FILE: the file {file} is empty"


def test_an_emptied_secret_key_in_the_data_folder_is_refused(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert settings.load_secret_key() == settings.load_secret_key()
    (tmp_path / "secret_key").write_text("")

    with pytest.raises(ConfigurationError, match="is empty or easy to guess"):
        settings.load_secret_key()


def test_a_short_backup_key_is_refused_without_being_shown() -> None:
    message = refused({"TRACKER_BACKUP_KEY": "tiny"})

    assert message.startswith("TRACKER_BACKUP_KEY=…: it has 4 characters")
    assert "it must have at least 32" in message
    assert "tiny" not in message
    assert "easy to guess" in refused({"TRACKER_BACKUP_KEY": "a" * 40})


@pytest.mark.parametrize(
    "key",
    [
        *("x", "changeme", KEY[:31]),
        *("k" * 40, "0123456789abcdef" * 2, "changeme" * 4),
        *("abcdefghijklmnopqrstuvwxyz012345", "password" * 5),
        "dev-secret-key-do-not-use-in-production",
        "your-long-key-CHANGE-me-please-right-now",
    ],
)
def test_a_secret_key_that_can_be_guessed_is_refused_without_being_shown(
    key: str,
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings(secret_key=key).load_secret_key()

    assert "TRACKER_SECRET_KEY must be at least 32 characters" in str(caught.value)
    assert repr(key) not in str(caught.value)


def test_a_secret_key_is_made_once_and_only_its_owner_may_read_it(
    tmp_path: Path,
) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    key = settings.load_secret_key()
    file = tmp_path / "data" / "secret_key"

    assert len(key) == 64
    assert settings.load_secret_key() == key
    assert file.read_text() == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]
    other = Settings(data_dir=tmp_path / "other")
    assert other.load_secret_key() != key


@pytest.mark.thorough
def test_processes_that_start_at_once_agree_on_the_secret_key(tmp_path: Path) -> None:
    def load(_: int) -> str:
        return Settings(data_dir=tmp_path / "data").load_secret_key()

    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(load, range(32)))

    assert len(keys) == 1
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["secret_key"]
