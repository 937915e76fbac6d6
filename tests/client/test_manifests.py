"""Both clients: manifests are kept as long as they hold, and read again when the server says that they changed."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, gatherResults

from agtphost.client.errors import VerificationFailed
from agtphost.client.manifests import ManifestWarning, SignatureState, cache_seconds
from agtphost.identity.keys import SigningKey
from agtphost.identity.manifest_signature import sign_manifest
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire import Headers, Response
from tests.client.credentials import Credentials
from tests.client.drivers import Driver
from tests.client.scripted_host import Exchange, ScriptedHost, answer, refuse
from tests.identity.samples import key_of
from tests.rows import each_row

NewClient = Callable[..., Driver]
KEY = key_of("manifests key")
KEYS = {KEY.kid: KEY.public}


def document(**members: Any) -> dict[str, Any]:
    return {
        "agtp_version": "1.0",
        "agtp_api_version": "1.0",
        "document_version": "v1",
        "catalog_version": "1.0.0",
        "server": {
            "server_id": "test-host",
            "signing_keys": [{"kid": KEY.kid, "alg": "EdDSA", "key": KEY.public.text}],
        },
        "endpoints": [],
        "policies": {},
        **members,
    }


class Publisher:
    """The script of a host whose manifest and AGTP-API-Version a test sets."""

    def __init__(self, **members: Any) -> None:
        self.manifest = sign_manifest(document(**members), KEY)
        self.version: str | None = "1"
        self.cache = "max-age=300"
        self.etag = '"a"'
        self.refused = False

    def __call__(self, exchange: Exchange) -> None:
        request = exchange.request
        version = {} if self.version is None else {"AGTP_API_Version": self.version}
        if (request.method, request.path) != ("DISCOVER", "/") or "agent-id" in request.headers:
            exchange.send(answer({"path": request.path}, **version))
        elif self.refused:
            exchange.send(refuse(503, "manifest-unavailable"))
        else:
            fields = [("Content-Type", media_types.MANIFEST_JSON), ("ETag", self.etag), ("Cache-Control", self.cache)]
            fields += [(name.replace("_", "-"), value) for name, value in version.items()]
            exchange.send(Response(status=200, headers=Headers(fields), body=jsontext.encode(self.manifest)))


def asked(host: ScriptedHost) -> list[str]:
    """What arrived, as ``METHOD path``."""
    return [f"{request.method} {request.path}" for request in host.requests]


@pytest_twisted.ensureDeferred
async def test_a_manifest_is_kept_as_long_as_it_says(credentials: Credentials, new_client: NewClient) -> None:
    """API-085: within max-age it is not asked for again; with max-age=0 it is, every time."""
    publisher = Publisher()
    with ScriptedHost(credentials, publisher) as host:
        async with new_client() as client:
            first = await client.manifest(host.uri, keys=KEYS)
            assert (await client.manifest(host.uri)) is first
            assert (await client.manifest(host.uri, keys=KEYS)) is first
            assert asked(host) == ["DISCOVER /"]
        publisher.cache = "no-store"
        async with new_client() as client:
            await client.manifest(host.uri, keys=KEYS)
            await client.manifest(host.uri, keys=KEYS)
        assert asked(host) == ["DISCOVER /"] * 3
    assert (first.document_version, first.api_version, first.etag, first.server_id) == ("v1", "1", '"a"', "test-host")


@pytest_twisted.ensureDeferred
async def test_an_equal_etag_spares_the_reading(credentials: Credentials, new_client: NewClient) -> None:
    """API-085: the same ETag stands for the same document; another one for another."""
    publisher = Publisher()
    publisher.cache = "max-age=0"
    with ScriptedHost(credentials, publisher) as host:
        async with new_client() as client:
            first = await client.manifest(host.uri, keys=KEYS)
            assert (await client.manifest(host.uri)).document is first.document
            publisher.etag, publisher.manifest = '"b"', sign_manifest(document(document_version="v2"), KEY)
            assert (await client.manifest(host.uri)).document_version == "v2"


@pytest_twisted.ensureDeferred
async def test_a_changed_api_version_is_followed_before_the_next_call(
    credentials: Credentials, new_client: NewClient
) -> None:
    """AGTP-270: the call that learns of it is answered; the next one is preceded by DISCOVER, once."""
    publisher = Publisher()
    with ScriptedHost(credentials, publisher) as host:
        async with new_client() as client:
            await client.manifest(host.uri, keys=KEYS)
            await client.call(host.uri, "QUERY", "/one")
            publisher.version, publisher.etag = "2", '"b"'
            publisher.manifest = sign_manifest(document(document_version="v2"), KEY)
            await client.call(host.uri, "QUERY", "/two")
            await client.call(host.uri, "QUERY", "/three")
            await client.call(host.uri, "QUERY", "/four")
            manifest = await client.manifest(host.uri)
        assert asked(host) == ["DISCOVER /", "QUERY /one", "QUERY /two", "DISCOVER /", "QUERY /three", "QUERY /four"]
    assert (manifest.document_version, manifest.api_version) == ("v2", "2")
    assert manifest.signature is SignatureState.VERIFIED, "with the key that was given the first time"


@pytest_twisted.ensureDeferred
async def test_who_never_read_a_manifest_is_not_made_to(credentials: Credentials, new_client: NewClient) -> None:
    """The control of AGTP-270: without a manifest there is none to become wrong."""
    publisher = Publisher()
    with ScriptedHost(credentials, publisher) as host:
        async with new_client() as client:
            for version in ("1", "2", "3"):
                publisher.version = version
                await client.call(host.uri, "QUERY", "/one")
        assert asked(host) == ["QUERY /one"] * 3


@pytest_twisted.ensureDeferred
async def test_calls_that_wait_share_one_reading(credentials: Credentials, new_client: NewClient) -> None:
    """AGTP-270: many calls at once, one DISCOVER, and it comes first."""
    publisher = Publisher()
    with ScriptedHost(credentials, publisher) as host:
        async with new_client() as client:
            await client.manifest(host.uri, keys=KEYS)
            publisher.version = "2"
            await client.call(host.uri, "QUERY", "/learns")
            await gatherResults(
                [Deferred.fromCoroutine(client.call(host.uri, "QUERY", f"/{number}")) for number in range(6)]
            )
        assert asked(host)[:3] == ["DISCOVER /", "QUERY /learns", "DISCOVER /"]
        assert asked(host).count("DISCOVER /") == 2


@pytest_twisted.ensureDeferred
async def test_without_the_new_manifest_nothing_is_called(credentials: Credentials, new_client: NewClient) -> None:
    """AGTP-270: re-reading is not optional: where it fails, the call is not made, and the next one tries again."""
    publisher = Publisher()
    with ScriptedHost(credentials, publisher) as host:
        async with new_client() as client:
            await client.manifest(host.uri, keys=KEYS)
            publisher.version, publisher.refused = "2", True
            await client.call(host.uri, "QUERY", "/learns")
            with pytest.raises(VerificationFailed):
                await client.call(host.uri, "QUERY", "/refused")
            publisher.refused = False
            await client.call(host.uri, "QUERY", "/made")
        assert asked(host)[-3:] == ["DISCOVER /", "DISCOVER /", "QUERY /made"]
        assert "QUERY /refused" not in asked(host)


@pytest.mark.filterwarnings("ignore::agtphost.client.manifests.ManifestWarning")
@pytest.mark.parametrize(
    ("case", "state"),
    [
        ("signed", SignatureState.VERIFIED),
        ("unsigned", SignatureState.ABSENT),
        ("tampered", SignatureState.INVALID),
        ("another key", SignatureState.INVALID),
        ("no key", SignatureState.UNCHECKED),
    ],
)
@pytest_twisted.ensureDeferred
async def test_signatures_are_told_and_never_decide(
    credentials: Credentials, new_client: NewClient, case: str, state: SignatureState
) -> None:
    """API-081, API-082: verified with a pinned key; absent and invalid are warned of; the manifest is used."""
    publisher = Publisher()
    if case == "unsigned":
        publisher.manifest = sign_manifest(document(), None)
    elif case == "tampered":
        publisher.manifest = {**copy.deepcopy(publisher.manifest), "policies": {"synthesis_enabled": True}}
    elif case == "another key":
        publisher.manifest = sign_manifest(document(), SigningKey.generate())
    with ScriptedHost(credentials, publisher) as host, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        async with new_client() as client:
            manifest = await client.manifest(host.uri, keys=None if case == "no key" else KEYS)
            reply = await client.call(host.uri, "QUERY", "/one")
    assert (manifest.signature, reply.ok) == (state, True)
    warned = [warning for warning in said if warning.category is ManifestWarning]
    assert bool(warned) == bool(manifest.warning) == (state in (SignatureState.ABSENT, SignatureState.INVALID))


@pytest_twisted.ensureDeferred
async def test_a_server_that_goes_backwards_is_warned_of(credentials: Credentials, new_client: NewClient) -> None:
    """AGTP-270: the number never gets smaller; where it does, the manifest is read again, and it is said."""
    publisher = Publisher()
    publisher.version = "5"
    with ScriptedHost(credentials, publisher) as host, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        async with new_client() as client:
            await client.manifest(host.uri, keys=KEYS)
            publisher.version = "4"
            await client.call(host.uri, "QUERY", "/one")
            assert "backwards" in (await client.manifest(host.uri)).warning
    assert any("backwards" in str(warning.message) for warning in said)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"{", b'{"server": {}, "server": {}}'])
@pytest_twisted.ensureDeferred
async def test_what_is_no_manifest_is_refused(credentials: Credentials, new_client: NewClient, body: bytes) -> None:
    """An answer without a manifest's members is none, whoever signed it."""

    def script(exchange: Exchange) -> None:
        fields = [("Content-Type", media_types.MANIFEST_JSON)] if body else []
        exchange.send(Response(status=200, headers=Headers(fields), body=body))

    with ScriptedHost(credentials, script) as host:
        async with new_client() as client:
            with pytest.raises(VerificationFailed):
                await client.manifest(host.uri)


@pytest_twisted.ensureDeferred
async def test_large_manifests_are_read(credentials: Credentials, new_client: NewClient) -> None:
    """A thousand endpoints are more than ordinary bodies may hold; keys are found in such a manifest too."""
    endpoint = {"method": "QUERY", "semantic": {f"m{n}": n for n in range(40)}}
    publisher = Publisher(endpoints=[{**endpoint, "path": f"/{number}"} for number in range(1000)])
    with ScriptedHost(credentials, publisher) as host:
        async with new_client() as client:
            manifest = await client.manifest(host.uri, keys=KEYS)
            assert await client.fetch_signing_keys(host.uri) == KEYS
    assert len(manifest.document["endpoints"]) == 1000
    assert manifest.signature is SignatureState.VERIFIED


@each_row(
    ("value", "seconds"),
    [
        (None, 7.0),
        ("", 7.0),
        ("max-age=300", 300.0),
        ("private, max-age=300", 300.0),
        ("Max-Age=5,private", 5.0),
        ("no-store", 0.0),
        ("no-cache, max-age=5", 0.0),
        ("s-max-age=9", 7.0),
        ("max-age=-1", 7.0),
        ("max-age=99999999999", 7.0),
        ("max-age=1e3", 7.0),
    ],
)
def test_cache_control_is_read(value: str | None, seconds: float) -> None:
    """API-085: what of Cache-Control counts, and what is as good as none."""
    assert cache_seconds(value, 7.0) == seconds
