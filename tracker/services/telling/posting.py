"""A POST to an address that somebody else chose.

It goes to public addresses alone, unless the operator named the host: each address
that a name resolves to is looked at before it is connected to, and so is the peer
after that, which a name that changes its address in between does not get around.
Redirects are not followed, only the head of an answer is read, and all of it together
has one deadline, so that no receiver can hold up a thread for longer.
"""

import re
import socket
import ssl
import time
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self
from urllib.parse import SplitResult, urlsplit

from tracker.services.wording import invalid

_SECONDS = 15.0
_MOST_HEAD = 16 * 1024
_LONGEST_URL = 2_000
_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"https?://[!-.0-;=?A-~]+([/?][!-\[\]-~]*)?", re.ASCII)
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r?\n")
_RETRY_AFTER = re.compile(
    rb"^retry-after:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE
)
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,12})[ \t]*\r?$", re.I | re.M)
# What IPv6 gives to networks and machines; all else is local or carries IPv4 inside.
_UNICAST = IPv6Network("2000::/3")
# Special-purpose addresses of IANA that Python takes for public, or did before its last
# release: protocols, documentation, relays, and what carries IPv4 inside.
_SPECIAL = tuple(
    map(
        ip_network,
        (
            *("192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24"),
            *("192.88.99.0/24", "192.175.48.0/24", "2001::/23", "2001:db8::/32"),
            *("2002::/16", "2620:4f:8000::/48", "3fff::/20"),
        ),
    )
)


class RefusedAddressError(OSError):
    """The host is not public, and the operator has not named it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a POST: a status, or why there is none."""

    status: int | None
    error: str | None = None
    retry_after: str | None = None
    body: bytes = b""

    @property
    def is_success(self) -> bool:
        """Whether the receiver took it."""
        return self.status is not None and 200 <= self.status < 300

    def rest_seconds(self, at: datetime) -> float:
        """For how long the receiver asked to be left alone, from *at* on."""
        said = self.retry_after or ""
        if re.fullmatch(r"\d{1,9}", said, re.ASCII):
            return float(said)
        with suppress(ValueError, TypeError, OverflowError):
            return max(0.0, (parsedate_to_datetime(said) - at).total_seconds())
        return 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """An address taken apart."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Take *url* apart; raises ValueError that says what would be right."""
        right = "it must be an http or https address, without a user or a fragment"
        if not _URL.fullmatch(url):
            raise ValueError(right)
        try:
            parts = urlsplit(url)
            port = _PORTS[parts.scheme] if parts.port is None else parts.port
        except ValueError as error:
            raise ValueError(right) from error
        if not parts.hostname or "@" in parts.netloc or "#" in url or port == 0:
            raise ValueError(right)
        return cls(parts.scheme, parts.hostname, port, _path(parts))

    @property
    def authority(self) -> str:
        """What the header Host says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def is_named(self, hosts: Collection[str]) -> bool:
        """Return whether the operator named this host: by itself, or with its port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return any(
            _covers(named.lower(), host)
            or _covers(named.lower().removesuffix(f":{self.port}"), host)
            for named in hosts
        )


def _path(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _covers(named: str, host: str) -> bool:
    return host == named or (named.startswith(".") and host.endswith(named))


def is_public(address: str) -> bool:
    """Return whether an address is one of the Internet, and of nothing nearer."""
    found: IPv4Address | IPv6Address = ip_address(address)
    if any(found in one for one in _SPECIAL) or not found.is_global:
        return False
    if isinstance(found, IPv4Address):
        return not found.is_multicast
    return found in _UNICAST


def check_target(url: str, allowed_hosts: Collection[str]) -> Target:
    """Return *url* taken apart; raises ValueError for one that is never told.

    A name is looked up only when it is told something, as it may change.
    """
    target = Target.of(url)
    try:
        is_refused = not is_public(target.host)
    except ValueError:
        is_refused = target.host == "localhost" or target.host.endswith(".localhost")
    if is_refused and not target.is_named(allowed_hosts):
        raise ValueError("it must be public, or its host in TRACKER_WEBHOOK_HOSTS")
    return target


def check_predictor(url: str | None, allowed_hosts: Collection[str]) -> None:
    """Raise InvalidInputError unless *url* is one that images may be sent to."""
    if url is None:
        return
    try:
        if len(url) > _LONGEST_URL:
            raise ValueError(f"it has {len(url):,} characters")
        is_named = Target.of(url).is_named(allowed_hosts)
    except ValueError as error:
        raise invalid("predictor", url, str(error)) from error
    if not is_named:
        message = "its host must stand in TRACKER_PREDICTOR_HOSTS"
        raise invalid("predictor", url, message)


def post(  # noqa: PLR0913 - what is sent, where it may go, and how long.
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    allowed_hosts: Collection[str],
    seconds: float = _SECONDS,
    most_answer: int = 0,
) -> Answer:
    """Send *body* once, within so many seconds, and return what came of it.

    With up to *most_answer* bytes of what was answered; longer than that is an error.
    """
    deadline = time.monotonic() + seconds
    try:
        target = check_target(url, allowed_hosts)
        sent = {
            "Host": target.authority,
            "User-Agent": "tracker-webhooks/1",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        # What answers 1.0 sends its body in one piece.
        version = "HTTP/1.0" if most_answer else "HTTP/1.1"
        request = f"POST {target.path} {version}\r\n{head}\r\n".encode("ascii") + body
        with closing(_open(target, allowed_hosts, deadline)) as stream:
            stream.settimeout(_left(deadline))
            stream.sendall(request)
            return _read_answer(stream, deadline, most_answer)
    except TimeoutError:
        return Answer(None, f"no answer within {seconds:.0f} seconds")
    except socket.gaierror:
        return Answer(None, "the name of the host cannot be resolved")
    except (OSError, ValueError) as error:
        return Answer(None, f"{type(error).__name__}: {error}"[:500])


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _open(
    target: Target, allowed_hosts: Collection[str], deadline: float
) -> socket.socket:
    stream = _connect(target, allowed_hosts, deadline)
    if target.scheme == "http":
        return stream
    try:
        stream.settimeout(_left(deadline))
        return _tls().wrap_socket(stream, server_hostname=target.host)
    except BaseException:
        stream.close()
        raise


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _connect(
    target: Target, allowed_hosts: Collection[str], deadline: float
) -> socket.socket:
    is_named = target.is_named(allowed_hosts)
    failure: OSError = RefusedAddressError("the host has no address")
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, address in found:
        stream = socket.socket(family, kind, protocol)
        try:
            _check_public(str(address[0]), is_named)
            stream.settimeout(_left(deadline))
            stream.connect(address)
            _check_public(str(stream.getpeername()[0]), is_named)
        except OSError as error:
            stream.close()
            failure = error
        else:
            return stream
    raise failure


def _check_public(address: str, is_named: bool) -> None:
    if not (is_named or is_public(address)):
        raise RefusedAddressError(
            "the host is not public; the operator can name it in TRACKER_WEBHOOK_HOSTS"
        )


def _read_answer(stream: socket.socket, deadline: float, most: int) -> Answer:
    """Read the head of the answer, and its body if that is wanted.

    An answer to come is passed over.
    """
    received = b""
    while len(received) < _MOST_HEAD:
        stream.settimeout(_left(deadline))
        piece = stream.recv(4096)
        if not piece:
            break
        received += piece
        while b"\r\n\r\n" in received:
            head, _, received = received.partition(b"\r\n\r\n")
            found = _STATUS.match(head + b"\r\n")
            if found is None:
                return Answer(None, "the answer is not HTTP")
            if (status := int(found[1])) >= 200:
                retry = _RETRY_AFTER.search(head)
                text = None if retry is None else retry[1].decode("latin-1").strip()
                if not most:
                    return Answer(status, retry_after=text)
                body = _read_body(stream, deadline, head, received, most)
                return Answer(status, retry_after=text, body=body)
    return Answer(None, "the connection was closed without an answer")


def _read_body(
    stream: socket.socket, deadline: float, head: bytes, received: bytes, most: int
) -> bytes:
    """Read as much as the head says, else until the connection is closed."""
    found = _LENGTH.search(head)
    length = None if found is None else int(found[1])
    while length is None or len(received) < length:
        if len(received) > most or (length or 0) > most:
            raise ValueError(f"the answer has more than {most:,} bytes")
        stream.settimeout(_left(deadline))
        piece = stream.recv(4096)
        if not piece:
            if length is not None:
                raise ValueError("the answer breaks off")
            break
        received += piece
    return received[:length]
