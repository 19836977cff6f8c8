"""Signing in at a provider (OpenID Connect), if the settings name one."""

from importlib.util import find_spec
from typing import Any

from flask import Flask, current_app, request, url_for
from flask import session as cookie
from flask.typing import ResponseReturnValue

from tracker.errors import (
    ConfigurationError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
)
from tracker.http import PUBLIC, by, context, database
from tracker.services.people.sign_ins import admit, choose_role, end_role
from tracker.settings import Settings
from tracker.web.blueprint import page
from tracker.web.people.sign_in import go_on, own_path, replace_sign_in

_EXTENSION = "tracker-provider"
_NEXT = "next"
_SECONDS = 10


def add_provider(app: Flask, settings: Settings) -> None:
    """Add the sign-in at the provider of *settings*, if there is one.

    Raises ConfigurationError if its package is missing.
    """
    if not settings.oidc_issuer:
        return
    check_provider(settings)
    # Optional: only needed with a provider.
    from authlib.integrations.flask_client import OAuth  # noqa: PLC0415

    issuer = settings.oidc_issuer.rstrip("/")
    app.extensions[_EXTENSION] = OAuth(app).register(
        "provider",
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        server_metadata_url=f"{issuer}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid profile email",
            "code_challenge_method": "S256",
            "default_timeout": _SECONDS,
        },
    )


def check_provider(settings: Settings) -> None:
    """Raise ConfigurationError for a provider that cannot be used."""
    if not settings.oidc_issuer:
        return
    if not (settings.oidc_client_id and settings.oidc_client_secret):
        raise ConfigurationError(
            "TRACKER_OIDC_ISSUER needs TRACKER_OIDC_CLIENT_ID and "
            "TRACKER_OIDC_CLIENT_SECRET from the provider"
        )
    if not (find_spec("authlib") and find_spec("requests")):
        raise ConfigurationError(
            "TRACKER_OIDC_ISSUER needs the extra oidc: "
            "pip install 'tracker-server[oidc]'"
        )


@page("GET /sign-in/provider", PUBLIC)
def go_to_provider() -> ResponseReturnValue:
    """Redirect to the provider, which sends the visitor back."""
    client = _client()
    cookie[_NEXT] = own_path(request.args.get("next"))
    back = url_for("pages.come_from_provider", _external=True)
    answer: ResponseReturnValue = _ask(client.authorize_redirect, back)
    return answer


@page("GET /sign-in/provider/back", PUBLIC)
def come_from_provider() -> ResponseReturnValue:
    """Sign in the person in the provider's claims, with the role in them."""
    client, settings = _client(), context().settings
    onward = own_path(cookie.get(_NEXT))
    claims = _ask(client.authorize_access_token).get("userinfo")
    if not claims:
        raise ForbiddenError("the provider did not say who you are")
    role = choose_role(claims, settings.oidc_role_claim, settings.oidc_role_values)
    if role is None:
        with database().write() as session:
            end_role(session, claims, by())
        raise ForbiddenError(
            "the provider gives you no role here; ask the operator of this server"
        )
    with database().write() as session:
        account = admit(session, claims, role, by())
        if account.disabled_at is not None:
            raise ForbiddenError("your account is disabled; ask an admin")
        token = replace_sign_in(session, account, "signed in at the provider")
    return go_on(token, onward)


def _client() -> Any:
    client = current_app.extensions.get(_EXTENSION)
    if client is None:
        raise NotFoundError("this server has no sign-in provider")
    return client


def _ask(call: Any, *given: Any) -> Any:
    # Optional, as above.
    from authlib.integrations.base_client import OAuthError  # noqa: PLC0415
    from joserfc.errors import JoseError  # noqa: PLC0415
    from requests import RequestException  # noqa: PLC0415

    try:
        return call(*given)
    except (OAuthError, JoseError) as error:
        raise ForbiddenError(
            "the provider did not let you in, or this took too long; try again"
        ) from error
    except RequestException as error:
        raise UnavailableError("the provider did not respond; try again") from error
