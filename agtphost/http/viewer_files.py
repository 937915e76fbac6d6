"""
Serve the page of the OpenAPI document: Swagger UI from the package ``flask-swagger-ui``, and a few own files.

The package's files are read, but its code is not run. The page fetches nothing from other hosts; a policy without any
``unsafe`` limits what it may load.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from agtphost import extras
from agtphost.http.gateway_documents import VIEWER, Ready

PACKAGE = "flask_swagger_ui"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

SECURITY = (
    ("Content-Security-Policy", POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
)

KEPT = 86_400
"""Seconds that a browser may cache the files of a release."""

THEIRS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css", "favicon-32x32.png": "image/png"}
OURS = {"viewer.js": "text/javascript; charset=utf-8", "viewer.css": "text/css; charset=utf-8"}


def viewer() -> Iterator[tuple[str, Ready]]:
    """Yield the page and its files, by path; without the package, a page that says it is missing."""
    folder = _distribution()
    if folder is None:
        text = f"The viewer of OpenAPI documents cannot be shown: {extras.missing(PACKAGE)}.\n"
        yield VIEWER, Ready(body=text.encode(), content_type="text/plain", status=404)
        return
    own = files("agtphost.http").joinpath("viewer")
    page = own.joinpath("viewer.html").read_bytes()
    yield VIEWER, Ready(body=page, content_type="text/html; charset=utf-8", fields=SECURITY)
    for name, kind in OURS.items():
        yield f"{VIEWER}/{name}", Ready(body=own.joinpath(name).read_bytes(), content_type=kind)
    for name, kind in THEIRS.items():
        yield f"{VIEWER}/{name}", Ready(body=(folder / name).read_bytes(), content_type=kind, max_age=KEPT)


def _distribution() -> Path | None:
    """Return the directory of the package's Swagger UI files; the package is not imported."""
    if not extras.is_installed(PACKAGE):
        return None
    found = find_spec(PACKAGE)
    places = () if found is None else found.submodule_search_locations or ()
    return next((Path(place) / "dist" for place in places if (Path(place) / "dist").is_dir()), None)
