"""Both clients look up what a server said it supports before they invoke a method: methods v01 section 1.4."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import pytest_twisted

from agtphost.client.reply import reply_of
from agtphost.client.requests import Destination, Identity, prepare
from agtphost.client.supported_methods import MOST_SERVERS, MethodWarning, SupportedMethods
from agtphost.vocabulary.uris import parse
from tests.client.credentials import Credentials
from tests.client.drivers import Driver
from tests.client.scripted_host import Exchange, ScriptedHost, answer

NewClient = Callable[..., Driver]


def greeting(exchange: Exchange) -> None:
    """Answers anything; the first answer of a connection names what is supported."""
    fields = {"Supported_Methods": "DISCOVER, QUERY, RESERVE"} if exchange.request.method == "DISCOVER" else {}
    exchange.send(answer({"path": exchange.request.path}, **fields))


@pytest_twisted.ensureDeferred
async def test_a_method_that_was_not_named_is_warned_of(credentials: Credentials, new_client: NewClient) -> None:
    """METH-051: after the greeting, a Tier 2 method that is absent from it warns, names itself, and is sent."""
    with ScriptedHost(credentials, greeting) as host:
        async with new_client() as client:
            with warnings.catch_warnings():
                warnings.simplefilter("error", MethodWarning)
                assert (await client.call(host.uri, "DISCOVER", "/methods")).ok
                assert (await client.call(host.uri, "RESERVE", "/room")).ok, "the control: it was named"
            with pytest.warns(MethodWarning, match="TRANSFER"):
                assert (await client.call(host.uri, "TRANSFER", "/room")).ok


@pytest_twisted.ensureDeferred
async def test_nothing_is_warned_of_where_nothing_was_said(credentials: Credentials, new_client: NewClient) -> None:
    """Before the first answer nobody knows; under a contract the server agreed."""
    with ScriptedHost(credentials, greeting) as host:
        async with new_client() as client:
            with warnings.catch_warnings():
                warnings.simplefilter("error", MethodWarning)
                assert (await client.call(host.uri, "TRANSFER", "/room")).ok
                assert (await client.call(host.uri, "DISCOVER", "/methods")).ok
                presented = [("Contract-Synthesized", "syn-1")]
                assert (await client.call(host.uri, "TRANSFER", "/room", headers=presented)).ok


def test_the_memory_of_supported_methods_is_bounded() -> None:
    """The server that greeted first is forgotten; an empty greeting is none."""
    supported = SupportedMethods()

    def greet(number: int, named: str) -> bool:
        call = prepare(parse(f"agtp://127.0.0.1:{number}"), "TRANSFER", "/", None, identity=Identity(), resolver=None)
        assert call.destination == Destination("127.0.0.1", number)
        response = answer({}, Supported_Methods=named)
        supported.note(call, reply_of(response, line=b"", body=b"", agent_id=None, interims=0))
        return supported.lacks(call)

    assert all(greet(number, "QUERY") for number in range(1, MOST_SERVERS + 2))
    assert len(supported._offered) == MOST_SERVERS
    assert not greet(1, " , ")
