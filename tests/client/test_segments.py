"""AGTP messages leave in one send, which nothing delays: both clients, and the port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest_twisted

from tests.client.credentials import Credentials
from tests.client.drivers import Driver
from tests.client.scripted_host import ScriptedHost, echo
from tests.protocols.links import ask
from tests.protocols.loopback import Host, in_thread, make_site, read_message
from tests.sends import in_one, recorded


@pytest_twisted.ensureDeferred
async def test_a_call_leaves_in_one(credentials: Credentials, new_client: Callable[..., Driver]) -> None:
    """Head and body of each call, on a connection that is there."""
    with ScriptedHost(credentials, echo) as host, recorded() as sends:
        async with new_client() as client:
            await client.call(host.uri, "QUERY", "/", {"n": 0})
            assert sends.of_client(host.port)[-1].nodelay  # those before are the handshake's
            for number in range(3):
                assert (await client.call(host.uri, "QUERY", "/", {"n": number})).ok
                assert in_one(sends.of_client(host.port))


@pytest_twisted.ensureDeferred
async def test_an_answer_leaves_in_one(tmp_path: Path) -> None:
    """Of the AGTP port."""
    site = make_site(tmp_path)
    async with Host(site) as host:
        context = site.client()
        link = await in_thread(host.secure, context)
        with recorded() as sends, link:
            for _ in range(3):
                await in_thread(link.sendall, ask(1))
                await in_thread(read_message, link)
                # What the handshake leaves behind, the session tickets, may go out with the first.
                assert any(in_one([send]) for send in sends.of_server(host.port))
            await in_thread(link.sendall, ask(1))
            await in_thread(read_message, link)
            assert in_one(sends.of_server(host.port))
