"""Coroutines of an author's other module."""

from __future__ import annotations

import asyncio

from twisted.internet.defer import succeed


async def wait_on_loop() -> None:
    """Wait on the event loop of asyncio."""
    await asyncio.sleep(0)


async def wait_in_reactor() -> None:
    """Wait for a Deferred."""
    await succeed(None)
