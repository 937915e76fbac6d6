"""An operation of an OpenAPI document, imported, called over AGTP, and what its service then gets over HTTPS."""

from __future__ import annotations

import http.server
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.protocols.authorities import issue
from tests.system.hosting import agtp, running, sample
from tests.system.test_openapi_checked import body, document, fields, operation, path_parameter, query_parameter

Got = list[tuple[str, str, Any]]
"""Method, target and body of every request."""


@contextmanager
def service(folder: Path) -> Iterator[tuple[int, Got]]:
    """An HTTPS server that keeps what it got: its port, and that. Its authority is ``authority.pem``."""
    got: Got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            octets = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            got.append((self.command, self.path, json.loads(octets) if octets else None))
            said = b'{"taken": true}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    root = issue(name="service root", authority=True)
    shown = issue(root, usage=ExtendedKeyUsageOID.SERVER_AUTH)
    (folder / "authority.pem").write_bytes(root.pem())
    (folder / "service.pem").write_bytes(shown.pem() + shown.key_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "service.pem")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1]), got
    finally:
        server.shutdown()
        server.server_close()


def shop(port: int) -> dict[str, Any]:
    """One name in every part of a request, and names that become one in a path."""
    everywhere = [path_parameter("id"), query_parameter("id", required=True)]
    paths = {
        "/things/{id}#whole": {
            "put": operation(parameters=everywhere, requestBody=body(fields("id", "query_id"))),
            "get": operation(parameters=everywhere),
            "delete": operation(parameters=everywhere),
        },
        "/pairs/{a-b}/{a_b}?fixed=1": {
            "put": operation(
                parameters=[path_parameter("a-b"), path_parameter("a_b"), query_parameter("a-b")],
                requestBody=body(fields("a-b", "a_b")),
            )
        },
    }
    return document(paths) | {"servers": [{"url": f"https://localhost:{port}/v1"}]}


def import_document(folder: Path, endpoints: Path, described: Any) -> dict[str, Any]:
    """
    Import an OpenAPI document of :func:`service`, and admit all of its endpoints.

    :return: the endpoints by their operations, such as ``GET /things/{id}``.
    """
    (folder / "imported.json").write_text(json.dumps(described))
    done = agtp("openapi", "import", str(folder / "imported.json"), "--out", str(endpoints), "--json")
    assert done.returncode == 0, done.stderr
    trusted = f'ca = "{folder}/authority.pem"\nallow_addresses = ["127.0.0.1"]\n'
    for path in endpoints.glob("*.toml.review"):
        # What a person decides: where the service is, who vouches for it, and that anybody may call it.
        text = re.sub(r"(?m)^(timeout_seconds = .*\n)", rf"\1{trusted}", path.read_text())
        path.with_suffix("").write_text(text)
    return {entry["source"]: entry for entry in json.loads(done.stdout)["endpoints"]}


def test_every_value_of_one_name_reaches_the_service(tmp_path: Path) -> None:
    """Path, query and body each have their own, under the service's names, whatever the input calls them."""
    with service(tmp_path) as (port, got):
        config = sample(tmp_path)
        found = import_document(tmp_path, config.parent / "endpoints", shop(port))

        with running(config) as host:

            def call(source: str, path: str, **given: str) -> None:
                entry = found[source]
                words = [f"{name}={value}" for name, value in given.items()]
                answer = host.agtp_json("call", "-", entry["method"], path, *words)["body"]
                assert answer.get("taken") or answer["result"]["taken"], answer

            given = {"query_id": "in-query", "body_id": "in-body", "body_query_id": "other"}
            call("PUT /things/{id}#whole", "/things/in-path", **given)
            call("GET /things/{id}#whole", "/things/in-path", query_id="in-query")
            call("DELETE /things/{id}#whole", "/things/in-path", query_id="in-query")
            call(
                "PUT /pairs/{a-b}/{a_b}?fixed=1",
                "/pairs/first/second",
                **{"a-b": "third", "body_a-b": "fourth", "body_a_b": "fifth"},
            )
    assert got == [
        ("PUT", "/v1/things/in-path?id=in-query", {"id": "in-body", "query_id": "other"}),
        ("GET", "/v1/things/in-path?id=in-query", None),
        ("DELETE", "/v1/things/in-path?id=in-query", None),
        ("PUT", "/v1/pairs/first/second?fixed=1&a-b=third", {"a-b": "fourth", "a_b": "fifth"}),
    ]
