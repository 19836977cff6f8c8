"""Where a webhook may lead, and that no receiver holds its thread up."""

import ipaddress
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.telling.receiver import (
    Behaviour,
    answer,
    drip,
    endless_head,
    receiving,
    reset,
    stay_silent,
    stream,
    write,
)
from tracker.services.http_client import (
    Answer,
    Target,
    _tls,
    check_target,
    is_public,
    post,
)

NOT_PUBLIC = (
    "127.0.0.1 127.8.8.8 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 "
    "169.254.169.254 100.64.0.1 100.127.255.254 192.0.0.1 192.0.2.1 198.18.0.1 "
    "198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 "
    ":: ::1 ::ffff:8.8.8.8 ::ffff:10.0.0.1 ::8.8.8.8 64:ff9b::808:808 "
    "64:ff9b::a00:1 64:ff9b:1::1 2002:808:808::1 2002:a00:1::1 "
    "2001:0:808:808::1 2001:db8::1 fe80::1 fe80::1%eth0 fec0::1 fc00::1 fd12::1 "
    "ff02::1 100::1 192.0.0.8 192.0.0.170 192.31.196.1 192.52.193.1 192.88.99.1 "
    "192.175.48.1 2001:2::1 2001:20::1 2620:4f:8000::1 3fff::1 3fff:fff::1 "
    "5f00::1 100:0:0:1::1"
)


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_an_address_that_is_not_public_is_known(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111"])
def test_a_public_address_is_known(address: str) -> None:
    assert is_public(address)
    assert ipaddress.ip_address(address).is_global


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "//example.org/",
        "example.org",
        "http://",
        "http:///x",
        "http://user@example.org/",
        "http://user:word@example.org/",
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://example.org/a b",
        "http://example.org/a\r\nX: y",
        "http://example.org\\@10.0.0.1/",
        "http://example.org/#part",
        "http://ex\u00e4mple.org/",
        "http://[::1/",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        Target.of(url)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://[::1]/", "http://localhost/"]
)
def test_a_private_host_must_be_named(url: str) -> None:
    with pytest.raises(ValueError, match="TRACKER_WEBHOOK_HOSTS"):
        check_target(url, ())
    host = url.split("/")[2]
    assert check_target(url, (host,)).authority == host
    with pytest.raises(ValueError, match="TRACKER_WEBHOOK_HOSTS"):
        check_target(url, ("other.example.org", "127.0.0.1:2"))


def test_a_dot_names_all_below() -> None:
    target = Target.of("http://a.example.org:8080/")
    assert target.is_named((".example.org",))
    assert target.is_named((".EXAMPLE.org:8080",))
    assert not target.is_named((".example.org:81", "example.org", "ample.org"))


@pytest.mark.thorough
@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "017700000001"])
def test_other_ways_to_write_loopback_lead_nowhere(host: str) -> None:
    with receiving() as receiver:
        url = f"http://{host}:{receiver.port}/"
        found = post(url, b"{}", {}, allowed_hosts=())
        assert found.status is None
        assert receiver.messages == []


@pytest.mark.thorough
def test_a_name_that_turns_to_a_private_address_is_not_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with receiving() as receiver:
        # The name server is of the world outside.
        private = (
            socket.AF_INET,
            socket.SOCK_STREAM,
            6,
            "",
            ("127.0.0.1", receiver.port),
        )
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [private])
        found = post("http://rebind.example.org/", b"{}", {}, allowed_hosts=())
        assert found.status is None
        assert "TRACKER_WEBHOOK_HOSTS" in (found.error or "")
        assert receiver.messages == []
        named = ("rebind.example.org",)
        assert post(
            "http://rebind.example.org/", b"", {}, allowed_hosts=named
        ).is_success


def send(behaviour: Behaviour | None, seconds: float = 15.0) -> Answer:
    with receiving(behaviour) as receiver:
        begun = time.monotonic()
        named = (receiver.host,)
        found = post(
            receiver.url, b'{"a":1}', {"X-A": "b"}, allowed_hosts=named, seconds=seconds
        )
        assert time.monotonic() - begun < seconds + 5
        (message,) = receiver.messages
        assert message.body == b'{"a":1}'
        assert message.path == "/hook?a=1"
        assert message.headers["host"] == receiver.host
        assert message.headers["x-a"] == "b"
        return found


@pytest.mark.slow
def test_a_status_is_all_that_is_read() -> None:
    assert send(None).is_success
    assert send(answer(500)).status == 500
    assert send(stream).is_success
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n\r\n"
    assert send(lambda handler: write(handler, early)).status == 201


@pytest.mark.thorough
def test_a_redirect_is_not_followed() -> None:
    with receiving() as other:
        found = send(answer(302, f"Location: {other.url}"))
        assert found.status == 302
        assert not found.is_success
        assert other.messages == []


@pytest.mark.thorough
@pytest.mark.parametrize("behaviour", [stay_silent, drip])
def test_slowness_has_one_deadline(behaviour: Behaviour) -> None:
    found = send(behaviour, seconds=0.7)
    assert found == Answer(None, "no answer within 1 seconds")


@pytest.mark.thorough
@pytest.mark.parametrize("behaviour", [reset, endless_head])
def test_what_is_no_answer_is_none(behaviour: Behaviour) -> None:
    found = send(behaviour)
    assert found.status is None
    assert found.error
    nonsense = send(lambda handler: write(handler, b"hello\r\n\r\n"))
    assert nonsense == Answer(None, "the answer is not HTTP")


def test_a_body_that_is_too_long_or_too_slow_is_an_error() -> None:
    def ask(behaviour: Behaviour, seconds: float = 15.0) -> Answer:
        with receiving(behaviour) as receiver:
            named = (receiver.host,)
            return post(
                receiver.url,
                b"",
                {},
                allowed_hosts=named,
                seconds=seconds,
                most_answer=4,
            )

    def say(body: bytes, length: int) -> Behaviour:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode()
        return lambda handler: write(handler, head + body)

    assert ask(say(b"fine", 4)).body == b"fine"
    assert "more than 4 bytes" in (ask(say(b"longer", 6)).error or "")
    assert "IncompleteRead" in (ask(say(b"fi", 4)).error or "")
    assert ask(drip, 0.7) == Answer(None, "no answer within 1 seconds")


def test_a_certificate_must_be_trusted_and_that_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make_certificate("localhost", key, certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with receiving(tls=context) as receiver:

        def ask(host: str) -> Answer:
            _tls.cache_clear()
            url = f"https://{host}:{receiver.port}/"
            return post(url, b"", {}, allowed_hosts=(host,))

        assert "self-signed certificate" in (ask("localhost").error or "")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert "not valid for '127.0.0.1'" in (ask("127.0.0.1").error or "")
        assert receiver.messages == []
        assert ask("localhost").is_success
    _tls.cache_clear()


def make_certificate(name: str, key_file: Path, certificate_file: Path) -> None:
    """Write a certificate for *name* that is signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    alternative = x509.SubjectAlternativeName([x509.DNSName(name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )


def test_an_address_where_nobody_listens_is_reported() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        found = post(f"http://127.0.0.1:{port}/", b"", {}, allowed_hosts=("127.0.0.1",))
    assert found.status is None
    assert "Refused" in (found.error or "")


@pytest.mark.thorough
def test_the_wish_to_be_left_alone_is_read_in_both_forms() -> None:
    at = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    assert send(answer(503, "Retry-After: 120")).rest_seconds(at) == 120
    date = send(answer(429, "retry-after: Sat, 31 Jan 2026 12:01:30 GMT"))
    assert date.rest_seconds(at) == 90
    for text in ("-5", "soon", "", "Sat, 31 Jan 2020 12:00:00 GMT", "\u0663"):
        assert Answer(503, retry_after=text).rest_seconds(at) == 0
