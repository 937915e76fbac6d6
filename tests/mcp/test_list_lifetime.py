"""How long clients may keep a list (``ttlMs``, 2026-07-28): no longer than an upstream lets its part be kept."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from agtphost.mcp.context import Context
from agtphost.mcp.revisions import MODERN
from agtphost.mcp.server import CACHE_MILLISECONDS, LIST_CACHE_MILLISECONDS, Server
from tests.bridge.nobody import Nobody

LISTS = [method for method, kept in CACHE_MILLISECONDS.items() if kept]


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (1_500, 1_500),
        (0, 0),
        (LIST_CACHE_MILLISECONDS, LIST_CACHE_MILLISECONDS),
        (LIST_CACHE_MILLISECONDS + 1, LIST_CACHE_MILLISECONDS),
        (None, LIST_CACHE_MILLISECONDS),
    ],
)
@pytest.mark.parametrize("method", LISTS)
@pytest_twisted.ensureDeferred
async def test_the_shorter_time_is_shown(method: str, told: int | None, shown: int) -> None:
    """An upstream's shorter time counts; a longer one, or none, leaves the host's own. No cache may share an answer."""
    server = Server(Nobody(), reactor, endpoints=False)

    async def listed(context: Context) -> dict[str, Any]:
        return {"cacheScope": "public"} | ({} if told is None else {"ttlMs": told})

    server.handlers[method] = listed
    nobody: Any = None
    context = Context(method=method, params={}, request_id=1, revision=MODERN, conversation=nobody, channel=nobody)
    answer = await server.answer(context)
    assert isinstance(answer, dict)
    assert (answer["ttlMs"], answer["cacheScope"]) == (shown, "private")
