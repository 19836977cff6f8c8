"""What the tests of the API share: a caller, a detector, and the tables."""

import json
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from tests.conftest import pack_parts


class Api:
    """Calls the API with the key of a role, and reads answers strictly."""

    def __init__(self, app: Flask, keys: dict[str, str]) -> None:
        self._client = app.test_client()
        self._keys = keys

    def call(
        self,
        method: str,
        path: str,
        *,
        role: str | None = "admin",
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> TestResponse:
        whole = path if path.startswith(("http:", "/api/")) else f"/api/v1{path}"
        if role is not None:
            headers = {"Authorization": f"Bearer {self._keys[role]}", **(headers or {})}
        # As a server does: read the answer to its end, then close it.
        options.setdefault("buffered", True)
        response = self._client.open(whole, method=method, headers=headers, **options)
        if response.mimetype == "application/json":
            json.loads(response.data, parse_constant=pytest.fail)
        return response

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> TestResponse:
        if body is not None:
            options["json"] = body
        return self.call("POST", path, **options)

    def patch(self, path: str, body: Any, **options: Any) -> TestResponse:
        return self.call("PATCH", path, json=body, **options)

    def put(self, path: str, body: Any, **options: Any) -> TestResponse:
        return self.call("PUT", path, json=body, **options)

    def delete(self, path: str, **options: Any) -> TestResponse:
        return self.call("DELETE", path, **options)

    def send_file(
        self,
        path: str,
        content: bytes | str,
        media_type: str = "text/csv",
        **options: Any,
    ) -> TestResponse:
        return self.call("POST", path, data=content, content_type=media_type, **options)

    def send_parts(
        self, path: str, parts: dict[str, Any], **options: Any
    ) -> TestResponse:
        return self.call("POST", path, **pack_parts(parts), **options)

    def walk(self, path: str) -> list[dict[str, Any]]:
        """Return the items of every page from *path* on."""
        items: list[dict[str, Any]] = []
        address: str | None = path
        while address is not None:
            page = self.get(address)
            assert page.status_code == 200, page.text
            items += page.json["items"]
            address = page.json["next"]
        return items


@pytest.fixture
def api(app: Flask, keys: dict[str, str]) -> Api:
    """The API, called by an admin unless another role is given."""
    return Api(app, keys)


@pytest.fixture
def door(api: Api) -> dict[str, Any]:
    """A detector of two classes."""
    response = api.post("/detectors", {"name": "door", "question": "Is it closed?"})
    assert response.status_code == 201
    return dict(response.json)
