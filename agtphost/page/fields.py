"""Header fields: what every answer of the page carries, and the cookie of a session."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

from agtphost.http.exchange import BoundedRequest
from agtphost.page.entrance import COOKIE

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
"""Nothing inline, nothing from elsewhere, nowhere in a frame."""

ALWAYS = (
    ("Content-Security-Policy", POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    # Not no-referrer: browsers then send "Origin: null" with the page's own forms.
    ("Referrer-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)
"""On every answer, whatever it says."""


def cookie_of(request: BoundedRequest) -> str:
    """The session's cookie; empty where there is none."""
    for given in request.requestHeaders.getRawHeaders(b"cookie") or ():
        try:
            found = SimpleCookie(given.decode("ascii", "replace")).get(COOKIE)
        except CookieError:
            continue
        if found is not None:
            return str(found.value)
    return ""


def set_cookie(value: str) -> tuple[str, str]:
    """The field that gives a browser its session; an empty value takes it away."""
    over = "" if value else "; Max-Age=0"
    return "Set-Cookie", f"{COOKIE}={value}; Path=/; Secure; HttpOnly; SameSite=Strict{over}"
