"""Passkeys in a real browser, whose authenticator is a virtual one."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Site


def add_authenticator(page: Page, *, verifies: bool = True) -> None:
    tools = page.context.new_cdp_session(page)
    tools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": verifies,
        "automaticPresenceSimulation": True,
    }
    tools.send("WebAuthn.addVirtualAuthenticator", {"options": options})


def test_a_passkey_is_added_and_signs_in_without_a_password(
    site: Site, open_page: Any
) -> None:
    page = open_page("/account").page
    add_authenticator(page)
    # A passkey is bound to a name, which an address is not.
    home = site.url.replace("127.0.0.1", "localhost")
    page.goto(site.link("pat", "viewer").replace(site.url, home))
    page.get_by_role("button", name="Sign in as pat").click()
    page.goto(f"{home}/account/second-step")
    page.get_by_label("Name").fill("my phone")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_text("The passkey is added.")).to_be_visible()
    expect(page.get_by_role("rowheader", name="my phone")).to_be_visible()
    page.get_by_role("button", name="Make new codes").click()
    assert len(page.locator("#new-codes").inner_text().split()) == 10

    page.goto(f"{home}/account")
    page.get_by_role("button", name="Sign out", exact=True).first.click()
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("heading", name="Detectors")).to_be_visible()
    page.goto(f"{home}/account/second-step")
    page.get_by_role("button", name="Remove my phone").click()
    expect(page.get_by_text("The passkey is removed.")).to_be_visible()


def test_a_passkey_whose_device_does_not_check_its_holder_is_not_taken(
    site: Site, open_page: Any
) -> None:
    page = open_page("/account").page
    add_authenticator(page, verifies=False)
    page.goto(f"{site.url.replace('127.0.0.1', 'localhost')}/sign-in")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_text("No passkey was used. Try again.")).to_be_visible()
