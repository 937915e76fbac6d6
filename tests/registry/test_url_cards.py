"""Cards from their URLs: fetched within bounds, fetched again, and off until approved where their substance changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred

from agtphost.cli.registry import commands, native
from agtphost.cli.registry.native import NativeRegistry
from agtphost.cli.root import agtp
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import encode
from agtphost.registry.card_fetcher import MAX_OCTETS, CardFetcher
from agtphost.registry.maintenance import CardMaintenance, MaintenanceSettings
from agtphost.registry.providers import Providers
from agtphost.testing.identities import key_of
from tests.handlers.upstreams import Authority, Server, answer
from tests.registry.hosts import RegistryHost, card, text_of
from tests.registry.test_leases import kept


class Site:
    """What the URL of a card answers at present."""

    def __init__(self) -> None:
        self.reply = answer(404, b"")
        self.asked: list[str] = []

    def gives(self, document: Any, *fields: str, status: int = 200) -> bytes:
        """Answer with that from now on, and say which octets they are."""
        octets = document if isinstance(document, bytes) else text_of(document).encode()
        self.reply = answer(status, octets, *fields)
        return octets

    def __call__(self, heard: Any, transport: Any) -> None:
        self.asked.append(repr(heard))
        transport.write(self.reply)


@asynccontextmanager
async def elsewhere(
    monkeypatch: pytest.MonkeyPatch, folder: Path, **provider: Any
) -> AsyncIterator[tuple[RegistryHost, Site, str]]:
    """A host, a site that one of its providers is at, and the URL of a card there."""
    authority, site = Authority(), Site()
    server: Server = authority.server(reactor, site)
    (folder / "ca.pem").write_bytes(authority.root.pem())
    origin = f"https://localhost:{server.number}"
    networks = ["127.0.0.0/8", "::1/128"]
    sections = [{"origin": origin, "ca": str(folder / "ca.pem"), "allow_addresses": networks, **provider}]
    host = RegistryHost({"provider": sections})
    assert host.config.registry is not None
    given = host.config.registry.provider
    # The host is in memory, and so is its reactor: what it fetches comes over real sockets all the same.
    monkeypatch.setattr(
        "agtphost.registry.feature.CardFetcher",
        lambda clock, providers, where: CardFetcher(reactor, Providers(reactor, given), where),
    )
    try:
        yield host, site, f"{origin}/card.json"
    finally:
        await maybeDeferred(server.port.stopListening)


async def looked(host: RegistryHost, seconds: float, terms: MaintenanceSettings, maintenance: CardMaintenance) -> None:
    """So much later, what is due is done."""
    host.clock.advance(seconds)
    maintenance.terms = terms
    await maintenance.look()


async def registered(host: RegistryHost, url: str, caller: Any = None) -> Any:
    """REGISTER a URL."""
    return await host.begin("REGISTER", "/cards", {"url": url}, caller=caller or host.translator)


@pytest_twisted.ensureDeferred
async def test_a_changed_card_waits_for_an_approval(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Descriptions at once; endpoint, authentication, operations and name once somebody approved what was looked at."""
    async with elsewhere(monkeypatch, tmp_path) as (host, site, url):
        first = site.gives(card(), 'ETag: "one"')
        answered = await registered(host, url)
        assert answered.status == 200 and answered.result["source"] == url, answered.explanation
        assert host.get("translator").body == first
        maintenance = kept(host)

        async def again() -> None:
            host.clock.advance(3_601)
            await maintenance.look()

        await maintenance.look()
        assert len(site.asked) == 1, "not before its time"
        site.gives(b"", status=304)
        await again()
        assert '"one"' in site.asked[-1] and host.get("translator").body == first
        told = site.gives(card(description="Translates, and now better."))
        await again()
        assert host.get("translator").body == told and host.get("translator").headers.get("card-version") == "2"
        rows: list[dict[str, Any]] = [
            {"endpoint": "https://api.example.net/"},
            {"authentication": "none"},
            {"name": "Another name"},
            {"inputs": {"text": "string"}},
            {"operations": [{"name": "translate"}]},
        ]
        for members in rows:
            changed = site.gives(card(description="Translates, and now better.", **members))
            await again()
            assert host.get("translator").body == told, members
            entry = host.get("translator", form="entry").result
            assert entry["pending"] == sha256(changed).hexdigest(), members
        place = "/cards/translator"
        assert host.call("APPROVE", place, {}, caller=host.translator).reason == "operators-only"
        stale = host.call("APPROVE", place, {"digest": sha256(told).hexdigest()}, caller=host.operator)
        assert (stale.status, stale.reason) == (409, "definition-changed-again")
        done = host.call("APPROVE", place, {"digest": sha256(changed).hexdigest()}, caller=host.operator)
        assert (done.status, done.result["version"]) == (200, 3) and host.get("translator").body == changed
        assert done.record["extra"]["card"]["approved"] is True
        assert host.call("APPROVE", place, {}, caller=host.operator).reason == "nothing-to-approve"
        site.gives(card(endpoint="https://api.example.org/"))
        await again()
        site.gives(changed)
        await again()
        assert "pending" not in host.get("translator", form="entry").result, "it is as it was approved again"
        site.gives(card(id="translator:other", endpoint="https://evil.example.org/"))
        await again()
        assert host.get("translator").body == changed and host.get("translator:other").status == 404


@pytest_twisted.ensureDeferred
async def test_what_is_fetched_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No redirects, no more than 1 MiB, nobody else's id, no card that is none: each refused, and nothing is kept."""
    async with elsewhere(monkeypatch, tmp_path) as (host, site, url):
        rows: list[tuple[Any, tuple[str, ...], int, tuple[int, str]]] = [
            (b"", (f"Location: {url}",), 302, (503, "card-fetch-failed")),
            (b"", ("Location: http://169.254.169.254/latest/meta-data/",), 307, (503, "card-fetch-failed")),
            (b" " * (MAX_OCTETS + 1), (), 200, (503, "card-fetch-failed")),
            (card(id="rival"), (), 200, (403, "card-not-yours")),
            (b"{}", (), 200, (422, "card-invalid")),
            (b"\xff\xfe", (), 200, (422, "card-invalid")),
            (card(), (), 500, (503, "card-fetch-failed")),
        ]
        for at, (document, fields, status, expected) in enumerate(rows, 1):
            site.gives(document, *fields, status=status)
            answered = await registered(host, url)
            assert (answered.status, answered.reason) == expected, at
            assert len(site.asked) == at, "asked once, and nobody else"
        for wrong in (
            "file:///etc/passwd",
            "http://example.com/card.json",
            "https://169.254.169.254/latest/meta-data/",
            "https://[fe80::1]/",
            "https://user:secret@example.com/",
            "gopher://example.com/",
            "agtp://example.com/",
            "",
        ):
            answered = await registered(host, wrong, host.operator)
            assert (answered.status, answered.document["parameter"]) == (422, "url"), wrong
        assert host.registered(host.operator) == [], "nothing of it is kept"
        both = await host.begin("REGISTER", "/cards", {"url": url, "card": card()}, caller=host.operator)
        assert (both.status, both.document["parameter"]) == (422, "url")


@pytest_twisted.ensureDeferred
async def test_a_probe_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HEAD of the endpoint, with the host's own fields and nobody's else; errors of its own, and silence, are none."""
    async with elsewhere(monkeypatch, tmp_path, probe_seconds=30, headers={"Authorization": "Bearer ours"}) as (
        host,
        site,
        url,
    ):
        assert host.config.registry is not None
        found = kept(host).terms
        assert found is not None
        terms = replace(found, providers=Providers(reactor, host.config.registry.provider))
        site.gives(b"", status=405)
        for card_id, endpoint in (("near", url), ("far", "https://api.example.com/")):
            assert host.register(host.operator, card(id=card_id, endpoint=endpoint), lifetime=60).status == 200
        maintenance = kept(host)
        for _ in range(4):
            await looked(host, 50, terms, maintenance)
        assert (host.state("near"), host.state("far")) == ("live", "lost")
        assert len(site.asked) == 4 and all("HEAD" in each and "Bearer ours" in each for each in site.asked)
        site.gives(b"", status=503)
        for _ in range(4):
            await looked(host, 50, terms, maintenance)
        assert len(site.asked) == 8 and host.state("near") != "live"


@pytest.mark.parametrize("scopes", [(), ("translate:read",)])
@pytest_twisted.ensureDeferred
async def test_nothing_is_fetched_for_an_agent_without_the_scopes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scopes: tuple[str, ...]
) -> None:
    """Fetches and probes of a card send the operator's credentials: only for who has the provider's scopes."""
    options = {"scopes": list(scopes), "probe_seconds": 30, "headers": {"Authorization": "Bearer ours"}}
    async with elsewhere(monkeypatch, tmp_path, **options) as (host, site, url):
        site.gives(card(endpoint=url))
        reader = host.agent("reader", scopes=("registry:register", "translate:*"))
        assert (await registered(host, url)).status == (262 if scopes else 200)
        assert len(site.asked) == (0 if scopes else 1)
        assert host.register().status == 200, "the card itself may be sent"
        answered = await registered(host, url, host.operator)
        assert (answered.status, answered.result["owner"]) == (200, host.translator.agent_id)
        found, asked = kept(host).terms, len(site.asked)
        assert found is not None and host.config.registry is not None
        terms = replace(found, providers=Providers(reactor, host.config.registry.provider))
        await looked(host, 3_601, terms, kept(host))
        await looked(host, 3_601, terms, kept(host))
        assert (len(site.asked) > asked) is not bool(scopes), site.asked
        owners = ("", host.translator.agent_id, reader.agent_id, "0" * 64)
        assert [terms.has_scopes(owner, url) for owner in owners] == [True, not scopes, True, not scopes]


def test_what_signatures_of_a_card_are_worth() -> None:
    """A key that the operator named for the provider, another key, an altered card, and no key at all."""
    key, other = key_of("signer"), key_of("other")
    host = RegistryHost({"provider": [{"origin": "https://api.example.com", "card_keys": {"k1": key.public.text}}]})
    rows: list[tuple[dict[str, Any], str]] = [
        (card(), "none"),
        (signed(card(), key), "verified"),
        (signed(card(), other), "invalid"),
        ({**signed(card(), key), "description": "Altered."}, "invalid"),
        (signed(card(endpoint="https://api.example.net/"), key), "unverified"),
        ({**card(), "signatures": "x"}, "invalid"),
    ]
    for document, worth in rows:
        answered = host.register(given=document)
        assert answered.status == 200, answered.explanation
        assert answered.result["trust"]["card_signature"] == worth, document


def signed(document: dict[str, Any], key: Any) -> dict[str, Any]:
    """As A2A signs cards: a detached JWS over the canonical card."""
    protected = encode(b'{"alg":"EdDSA","kid":"k1"}').decode()
    payload = encode(canonical(document)).decode()
    signature = encode(key.sign(f"{protected}.{payload}".encode())).decode()
    return {**document, "signatures": [{"protected": protected, "signature": signature}]}


@pytest_twisted.ensureDeferred
async def test_the_command_approves_what_was_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``agtp registry approve``: what is pending then, or what ``--sha256`` names; nothing pending is nothing to do."""
    async with elsewhere(monkeypatch, tmp_path) as (host, site, url):
        first = site.gives(card())
        await registered(host, url)
        maintenance = kept(host)
        await looked(host, 0, kept(host).terms, maintenance)

        def asked(self: NativeRegistry, method: str, path: str, given: Any) -> Any:
            reply = host.call(method, path, given, caller=host.operator).reply
            return native._require(reply, path)

        monkeypatch.setattr(NativeRegistry, "_request", asked)
        monkeypatch.setattr(commands, "resolve", lambda *_, **__: None)

        def said(*words: str) -> Any:
            return CliRunner().invoke(agtp, ["registry", "approve", *words], prog_name="agtp")

        nothing = said("translator")
        assert nothing.exit_code == 2 and "has no pending change" in nothing.output
        completer = ShellComplete(agtp, {}, "agtp", "_AGTP_COMPLETE")
        for word in ("approve", "get", "withdraw", "renew", "invoke"):
            found = completer.get_completions(["registry", word], "tran")
            assert [each.value for each in found] == ["translator"], word
        changed = site.gives(card(endpoint="https://api.example.net/"))
        await looked(host, 3_601, kept(host).terms, maintenance)
        assert host.get("translator").body == first
        stale = said("translator", "--sha256", "0" * 64)
        assert stale.exit_code == 1 and "definition-changed-again" in stale.output
        assert host.get("translator").body == first
        done = said("translator", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["version"] == 2 and host.get("translator").body == changed
        site.gives(card(endpoint="https://api.example.org/"))
        await looked(host, 3_601, kept(host).terms, maintenance)
        told = said("translator", "--sha256", str(host.get("translator", form="entry").result["pending"]))
        assert told.exit_code == 0 and "version" in told.output and "translator" in told.output
