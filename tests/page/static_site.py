"""The page's own files on a server without a host, under the page's own content policy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

from agtphost.page.resource import MEDIA_TYPES

STATIC = files("agtphost") / "page" / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
KINDS = {f"/static/{entry.name}": MEDIA_TYPES[f".{entry.name.rpartition('.')[2]}"] for entry in STATIC.iterdir()}
FRAME = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>agtphost</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/page.css">'
    '<script src="/static/page.js" type="module"></script></head><body><main><h1>A view</h1>{}</main></body></html>'
)


Stream = Callable[[], Iterator[bytes]]


@contextmanager
def serving(views: Mapping[str, str], feeds: Mapping[str, Stream] | None = None, policy: str = POLICY) -> Iterator[str]:
    """
    Serve views.

    :param views: the inside of ``main`` by path.
    :param policy: the content policy; empty for a site that has none.
    :param feeds: server-sent events by path, anew for each connection, which ends where they end.
    :return: the address, without a slash at its end.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if feeds is not None and path in feeds:
                self._feed(feeds[path]())
                return
            kind, octets, status = "text/html; charset=utf-8", b"", 200
            if path in views:
                octets = FRAME.format(views[path]).encode()
            elif path in KINDS:
                octets = (STATIC / path.rpartition("/")[2]).read_bytes()
                kind = KINDS[path]
            else:
                status = 404
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(octets)))
            if policy:
                self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(octets)

        def _feed(self, events: Iterator[bytes]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for event in events:
                self.wfile.write(event)
                self.wfile.flush()

        def log_message(self, *words: object) -> None:
            """Nothing: what is asked is the test's own doing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
