"""Agreeing with a server on a catalog version: AGTP-API section 4.6."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_twisted

from agtphost.client import CatalogMismatch, InvalidCall, VerificationFailed
from agtphost.client.retries import IDEMPOTENT_METHODS
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.catalog import Catalog
from agtphost.wire import Headers, Response
from tests.client.credentials import Credentials
from tests.client.scripted_host import Exchange, ScriptedHost, answer, echo
from tests.client.test_call_flow import NewClient

HEADER = "agtp-catalog-version"


def publishing(members: Any, status: int = 200) -> Any:
    """A host that shows a manifest with these members, and echoes everything else."""

    def script(exchange: Exchange) -> None:
        if exchange.request.method != "DISCOVER":
            echo(exchange)
            return
        fields = Headers([("Content-Type", "application/vnd.agtp.manifest+json")])
        exchange.send(Response(status=status, headers=fields, body=jsontext.encode(members)))

    return script


@pytest.mark.parametrize(
    ("supported", "preferred", "known", "chosen"),
    [
        (["1.0.0"], "1.2.0", None, "1.0.0"),
        (["1.0.0", "1.2.0"], "1.2.0", None, "1.2.0"),
        (["2.0.0", "1.2.0"], "2.0.0", None, "2.0.0"),
        (["2.0.0", "1.0.0", "1.1.0"], "3.0.0", ["1.1.0", "1.0.0"], "1.1.0"),
        (["1.0.0", "1.0.0"], "1.0.0", [], "1.0.0"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_the_preferred_version_else_the_highest_in_common(
    credentials: Credentials,
    new_client: NewClient,
    supported: list[str],
    preferred: str,
    known: list[str] | None,
    chosen: str,
) -> None:
    """API-020: read from the manifest, which is asked for anonymously."""
    with ScriptedHost(credentials, publishing({"catalog_versions_supported": supported})) as host:
        async with new_client() as client:
            assert await client.negotiate_catalog(host.uri, preferred, known) == chosen
        assert [(request.method, request.path) for request in host.requests] == [("DISCOVER", "/")]


@pytest.mark.parametrize(("preferred", "known"), [("1.2.0", None), ("1.2.0", ["1.0.0"]), ("2.0.1", ["2.0.1"])])
@pytest_twisted.ensureDeferred
async def test_no_version_in_common_is_an_error(
    credentials: Credentials, new_client: NewClient, preferred: str, known: list[str] | None
) -> None:
    """API-020: the client abandons the server, and says what both have."""
    with ScriptedHost(credentials, publishing({"catalog_versions_supported": ["2.0.0"]})) as host:
        async with new_client() as client:
            with pytest.raises(CatalogMismatch) as caught:
                await client.negotiate_catalog(host.uri, preferred, known)
    assert (caught.value.preferred, caught.value.supported) == (preferred, ("2.0.0",))


@pytest.mark.parametrize(("supported", "stated"), [(["2.0.0", "1.1.0"], "1.1.0"), (["1.1.0"], None)])
@pytest_twisted.ensureDeferred
async def test_what_was_agreed_is_stated_where_there_is_a_choice(
    credentials: Credentials, new_client: NewClient, supported: list[str], stated: str | None
) -> None:
    """Later calls carry AGTP-Catalog-Version to a server with several versions, and not to one with its only one."""
    with ScriptedHost(credentials, publishing({"catalog_versions_supported": supported})) as host:
        async with new_client() as client:
            await client.call(host.uri, "QUERY")
            assert await client.negotiate_catalog(host.uri, "1.1.0") == "1.1.0"
            await client.call(host.uri, "AUDIT", "/books")
            await client.call(host.uri, "AUDIT", "/books", headers=[("AGTP-Catalog-Version", "2.0.0")])
        sent = [request.headers.get(HEADER) for request in host.requests]
    assert sent == [None, None, stated, "2.0.0"]


@pytest.mark.parametrize(
    "members", [{}, [], {"catalog_versions_supported": []}, {"catalog_versions_supported": ["1"]},
                {"catalog_versions_supported": "1.0.0"}, {"catalog_versions_supported": [1]}],
)  # fmt: skip
@pytest_twisted.ensureDeferred
async def test_a_manifest_that_does_not_say_is_refused(
    credentials: Credentials, new_client: NewClient, members: Any
) -> None:
    """Nothing is guessed from what a server sends."""
    with ScriptedHost(credentials, publishing(members)) as host:
        async with new_client() as client:
            with pytest.raises(VerificationFailed):
                await client.negotiate_catalog(host.uri, "1.0.0")


@pytest_twisted.ensureDeferred
async def test_a_manifest_without_the_list_has_one_version(credentials: Credentials, new_client: NewClient) -> None:
    """The only version that an old server names counts as its list; a refusal is an error."""
    with ScriptedHost(credentials, publishing({"catalog_version": "1.0.0"})) as host:
        async with new_client() as client:
            assert await client.negotiate_catalog(host.uri, "1.0.0") == "1.0.0"
    with ScriptedHost(credentials, lambda exchange: exchange.send(answer(status=503))) as host:
        async with new_client() as client:
            with pytest.raises(VerificationFailed, match="503"):
                await client.negotiate_catalog(host.uri, "1.0.0")


@pytest_twisted.ensureDeferred
async def test_what_is_no_version_is_refused_before_anything_is_sent(new_client: NewClient) -> None:
    """A caller's mistake is the caller's to hear of."""
    async with new_client() as client:
        for preferred, known in (("1.0", None), ("1.0.0", ["latest"])):
            with pytest.raises(InvalidCall, match="not a catalog version"):
                await client.negotiate_catalog("agtp://localhost:1", preferred, known)


def test_the_client_repeats_what_the_tables_call_idempotent() -> None:
    """METH-053: the client's list is the drafts', which the catalog has; conditional ones are not on it."""
    entries = Catalog.load().entries.values()
    tabulated = {entry.name for entry in entries if (entry.floor or entry.standard or {}).get("idempotent") is True}
    assert tabulated == IDEMPOTENT_METHODS
