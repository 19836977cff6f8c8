"""Images as people see them: after signing out, and while their bucket is away."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.applications import answering
from tests.browser.conftest import Site
from tests.conftest import SECRET_KEY, by
from tests.processes import SECONDS
from tests.s3 import S3Server
from tracker.app import create_app
from tracker.clock import utc_now
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.people.accounts import create_account
from tracker.services.people.keys import create_key
from tracker.services.people.sign_ins import create_link
from tracker.settings import Settings
from tracker.storage.database import Database

_IS_SEEN = "image => image.complete && image.naturalWidth > 0"


def log_image(url: str, key: str) -> str:
    """Log a query with an image as a program does; return its id."""
    buffer = io.BytesIO()
    Image.new("RGB", (800, 600), "teal").save(buffer, "JPEG")
    logged = requests.post(
        f"{url}/api/v1/detectors/door/queries",
        headers={"Authorization": f"Bearer {key}"},
        files={
            "image": ("door.jpg", buffer.getvalue(), "image/jpeg"),
            "query": ("", json.dumps({"predicted": "YES"}), "application/json"),
        },
        timeout=SECONDS,
    )
    assert logged.status_code == 201, logged.text
    return str(logged.json()["id"])


def prepare(database: Database) -> tuple[str, str]:
    """Make a detector; return an API key, and what a link shows that signs in."""
    with database.write() as session:
        new = NewDetector(name="door", question="Is it closed?", classes=["YES", "NO"])
        create_detector(session, new, by(at=utc_now()))
        key = create_key(session, "camera", "editor", by(at=utc_now()))
        rosa = create_account(
            session, "rosa", "labeler", by(at=utc_now()), has_all_detectors=True
        )
        link = create_link(session, rosa, by(at=utc_now()))
    return key, link


def is_seen(page: Page, source: str) -> bool:
    image = page.locator(f'img[src$="{source}"]')
    image.evaluate("image => image.decode().catch(() => {})")
    return bool(image.evaluate(_IS_SEEN))


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    yield context.new_page()
    context.close()


def test_images_in_a_bucket_are_seen_and_missed_in_words(
    page: Page,
    s3_server: S3Server,
    new_database: Callable[[str], Database],
    tmp_path: Path,
) -> None:
    database = new_database("sqlite")
    key, link = prepare(database)
    settings = Settings(data_dir=tmp_path / "data", secret_key=SECRET_KEY)
    settings = settings.model_copy(update=s3_server.settings())
    with answering(create_app(settings, database)) as url:
        query = log_image(url, key)
        assert len(s3_server.objects()) == 1
        page.goto(f"{url}/sign-in?token={link}")
        page.get_by_role("button", name="Sign in as").click()
        for path, source in (
            (f"/queries/{query}", "/image"),
            ("/detectors/door/queries", "/thumbnail"),
            ("/detectors/door/label/grid", "/thumbnail"),
            ("/detectors/door/label", "/image"),
        ):
            page.goto(url + path)
            assert is_seen(page, source), path
        expect(page.get_by_role("alert")).to_be_hidden()

        s3_server.stop()
        check_what_is_missing(page, url, query)

        s3_server.start()
        page.goto(f"{url}/detectors/door/label")
        assert is_seen(page, "/image")
        page.keyboard.press("1")
        expect(page.locator(".last-answer")).to_contain_text("you said YES")


def check_what_is_missing(page: Page, url: str, query: str) -> None:
    answer = page.goto(f"{url}/queries/{query}/image")
    assert answer is not None
    assert answer.status == 503
    expect(page.locator("main")).to_contain_text(
        "The bucket of the images does not answer; try again."
    )
    page.goto(f"{url}/queries/{query}")
    expect(page.get_by_role("alert")).to_contain_text("cannot be loaded just now")
    # A thumbnail that the browser has kept it would still show.
    page.context.new_cdp_session(page).send("Network.clearBrowserCache")
    page.goto(f"{url}/detectors/door/label/grid")
    expect(page.get_by_text("this query stays open")).to_be_visible()
    expect(page.get_by_label("What I leave open")).to_be_disabled()
    expect(page.get_by_role("radio", name="YES")).to_be_disabled()
    page.goto(f"{url}/detectors/door/label")
    expect(page.get_by_role("alert")).to_contain_text("or skip this query")
    # Nobody answers about what they do not see, by key no more than by button.
    page.keyboard.press("1")
    expect(page.get_by_role("button", name="YES")).to_be_disabled()
    page.get_by_role("link", name="Try again").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("#label-count")).to_have_text("0")
    expect(page.get_by_role("button", name="Skip")).to_be_enabled()


def test_after_signing_out_no_picture_comes_from_the_cache(
    page: Page, site: Site
) -> None:
    page.goto(site.link("viewer of pictures", "viewer"))
    page.get_by_role("button", name="Sign in as").click()
    page.goto(f"{site.url}/detectors/det_1/queries")
    address = page.locator(".query-card img").first.get_attribute("src")
    assert address is not None
    assert is_seen(page, address)
    kept = """address => fetch(address, {cache: "only-if-cached", mode: "same-origin"})
      .then(answer => answer.ok, () => false)"""
    assert page.evaluate(kept, address)
    # Kept, yet shown only if the server lets it be.
    with page.expect_response(f"**{address}") as asked:
        page.reload()
    assert asked.value.request.all_headers()["if-none-match"]
    assert asked.value.ok or asked.value.status == 304
    assert is_seen(page, address)
    page.goto(f"{site.url}/account")
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert not page.evaluate(kept, address)
    page.goto(f"{site.url}{address}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
