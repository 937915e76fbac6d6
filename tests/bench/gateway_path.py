"""What one tool call through the gateway costs, as :mod:`tests.bench.front_path` counts it for the MCP front."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agtphost.http.gateway import GatewayResource
from agtphost.http.mounts import Mount
from agtphost.vocabulary.mount_paths import MountPath
from tests.bench.http_path import ARGUMENTS, BEARER, LISTEN, PORT, HttpPath
from tests.bench.mcp_requests import post


class GatewayPath(HttpPath):
    """The host of :class:`HttpPath`, called through its gateway by the tool's path."""

    settings = {
        "gateway": {"listen": LISTEN},
        "http": {"client": [{"name": "tests", "token": "env:TOKEN", "agent": "caller"}]},
    }

    def _mount(self) -> Mount:
        facts: Any = replace(self._host.core.gateway, clients=self._clients("gateway"))  # type: ignore[type-var]
        gateway = GatewayResource(facts, self._host.dispatcher)
        return Mount(surface="gateway", path=MountPath("/", rest=True), resource=gateway)

    def _request(self, channel: Any, wire: Any) -> bytes:
        return post(PORT, "/tools/files/list_files", ARGUMENTS, BEARER)
