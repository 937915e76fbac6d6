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
from agtphost.gateway.gateway_documents import VIEWER, ReadyDocument

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

CACHE_SECONDS = 86_400
"""Seconds that a browser may cache the files of a release."""

PACKAGE_FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
OWN_FILES = {"viewer.js": "text/javascript; charset=utf-8", "viewer.css": "text/css; charset=utf-8"}


def viewer_documents() -> Iterator[tuple[str, ReadyDocument]]:
    """Yield the page and its files, by path; without the package, a page that says it is missing."""
    folder = _distribution()
    if folder is None:
        text = f"The viewer of OpenAPI documents cannot be shown: {extras.missing(PACKAGE)}.\n"
        yield VIEWER, ReadyDocument(body=text.encode(), content_type="text/plain", status=404)
        return
    own = files("agtphost.gateway").joinpath("viewer")
    page = own.joinpath("viewer.html").read_bytes()
    yield VIEWER, ReadyDocument(body=page, content_type="text/html; charset=utf-8", fields=SECURITY)
    for name, kind in OWN_FILES.items():
        yield f"{VIEWER}/{name}", ReadyDocument(body=own.joinpath(name).read_bytes(), content_type=kind)
    for name, kind in PACKAGE_FILES.items():
        yield (
            f"{VIEWER}/{name}",
            ReadyDocument(body=(folder / name).read_bytes(), content_type=kind, max_age=CACHE_SECONDS),
        )


def _distribution() -> Path | None:
    """Return the directory of the package's Swagger UI files; the package is not imported."""
    if not extras.is_installed(PACKAGE):
        return None
    found = find_spec(PACKAGE)
    places = () if found is None else found.submodule_search_locations or ()
    return next((Path(place) / "dist" for place in places if (Path(place) / "dist").is_dir()), None)
