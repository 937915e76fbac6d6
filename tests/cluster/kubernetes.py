"""A stub of the API of Kubernetes over TLS: it keeps the labels of pods, and notes each request."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.x509.oid import ExtendedKeyUsageOID

from agtphost.cluster.pod_label import LABEL
from tests.protocols.authorities import issue

NAMESPACE, TOKEN = "agents", "token-of-the-pod"


@dataclass(frozen=True)
class Patch:
    """A change of the label of a pod."""

    pod: str
    value: str | None
    moment: float
    status: int
    note: Any
    """What the test noted when it arrived."""


@dataclass
class Kubernetes:
    """
    The API.

    :param folder: for the files of the service account.
    """

    folder: Path
    status: int = 200
    patches: list[Patch] = field(default_factory=list)
    note: Callable[[], Any] = lambda: None
    port: int = 0

    def environ(self, pod: str) -> dict[str, str]:
        """Return the variables of a process in a pod."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
            "POD_NAME": pod,
            "TEST_SERVICE_ACCOUNT": str(self.folder),
        }

    def labels(self) -> dict[str, str | None]:
        """Return the label of each pod that was changed."""
        return {each.pod: each.value for each in self.patches if each.status == 200}

    def moment(self, pod: str, value: str | None) -> float:
        """Return when a pod got a label for the first time."""
        return next(each.moment for each in self.patches if (each.pod, each.value, each.status) == (pod, value, 200))

    def accept(self, path: str, token: str | None, kind: str | None, body: Any) -> int:
        """Judge a request as the API does, and return the status."""
        noted, moment = self.note(), time.monotonic()
        place = f"/api/v1/namespaces/{NAMESPACE}/pods/"
        if token != f"Bearer {TOKEN}":
            return 401
        if not path.startswith(place) or kind != "application/merge-patch+json":
            return 404
        (metadata,) = body.values()
        ((label, value),) = metadata["labels"].items()
        assert (list(body), list(metadata), label) == (["metadata"], ["labels"], LABEL)
        self.patches.append(Patch(path.removeprefix(place), value, moment, self.status, noted))
        return self.status


@contextmanager
def kubernetes(folder: Path) -> Iterator[Kubernetes]:
    """The API on a port of this machine, with what a pod needs to call it."""
    folder.mkdir()
    api = Kubernetes(folder)
    authority = issue(name="cluster authority", authority=True)
    server = issue(authority, name="kubernetes", usage=ExtendedKeyUsageOID.SERVER_AUTH)
    (folder / "server.pem").write_bytes(server.pem() + server.key_pem())
    for name, text in (("token", TOKEN), ("namespace", NAMESPACE), ("ca.crt", authority.pem().decode())):
        (folder / name).write_text(text)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PATCH(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = api.accept(self.path, self.headers["Authorization"], self.headers["Content-Type"], body)
            octets = json.dumps({"kind": "Pod"}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

        def log_message(self, *words: Any) -> None:
            """Be silent."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving.socket = context.wrap_socket(serving.socket, server_side=True)
    api.port = serving.server_address[1]
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        serving.shutdown()
        serving.server_close()
        thread.join(10)
