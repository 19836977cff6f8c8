"""What the tests of the device API share: a caller, and the SDK from its registry."""

import base64
import fcntl
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from PIL import Image
from werkzeug.test import TestResponse

VERSIONS = ("1.3.1", "1.1.0", "0.31.0")


def encode(metadata: Any) -> str:
    """Metadata as the SDK puts it into an address."""
    return base64.urlsafe_b64encode(json.dumps(metadata).encode()).decode()


def jpeg(colour: str = "red") -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (16, 16), colour).save(content, "JPEG")
    return content.getvalue()


class Device:
    """Calls the device API with the key of a role, and reads answers strictly."""

    def __init__(self, app: Flask, keys: dict[str, str]) -> None:
        self._client = app.test_client()
        self.keys = keys

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: str | None = "admin",
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> TestResponse:
        headers = dict(headers or {})
        if role is not None:
            headers["x-api-token"] = self.keys[role]
        if body is not None:
            options["json"] = body
        options.setdefault("buffered", True)
        response = self._client.open(
            f"/device-api/v1{path}", method=method, headers=headers, **options
        )
        if response.mimetype == "application/json":
            json.loads(response.data, parse_constant=pytest.fail)
        return response

    def get(self, path: str, status: int = 200) -> Any:
        response = self.call("GET", path)
        assert response.status_code == status, response.text
        return response.json

    def post(self, path: str, body: Any, status: int = 201) -> Any:
        response = self.call("POST", path, body)
        assert response.status_code == status, response.text
        return response.json

    def make(self, name: str = "door", **more: Any) -> Any:
        body = {"name": name, "query": "Is it closed?", "pipeline_config": None}
        return self.post("/detectors", {**body, "edge_pipeline_config": None, **more})

    def submit(
        self,
        detector: str,
        metadata: Any = None,
        *,
        image: bytes | None = None,
        headers: dict[str, str] | None = None,
        **more: str,
    ) -> TestResponse:
        query = {"detector_id": detector, **more}
        if metadata is not None:
            query["metadata"] = encode(metadata)
        return self.call(
            "POST",
            "/image-queries",
            query_string=query,
            data=jpeg() if image is None else image,
            content_type="image/jpeg",
            headers=headers,
        )

    def log(self, detector: str, metadata: Any = None, **more: Any) -> Any:
        response = self.submit(detector, metadata, **more)
        assert response.status_code == 201, response.text
        return response.json

    def label(self, query: str, label: Any, status: int = 201) -> Any:
        body = {"label": label, "image_query_id": query, "rois": None}
        return self.post("/labels", body, status)


@pytest.fixture
def device(app: Flask, keys: dict[str, str]) -> Device:
    """The device API, called by an admin unless another role is given."""
    return Device(app, keys)


@pytest.fixture(scope="session")
def sdk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Gives the folder of programs of an environment with that version of the SDK.

    It is made once and kept beside the cache of pytest; several processes may ask.
    Without that cache it is kept beside the temporary folders.
    """
    if request.config.pluginmanager.has_plugin("cacheprovider"):
        assert request.config.cache is not None
        kept = request.config.cache.mkdir("groundlight")
    else:
        kept = tmp_path_factory.getbasetemp().parent / "groundlight"
        kept.mkdir(exist_ok=True)

    def find(version: str) -> Path:
        folder = kept / version
        done = folder / "installed"
        with (kept / f"{version}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                _install(folder, version)
                done.touch()
        return folder / "bin"

    return find


def _install(folder: Path, version: str) -> None:
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run(
        [*uv, "venv", "--clear", "--python", sys.executable, folder], check=True
    )
    install = ["pip", "install", "--python", folder / "bin" / "python"]
    tried = subprocess.run(
        [*uv, *install, f"groundlight=={version}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode and "CI" not in os.environ:  # noqa: TID251 - of the tests
        pytest.skip(f"groundlight {version} cannot be installed: {tried.stderr[-300:]}")
    assert tried.returncode == 0, tried.stderr
