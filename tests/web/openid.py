"""A small provider (OpenID Connect) that really signs and checks what it is sent."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any
from urllib.parse import urlencode

from joserfc import jwt
from joserfc.jwk import RSAKey
from werkzeug import Request, Response
from werkzeug.serving import make_server

CLIENT_ID, CLIENT_SECRET = "tracker", "a secret between the two"


class Provider:
    """Lets everybody in whom ``claims`` describe, and says so to the server."""

    def __init__(self) -> None:
        self.issuer = ""
        self.claims: dict[str, Any] = {}
        self.refuses = False
        # Whether it shows a page first, as one does where nobody is signed in yet.
        self.asks = False
        self._key = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})
        # What the next tokens are signed with, and its number.
        self.signing_key = self._key
        self._asked: dict[str, dict[str, str]] = {}

    def __call__(self, environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        views = {
            "/.well-known/openid-configuration": self._describe,
            "/authorize": self._authorize,
            "/token": self._give_token,
            "/keys": self._list_keys,
        }
        view = views.get(request.path)
        # A browser asks for an icon, too.
        answer = Response(status=404) if view is None else view(request)
        return answer(environ, start_response)

    def _describe(self, _request: Request) -> Response:
        return _dump(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    def _list_keys(self, _request: Request) -> Response:
        return _dump({"keys": [self._key.as_dict(private=False)]})

    def _authorize(self, request: Request) -> Response:
        asked = request.args.to_dict()
        assert asked["client_id"] == CLIENT_ID
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        back = {"state": asked["state"]}
        if self.refuses:
            back["error"] = "access_denied"
        else:
            back["code"] = secrets.token_urlsafe()
            self._asked[back["code"]] = asked
        place = f"{asked['redirect_uri']}?{urlencode(back)}"
        if self.asks:
            page = f'<!doctype html><a href="{escape(place)}">Let me in</a>'
            return Response(page, content_type="text/html")
        return Response(status=302, headers={"Location": place})

    def _give_token(self, request: Request) -> Response:
        form = request.form
        asked = self._asked.pop(form["code"], None)
        who = request.authorization
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or who is None
            or (who.username, who.password) != (CLIENT_ID, CLIENT_SECRET)
            or challenge != asked["code_challenge"]
            or form["redirect_uri"] != asked["redirect_uri"]
        ):
            return Response(json.dumps({"error": "invalid_grant"}), 400)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 60,
            "nonce": asked["nonce"],
        }
        header = {"alg": "RS256", "kid": "k1"}
        token = jwt.encode(header, claims | self.claims, self.signing_key)
        return _dump({"access_token": "x", "token_type": "Bearer", "id_token": token})


def _dump(body: Any) -> Response:
    return Response(json.dumps(body), content_type="application/json")


@contextmanager
def started() -> Iterator[Provider]:
    """Run a provider on loopback."""
    provider = Provider()
    server = make_server("127.0.0.1", 0, provider, threaded=True)
    provider.issuer = f"http://127.0.0.1:{server.port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield provider
    server.shutdown()
    thread.join()
    server.server_close()
