"""What one tool call through the gateway costs, as :mod:`tests.bench.front_path` counts it for the MCP front."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agtphost.gateway.feature import Gateway
from agtphost.gateway.gateway import GatewayResource
from agtphost.http.mounts import Mount
from agtphost.vocabulary.mount_paths import MountPath
from tests.bench.http_path import ARGUMENTS, BEARER, LISTEN, PORT, HttpPath
from tests.bench.mcp_requests import post
from tests.host.carried import carried


class GatewayPath(HttpPath):
    """The host of :class:`HttpPath`, called through its gateway by the tool's path."""

    settings = {
        "gateway": {"listen": LISTEN},
        "http": {"client": [{"name": "tests", "token": "env:TOKEN", "agent": "caller"}]},
    }

    def _mount(self) -> Mount:
        facts = replace(carried(self._host, "gateway", Gateway).facts, clients=self._clients("gateway"))
        gateway = GatewayResource(facts, self._host.dispatcher)
        return Mount(surface="gateway", path=MountPath("/", rest=True), resource=gateway)

    def _request(self, channel: Any, wire: Any) -> bytes:
        return post(PORT, "/tools/files/list_files", ARGUMENTS, BEARER)
