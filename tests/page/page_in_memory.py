"""A host in memory with its page, asked over HTTP without a socket: for many requests of one test."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mounts
from agtphost.page.entrance import COOKIE
from agtphost.page.feature import OperatorsPage
from agtphost.testing import MemoryHost
from agtphost.testing.identities import key_of
from tests.host.carried import carried
from tests.http.mounted import mounted
from tests.http.test_mounts import HERE, Wire

OPERATOR = key_of("anna")

SETTINGS: Mapping[str, Any] = {
    "admin": {"listen": "ssl:4481:interface=127.0.0.1"},
    "operator": [{"name": "anna", "key": OPERATOR.public.fingerprint, "role": "administrator"}],
}


class PageInMemory:
    """
    A host, and one session at its page.

    :param settings: further tables of ``host.toml``.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.host = MemoryHost({**SETTINGS, **(settings or {})})

    def open(self) -> None:
        """Build the host and enter; endpoints and agents are added before."""
        self.made = made = carried(self.host, "admin", OperatorsPage)
        self._mounts = Mounts([replace(mounted(made.surface.resource), pages=True, fields=made.surface.fields)])
        link = made.entrance.issue_link(self.host.identities.of_key(OPERATOR, "anna"))
        self.cookie, self.session = made.entrance.enter(link, "127.0.0.1")

    def get(self, path: str, query: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Return status and body of an answer to this session."""
        target = f"{path}?{urlencode(query)}" if query else path
        return self._ask(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n", b"")

    def post(self, path: str, fields: Mapping[str, str]) -> tuple[int, str]:
        """Send a form of this session, and return status and body of the answer, or the address of a redirect."""
        body = urlencode({"csrf": self.session.csrf, **fields}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: {len(body)}\r\n"
        return self._ask(f"{head}Content-Type: application/x-www-form-urlencoded\r\n", body)

    def _ask(self, head: str, body: bytes) -> tuple[int, str]:
        channel: Any = HttpFactory(self._mounts, HTTP_LIMITS, self.host.clock, None).buildProtocol(None)
        wire = Wire(hostAddress=HERE)
        channel.makeConnection(wire)
        channel.dataReceived(f"{head}Cookie: {COOKIE}={self.cookie}\r\n\r\n".encode("ascii") + body)
        for _ in range(20):
            found = re.fullmatch(rb"HTTP/1\.1 (\d{3}) (.*?)\r\n\r\n(.*)", wire.value(), re.DOTALL)
            if found is not None and found[1] == b"303":
                return 303, dict(re.findall(r"(\S+): (.*)\r?", found[2].decode())).get("Location", "").strip()
            if found is not None and found[3]:
                return int(found[1]), found[3].decode()
            self.host.advance(0.01)
        raise AssertionError(wire.value())
