"""Set the header fields of every answer of the page, and the cookie of a session."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

from agtphost.http.bounded_request import BoundedRequest
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
"""Nothing inline, nothing from other origins, no frames."""

COMMON_FIELDS = (
    ("Content-Security-Policy", POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    # Not no-referrer: browsers then send "Origin: null" with the page's own forms.
    ("Referrer-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)
"""Fields of every answer."""


def cookie_of(request: BoundedRequest) -> str:
    """Return the session's cookie; empty if there is none."""
    for given in request.requestHeaders.getRawHeaders(b"cookie") or ():
        try:
            found = SimpleCookie(given.decode("ascii", "replace")).get(COOKIE)
        except CookieError:
            continue
        if found is not None:
            return str(found.value)
    return ""


def set_cookie(value: str) -> tuple[str, str]:
    """Return the field that sets the session's cookie; an empty value deletes it."""
    over = "" if value else "; Max-Age=0"
    return "Set-Cookie", f"{COOKIE}={value}; Path=/; Secure; HttpOnly; SameSite=Strict{over}"
