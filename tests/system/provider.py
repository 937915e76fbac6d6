"""An identity provider on loopback: HTTPS, a discovery document, and keys that can be exchanged."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.x509.oid import ExtendedKeyUsageOID
from joserfc import jws
from joserfc.jwk import KeySet, OKPKey

from tests.protocols.authorities import issue


class Provider:
    """
    One provider.

    :param folder: where its certificate and its authority's are written.
    """

    def __init__(self, folder: Path) -> None:
        root = issue(name="provider root", authority=True)
        identity = issue(root, name="localhost", usage=ExtendedKeyUsageOID.SERVER_AUTH)
        self.ca = folder / "provider-ca.pem"
        self.ca.write_bytes(root.pem())
        (folder / "provider.pem").write_bytes(identity.pem() + identity.key_pem())
        self.key = OKPKey.generate_key("Ed25519", {"kid": "1"})
        self.requests: list[str] = []
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.requests.append(self.path)
                body = json.dumps(provider.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "provider.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    @property
    def issuer(self) -> str:
        return f"https://localhost:{self.server.server_address[1]}"

    def document(self, path: str) -> Any:
        if path == "/keys":
            return KeySet([self.key]).as_dict(private=False)
        return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}

    def rotate(self) -> None:
        """From now on another key signs, and only that is published."""
        self.key = OKPKey.generate_key("Ed25519", {"kid": str(int(self.key.kid or "0") + 1)})

    def token(self, **claims: Any) -> str:
        """A token signed with the present key."""
        payload = {"iss": self.issuer, "sub": "alice", "aud": "agtphost", "exp": 4_000_000_000, **claims}
        header = {"alg": "EdDSA", "kid": self.key.kid}
        registry = jws.JWSRegistry(algorithms=["EdDSA"])
        return str(jws.serialize_compact(header, json.dumps(payload).encode(), self.key, registry=registry))


@contextmanager
def providing(folder: Path) -> Iterator[Provider]:
    """A provider that serves until the block ends."""
    provider = Provider(folder)
    thread = threading.Thread(target=provider.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.server.shutdown()
        thread.join(5)
        provider.server.server_close()
