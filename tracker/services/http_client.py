"""The HTTP client: a POST to a URL that a user chose.

It connects to public addresses only, unless the operator named the host.  A name is
resolved once, and the connection goes to the checked address, so that DNS rebinding has
no effect.  Redirects are not followed, the size of an answer is limited, and the whole
exchange has one deadline, so that no receiver blocks a thread.
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
from http.client import BadStatusLine, HTTPException, RemoteDisconnected
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from threading import Timer
from typing import Any, Self
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from tracker.services.wording import invalid

_SECONDS = 15.0
_LONGEST_URL = 2_000
_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"https?://[!-.0-;=?A-~]+([/?][!-\[\]-~]*)?", re.ASCII)
# The global unicast addresses of IPv6; all others are local or carry IPv4 inside.
_UNICAST = IPv6Network("2000::/3")
# IANA's special-purpose addresses that some Python releases take for public: protocols,
# documentation, relays, and addresses that carry IPv4 inside.
_SPECIAL = [
    ip_network(one)
    for one in (
        *("192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
        *("192.175.48.0/24", "2001::/23", "2001:db8::/32", "2002::/16"),
        *("2620:4f:8000::/48", "3fff::/20"),
    )
]


class RefusedAddressError(OSError):
    """The host is not public, and the operator has not named it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a POST: a status, or the error."""

    status: int | None
    error: str | None = None
    retry_after: str | None = None
    body: bytes = b""

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    def rest_seconds(self, at: datetime) -> float:
        said = self.retry_after or ""
        if re.fullmatch(r"\d{1,9}", said, re.ASCII):
            return float(said)
        with suppress(ValueError, TypeError, OverflowError):
            return max(0.0, (parsedate_to_datetime(said) - at).total_seconds())
        return 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Parse *url*; raises ValueError."""
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
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, parts.hostname, port, path)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def is_named(self, hosts: Collection[str]) -> bool:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return any(
            _covers(named.lower(), host)
            or _covers(named.lower().removesuffix(f":{self.port}"), host)
            for named in hosts
        )


def _covers(named: str, host: str) -> bool:
    return host == named or (named.startswith(".") and host.endswith(named))


def is_public(address: str) -> bool:
    found: IPv4Address | IPv6Address = ip_address(address)
    if any(found in one for one in _SPECIAL) or not found.is_global:
        return False
    if isinstance(found, IPv4Address):
        return not found.is_multicast
    return found in _UNICAST


def check_target(url: str, allowed_hosts: Collection[str]) -> Target:
    """Parse *url*; raises ValueError if it can never be sent to.

    Names are resolved only when something is sent, as they may change.
    """
    target = Target.of(url)
    try:
        is_refused = not is_public(target.host)
    except ValueError:
        is_refused = target.host == "localhost" or target.host.endswith(".localhost")
    if is_refused and not target.is_named(allowed_hosts):
        raise ValueError(
            "this address is private; use a public one, or add its host to "
            "TRACKER_WEBHOOK_HOSTS"
        )
    return target


def check_predictor(url: str | None, allowed_hosts: Collection[str]) -> None:
    """Raise InvalidInputError unless images may be sent to *url*."""
    if url is None:
        return
    try:
        if len(url) > _LONGEST_URL:
            raise ValueError(f"it has {len(url):,} characters")
        is_named = Target.of(url).is_named(allowed_hosts)
    except ValueError as error:
        raise invalid("predictor", url, str(error)) from error
    if not is_named:
        message = "its host must be in TRACKER_PREDICTOR_HOSTS"
        raise invalid("predictor", url, message)


def post(  # noqa: PLR0913 - the request and its limits.
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    allowed_hosts: Collection[str],
    seconds: float = _SECONDS,
    most_answer: int = 0,
) -> Answer:
    """Send *body* once, within *seconds*, and return the answer or the error.

    Up to *most_answer* bytes of the answer's body are read; a longer one is an error.
    """
    deadline = time.monotonic() + seconds
    try:
        target = check_target(url, allowed_hosts)
        with closing(_connect(target, allowed_hosts, deadline)) as connection:
            return _ask(connection, target, body, headers, deadline, most_answer)
    except socket.gaierror:
        return Answer(None, "the name of the host cannot be resolved")
    except (OSError, ValueError, HTTPException, HTTPError) as error:
        if isinstance(error, TimeoutError) or time.monotonic() >= deadline:
            return Answer(None, f"no answer within {seconds:.0f} seconds")
        if isinstance(error, RemoteDisconnected):
            return Answer(None, "the connection was closed without an answer")
        if isinstance(error, BadStatusLine):
            return Answer(None, "the answer is not HTTP")
        return Answer(None, f"{type(error).__name__}: {error}"[:500])


def _connect(
    target: Target, allowed_hosts: Collection[str], deadline: float
) -> HTTPConnection:
    """Connect to the first allowed address of the host that answers."""
    is_named = target.is_named(allowed_hosts)
    failure: BaseException = RefusedAddressError("the host has no address")
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    for address in [str(one[4][0]) for one in found]:
        if not (is_named or is_public(address)):
            failure = RefusedAddressError(
                "the host is not public; the operator can name it in "
                "TRACKER_WEBHOOK_HOSTS"
            )
            continue
        place: dict[str, Any] = {"host": address, "port": target.port}
        place["timeout"] = _left(deadline)
        connection = HTTPConnection(**place)
        if target.scheme == "https":
            # The certificate is for the name, not for the address.
            place |= {"ssl_context": _tls(), "server_hostname": target.host}
            connection = HTTPSConnection(**place)
        try:
            connection.connect()
        except (OSError, HTTPError) as error:
            connection.close()
            failure = error.__cause__ or error
        else:
            return connection
    raise failure


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _ask(  # noqa: PLR0913, PLR0917 - one exchange.
    connection: HTTPConnection,
    target: Target,
    body: bytes,
    headers: Mapping[str, str],
    deadline: float,
    most_answer: int,
) -> Answer:
    sent = {
        "Host": target.authority,
        "User-Agent": "tracker-webhooks/1",
        "Content-Type": "application/json",
        "Connection": "close",
        **headers,
    }
    # Not the socket's timeout: that starts over with every byte.
    cut = Timer(_left(deadline), _cut, [connection.sock])
    cut.start()
    try:
        connection.request(
            "POST", target.path, body, sent, preload_content=False, decode_content=False
        )
        with closing(connection.getresponse()) as response:
            read = b""
            for piece in response.stream(4096) if most_answer else ():
                read += piece
                if len(read) > most_answer:
                    raise ValueError(f"the answer has more than {most_answer:,} bytes")
            # A head or body cut off by the timer looks complete.
            _left(deadline)
            retry_after = response.headers.get("Retry-After")
            return Answer(response.status, retry_after=retry_after, body=read)
    finally:
        cut.cancel()


def _cut(stream: socket.socket) -> None:
    with suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)
