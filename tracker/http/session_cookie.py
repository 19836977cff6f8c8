"""The session cookie: its name, flags and lifetime, and the sign-in that it holds."""

from flask import Flask, Request, Response
from flask import session as cookie
from flask.sessions import (
    SecureCookieSession,
    SecureCookieSessionInterface,
    SessionMixin,
)

from tracker.services.people.sign_ins import LONGEST
from tracker.settings import Settings

# The entry that holds the token of a signed-in browser.
SIGN_IN = "sign_in"


class CookieSessions(SecureCookieSessionInterface):
    """Signed cookies; requests without a cookie are not looked at."""

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        if "Cookie" not in request.headers:
            return self.session_class()
        return super().open_session(app, request)

    def save_session(
        self, app: Flask, session: SessionMixin, response: Response
    ) -> None:
        if session or session.accessed or session.modified:
            super().save_session(app, session, response)


def add_session_cookie(app: Flask, settings: Settings) -> None:
    """Let *app* keep sign-ins in a cookie for itself alone."""
    app.session_interface = CookieSessions()
    app.config.update(
        # A browser keeps a cookie of this prefix to one host, and to HTTPS.
        SESSION_COOKIE_NAME="__Host-tracker" if settings.is_https else "tracker",
        SESSION_COOKIE_SECURE=settings.is_https,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,
        PERMANENT_SESSION_LIFETIME=LONGEST,
    )


def keep_sign_in(token: str) -> None:
    # Also removes the previous person's form token.
    cookie.clear()
    cookie[SIGN_IN] = token
    cookie.permanent = True
