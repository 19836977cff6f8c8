"""Signing in at a provider, as somebody does who clicks."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.applications import answering
from tests.conftest import SECRET_KEY
from tests.web.openid import CLIENT_ID, CLIENT_SECRET, Provider, started
from tracker.app import create_app
from tracker.settings import Settings
from tracker.storage.database import Database


@pytest.fixture
def provider() -> Iterator[Provider]:
    with started() as running:
        running.asks = True
        running.claims = {"sub": "42", "preferred_username": "maria"}
        yield running


@pytest.fixture
def page(
    chromium: Browser,
    provider: Provider,
    new_database: Callable[[str], Database],
    tmp_path: Path,
) -> Iterator[Page]:
    """A browser at a real server, whose people sign in at the provider."""
    settings = Settings(
        data_dir=tmp_path / "data",
        secret_key=SECRET_KEY,
        oidc_issuer=provider.issuer,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
    )
    with answering(create_app(settings, new_database("sqlite"))) as url:
        # By this name it is another site than the provider, as it is in use.
        context = chromium.new_context(base_url=url.replace("127.0.0.1", "localhost"))
        yield context.new_page()
        context.close()


def go_through(page: Page, provider: Provider) -> None:
    page.get_by_role("link", name="Sign in at 127.0.0.1").click()
    assert page.url.startswith(f"{provider.issuer}/authorize?")
    page.get_by_role("link", name="Let me in").click()


def test_one_signs_in_at_the_provider_and_out_again(
    page: Page, provider: Provider
) -> None:
    provider.claims["roles"] = ["labeler"]
    page.goto("/account")
    go_through(page, provider)
    expect(page).to_have_url("/account")
    expect(page.get_by_role("heading", level=1)).to_have_text("maria")
    expect(page.locator("main")).to_contain_text("Your role is labeler")
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page).to_have_url("/sign-in")
    page.goto("/account")
    expect(page).to_have_url("/sign-in?next=/account")


def test_who_has_no_role_reads_why_and_whom_to_ask(
    page: Page, provider: Provider
) -> None:
    provider.claims["roles"] = ["boss"]
    page.goto("/")
    go_through(page, provider)
    expect(page.get_by_role("heading", level=1)).to_have_text("Forbidden")
    expect(page.locator("main")).to_contain_text(
        "The provider gives you no role here; ask the operator of this server."
    )
    page.get_by_role("link", name="Back to signing in").click()
    expect(page).to_have_url("/sign-in")
    provider.claims["roles"] = ["viewer"]
    go_through(page, provider)
    expect(page).to_have_url("/")
    expect(page.get_by_role("link", name="maria")).to_be_visible()
