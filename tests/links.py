"""Signing in by a link, as a browser does: open it, then press the button."""

import re
from html import unescape
from typing import Any

from flask.testing import FlaskClient
from playwright.sync_api import APIRequestContext
from werkzeug.test import TestResponse

_FIELD = re.compile(r'name="(csrf_token|token|next)" value="([^"]*)"')
ACTION = "/sign-in/link"


def fields_of(html: str) -> dict[str, str]:
    """What a browser sends from the form of an opened link."""
    form = html.partition(f'action="{ACTION}"')[2].partition("</form>")[0]
    return {name: unescape(value) for name, value in _FIELD.findall(form)}


def use_link(client: FlaskClient, token: str, **query: Any) -> TestResponse:
    opened = client.get("/sign-in", query_string={"token": token, **query})
    if opened.status_code != 200:
        return opened
    return client.post(ACTION, data=fields_of(opened.text))


def sign_in_by(requests: APIRequestContext, link: str) -> None:
    """Sign a browser in by a link, without a page."""
    opened = requests.get(link)
    assert opened.ok
    action = link.partition("/sign-in")[0] + ACTION
    assert requests.post(action, form=fields_of(opened.text())).ok
