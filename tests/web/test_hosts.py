"""By which names a server may be addressed."""

import pytest

from tests.web.conftest import Visitor
from tracker.app import create_app
from tracker.settings import Settings
from tracker.storage.database import Database


def test_a_strange_host_is_refused(visitor: Visitor) -> None:
    for path in ("/", "/api/v1/detectors"):
        refused = visitor.get(path, headers={"Host": "evil.example"})
        assert refused.status == 400
        assert "TRACKER_PUBLIC_URL or TRACKER_TRUSTED_HOSTS" in refused.html


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("[::1]", 200),
        ("[::1]:8000", 200),
        ("[FE80::1]", 200),
        ("[fd00::7]:9000", 200),
        ("localhost", 200),
        ("[::2]:8000", 400),
        ("[fd00::70]", 400),
        ("[::1]:99999", 400),
        ("[::1].evil.example", 400),
    ],
)
def test_the_server_goes_by_its_ipv6_addresses(
    settings: Settings, database: Database, host: str, status: int
) -> None:
    told = {"public_url": "http://[fd00::7]", "trusted_hosts": ("[fe80::1]:8000",)}
    app = create_app(settings.model_copy(update=told), database)
    answer = app.test_client().get("/healthz", headers={"Host": host})
    assert answer.status_code == status
