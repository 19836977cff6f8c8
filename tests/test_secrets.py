"""No secret reaches a log, an error or, unless it must be read again, a backup."""

import base64
import contextlib
import json
import re
import secrets
import subprocess
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.processes import (
    TRACKER,
    Process,
    clean_environ,
    fetch,
    free_port,
    wait_until,
)

pytestmark = pytest.mark.slow

# Nothing is left out of the log.
_SETTINGS = {
    "TRACKER_LOG_LEVEL": "debug",
    "TRACKER_RECOMPUTE_SECONDS": "0.5",
    "TRACKER_WEB_PROCESSES": "1",
}


class Product:
    """All of Tracker as one command, what it wrote, and the secrets that it was told.

    *told* are secrets by what they are; those in *readable* are stored as they are.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.log = folder / "log"
        self.folder = folder
        self.port = free_port()
        password = secrets.token_hex(12)
        self.told = {
            name: secrets.token_hex(24)
            for name in ("secret key", "password of the mail server", "bucket")
        }
        self.readable: set[str] = set()
        self.environ = clean_environ(
            TRACKER_DATABASE_URL=url,
            TRACKER_DATA_DIR=str(folder / "data"),
            TRACKER_SECRET_KEY=self.told["secret key"],
            TRACKER_SMTP_HOST="127.0.0.1",
            TRACKER_SMTP_USER="tracker",
            TRACKER_SMTP_PASSWORD=self.told["password of the mail server"],
            TRACKER_MAIL_FROM="tracker@example.org",
            TRACKER_PUBLIC_URL=f"http://127.0.0.1:{self.port}",
            TRACKER_WEBHOOK_HOSTS="127.0.0.1",
            TRACKER_S3_SECRET_ACCESS_KEY=self.told["bucket"],
            **_SETTINGS,
        )
        self.told["wrong key"] = f"trk_{password}"
        self.said: list[str] = []
        command = [*TRACKER, "serve", "--port", str(self.port)]
        self.process = Process(command, self.environ, log=self.log)
        self.said.append(self.process.line())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, *words: str) -> str:
        """Return what a command prints; what it says of errors counts as said."""
        done = subprocess.run(
            [*TRACKER, *words],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.said.append(done.stderr)
        return done.stdout

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the answer's JSON; of a refusal, which counts as said, None."""
        sent = {"Content-Type": "application/json", **headers}
        url = f"{self.url}{path}"
        try:
            return json.loads(fetch(url, method=method, body=body, headers=sent))
        except urllib.error.HTTPError as error:
            self.said.append(error.read().decode() + str(error.headers))
            return None


@pytest.fixture
def product(database_url: str, tmp_path: Path) -> Iterator[Product]:
    started = Product(database_url, tmp_path)
    try:
        yield started
    finally:
        started.process.kill()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def use_keys(product: Product) -> dict[str, str]:
    """Use a key as one should and as one should not; return the header with it."""
    key = product.run("keys", "create", "camera", "--role", "admin").split()[-1]
    product.told["key"] = key
    right, api = bearer(key), "/api/v1/detectors"
    new = {"name": "door", "question": "Is it closed?", "target": 0.9}
    assert product.call("POST", api, new, **right)["name"] == "door"
    wrong = product.told["wrong key"]
    basic = base64.b64encode(f"camera:{key}".encode()).decode()
    product.told["key in another header"] = basic
    for headers in (bearer(wrong), {"Authorization": f"Basic {basic}"}, {}):
        assert product.call("GET", f"{api}/door", **headers) is None
    # Where no key belongs: an address, a name, a number.
    for query in (f"?key={key}", f"?version={key}&where={key}"):
        product.call("GET", f"{api}/door/estimate{query}", **bearer(wrong))
    return right


def use_links(product: Product) -> None:
    """Sign in by a link and by a password that is wrong, in a browser's way."""
    link = product.run("accounts", "create", "erin", "--role", "admin").split()[-1]
    token = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)["token"][0]
    product.told["sign-in link"] = token
    kept = urllib.request.HTTPCookieProcessor()
    opener = urllib.request.build_opener(kept)
    page = opener.open(f"{product.url}/sign-in?token={token}").read().decode()
    fields = dict(re.findall(r'name="(csrf_token|token)" value="([^"]*)"', page))
    product.told["form token"] = fields["csrf_token"]
    sent = urllib.parse.urlencode(fields).encode()
    signed_in: HTTPResponse = opener.open(f"{product.url}/sign-in/link", sent)
    assert signed_in.status == 200
    for cookie in kept.cookiejar:
        assert cookie.value
        product.told[f"cookie {cookie.name}"] = cookie.value
    # The link is used up; a password goes to the same form.
    product.told["password"] = secrets.token_hex(16)
    wrong = {"name": "erin", "password": product.told["password"]}
    for path, said in (("/sign-in/link", fields), ("/sign-in", fields | wrong)):
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(
                f"{product.url}{path}", urllib.parse.urlencode(said).encode()
            )


def tell(product: Product, right: dict[str, str]) -> None:
    """Make a webhook that nobody answers, with a secret in its address, and a badge."""
    product.told["address of a webhook"] = secrets.token_urlsafe(24)
    place = f"http://127.0.0.1:{free_port()}/{product.told['address of a webhook']}"
    new = {"url": place, "events": ["verdict.changed"], "detectors": ["door"]}
    made = product.call("POST", "/api/v1/webhooks", new, **right)
    product.told["secret of a webhook"] = made["secret"]
    product.readable |= {"secret of a webhook", "address of a webhook"}
    path = f"/api/v1/webhooks/{made['id']}"
    assert product.call("POST", f"{path}/test", **right) is not None

    def was_tried() -> bool:
        found = product.call("GET", f"{path}/deliveries", **right)
        return any(delivery["attempts"] for delivery in found["items"])

    wait_until(was_tried)
    badge = product.run("badges", "create", "door")
    [token] = set(re.findall(r"/badge/([\w-]{16,})", badge))
    product.told["badge"] = token
    assert fetch(f"{product.url}/badge/{token}.svg")


def test_no_secret_is_written_to_a_log_an_error_or_a_backup(product: Product) -> None:
    right = use_keys(product)
    use_links(product)
    tell(product, right)
    backup = product.folder / "backup"
    product.run("backup", str(backup))
    product.said.append(product.run("doctor"))
    assert product.process.stop() == 0
    log = product.log.read_text()
    assert "worker started" in log
    with zipfile.ZipFile(backup) as parts:
        stored = b"".join(map(parts.read, parts.namelist()))
    assert b"door" in stored
    said = "".join(product.said)
    for what, secret in product.told.items():
        assert len(secret) >= 16, what
        assert secret not in log, f"{what} is in the log"
        assert secret not in said, f"{what} is in an answer or error"
        is_stored = secret.encode() in stored
        assert is_stored == (what in product.readable), f"{what} in the backup"
