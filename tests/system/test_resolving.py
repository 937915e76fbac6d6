"""URIs resolved against real hosts, by both clients and the command; anchors, redirects and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import pytest_twisted

from agtphost.client import Client as TwistedClient
from agtphost.client.bootstrap import BootstrapPolicy
from agtphost.client.errors import VerificationFailed
from agtphost.client.resolution import Resolution, TrustPolicy
from agtphost.client.sync import Client
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.identity.trust import TrustedIssuers
from agtphost.vocabulary.uris import PACKAGE_SUFFIXES
from tests.identity.samples import document, genesis_octets
from tests.rows import each_row
from tests.system.hosting import Host, free_port, running, sample, until
from tests.system.provider import Provider, providing


@cache
def policy() -> BootstrapPolicy:
    """With the port of the sample host's bootstrap document."""
    return BootstrapPolicy(port=free_port(), single_labels=True, addresses=None)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host, with its bootstrap document."""
    append = f'\n[wellknown]\nlisten = "ssl:{policy().port}:interface=127.0.0.1"\n'
    with running(sample(tmp_path_factory.mktemp("resolving"), append=append)) as started:
        yield started


def agent_id(host: Host, name: str = "librarian") -> str:
    """The hosted agent's."""
    return str(json.loads((host.state / f"hosted/{name}/document.json").read_text())["agent_id"])


def forms(host: Host) -> dict[str, str]:
    """A URI of each form that this machine can resolve, by the form's number."""
    return {
        "1": f"agtp://{agent_id(host)}",
        "1a": f"agtp://{agent_id(host)}@localhost:{host.port}",
        "2": host.uri,
        "2a": "agtp://localhost",
        "3": "agtp://localhost/agents/librarian",
        "namespace": "agtp://localhost/agents",
    }


def trusting(host: Host) -> TrustPolicy:
    """The host's registrar alone is trusted."""
    return TrustPolicy(issuers=TrustedIssuers(everywhere=[VerifyingKey.load(host.state / "registrar.pem")]))


def assert_right(host: Host, form: str, found: Resolution) -> None:
    """Everything holds, and it is the right thing."""
    assert found.ok, found.failures
    assert found.uri.form.value == form
    if form in ("1", "1a", "3"):
        assert (found.agent_id, found.trusted) == (agent_id(host), True)
        assert "mcp:tools:execute" in found.scopes
    else:
        assert found.agent_id is None


@each_row("form", ["1", "1a", "2", "2a", "3", "namespace"])
def test_the_blocking_client_resolves_every_form(host: Host, form: str) -> None:
    """AGTP-097, 098, 100, 102, 121, 122, 128, 310: Forms 2a and 3 by the domain's bootstrap document."""
    elsewhere = f"agtp://127.0.0.1:{free_port()}"
    with Client(trust=host.state / "ca.pem", resolver=[elsewhere, host.uri], bootstrap=policy()) as client:
        assert_right(host, form, client.resolution(forms(host)[form], policy=trusting(host)))


@pytest_twisted.ensureDeferred
async def test_the_twisted_client_resolves_every_form(host: Host) -> None:
    """The same, with the same checks."""
    from twisted.internet import reactor

    elsewhere = f"agtp://127.0.0.1:{free_port()}"
    async with TwistedClient(
        reactor, trust=host.state / "ca.pem", resolver=[elsewhere, host.uri], bootstrap=policy()
    ) as client:
        for form, uri in forms(host).items():
            assert_right(host, form, await client.resolution(uri, policy=trusting(host)))


def test_the_command_resolves_and_judges(host: Host) -> None:
    """``agtp resolve``: exit 0 with the document, 1 where the host refuses, 2 malformed, 4 not to be believed."""
    uri = forms(host)["1"]
    good = host.agtp_json("resolve", uri, "--registrar", str(host.state / "registrar.pem"))
    assert (good["agent_id"], good["trusted"], good["verified"]) == (agent_id(host), True, True)
    assert [check["name"] for check in good["checks"]][-1] == "scopes"
    stranger = host.agtp("resolve", uri, "--registrar", str(host.state / "signing.pub"))
    assert stranger.returncode == 4 and "untrusted issuer" in stranger.stderr and not stranger.stdout
    assert host.agtp("resolve", f"agtp://{'e' * 64}").returncode == 1
    for bad, code in ((uri[:-1], "invalid-canonical-id"), ("agtp://1.2.3.4/agents/x", "invalid-uri-form"),
                      ("agtp://acme.agent", "invalid-uri-form")):  # fmt: skip
        refused = host.agtp("resolve", bad)
        assert refused.returncode == 2 and code in refused.stderr
    page = host.agtp("resolve", uri, "--format", "html")
    assert page.returncode == 0 and page.stdout.startswith("<!DOCTYPE html>") and "Tier 2" in page.stdout
    assert host.agtp("resolve", f"{uri}?format=html").stdout == page.stdout
    asked = ("resolve", uri, "--format", "yaml", "--registrar")
    assert "agent_id: " in host.agtp(*asked, str(host.state / "registrar.pem")).stdout
    assert host.agtp(*asked, str(host.state / "signing.pub")).returncode == 4
    assert host.agtp("agent", "show", "librarian", "--html", str(host.state / "page.html")).returncode == 0
    assert "Tier 2" in (host.state / "page.html").read_text()


def test_a_file_name_is_redirected_once(host: Host) -> None:
    """AGTP-109: the client follows the host's 301 to the canonical name."""
    with Client(trust=host.state / "ca.pem") as client:
        for suffix in PACKAGE_SUFFIXES:
            reply = client.call(host.uri, "DESCRIBE", f"/agents/librarian.{suffix}")
            where = f"agtp://localhost:{host.port}/agents/librarian"
            assert (reply.status, reply.headers.get("location")) == (301, where)
            assert client.call(where, "DESCRIBE").status == 200


def test_no_suffix_is_in_what_the_host_publishes(host: Host) -> None:
    """AGTP-108: neither manifest nor namespace nor records name a package file."""
    with Client(trust=host.state / "ca.pem") as client:
        said = client.call(host.uri, "DISCOVER").body + client.call(host.uri, "DESCRIBE", "/agents").body
        said += client.call(host.uri, "DISCOVER", "/agents").body
    for suffix in PACKAGE_SUFFIXES:
        assert f'.{suffix}"'.encode() not in said


def test_the_status_follows_the_agents_work(host: Host) -> None:
    """AGTP-157, AGTP-158: the last action is the newest one; a stranger sees no sessions, the issuer does."""
    booked = host.agtp("call", host.uri, "BOOK", "/room", "room=garden", "arrival=2027-01-01", "departure=2027-01-03")
    assert booked.returncode == 0, booked.stdout + booked.stderr
    with Client(trust=host.state / "ca.pem") as client:
        found = client.resolution(forms(host)["1a"], "status")
    assert found.ok
    assert found.document["last_action_method"] == "BOOK"
    assert found.document["last_action_timestamp"] <= found.document["generated_at"]
    assert "active_session_count" not in found.document
    seen = host.agtp_json("call", host.uri, "DESCRIBE", "/agents/librarian/status", "--as", "registrar")
    assert "active_session_count" in seen.get("body", seen)


def test_the_namespace_follows_a_suspension(tmp_path: Path) -> None:
    """AGTP-133, AGTP-132: signed anew, and without the agent, well within 60 seconds of the change."""
    with running(sample(tmp_path)) as own, Client(trust=own.state / "ca.pem") as client:

        def listed() -> list[str]:
            reply = client.call(own.uri, "DESCRIBE", "/agents")
            return [entry["agent_label"] for entry in json.loads(reply.body)["agents"]]

        assert listed() == ["librarian"]
        done = own.agtp("agent", "deactivate", "librarian")
        assert done.returncode == 0, done.stderr
        until(lambda: listed() == [])
        found = client.resolution(f"agtp://{agent_id(own)}@localhost:{own.port}")
        assert "503" in found.failures[0].detail


def test_a_primary_domain_sends_its_agents_elsewhere(tmp_path: Path) -> None:
    """AGTP-123: [identity] redirect_to."""
    config = sample(tmp_path, edit=[('agents = "agents"', 'agents = "agents"\nredirect_to = "agtp.example.com"')])
    with running(config) as own, Client(trust=own.state / "ca.pem") as client:
        for path in ("/agents", "/agents/librarian", "/agents/librarian/status"):
            reply = client.call(own.uri, "DESCRIBE", path)
            assert (reply.status, reply.headers.get("location")) == (301, f"agtp://agtp.example.com{path}")
        assert client.call(own.uri, "DISCOVER", "/agents").ok
        with pytest.raises(VerificationFailed, match="another authority"):
            client.resolve(f"agtp://{agent_id(own)}@localhost:{own.port}")


# Identity providers as trust anchors

ANCHOR = """
[[identity.anchor]]
type = "oidc"
discovery_url = "{issuer}/.well-known/openid-configuration"
trusted_issuer = "{issuer}"
ca = "{ca}"
refresh_seconds = 0.5
"""


def place(config: Path, provider: Provider) -> None:
    """A hosted tier 1 agent whose Genesis was issued with the provider's key."""
    key = SigningKey.load(_pem(config, provider))
    octets = genesis_octets(
        key, trust_tier=1, verification_path="dns-anchored", members={"org_domain": "acme.tld", "org_label": "desk"}
    )
    members = document(agent_id=Genesis.load(octets).agent_id, trust_tier=None, verification_path=None)
    folder = config.parent / "agents"
    (folder / "desk.genesis.json").write_bytes(octets)
    (folder / "desk.agent.json").write_text(json.dumps(members))


def _pem(config: Path, provider: Provider) -> Path:
    path = config.parent / "provider.key"
    path.touch(0o600)
    path.write_bytes(provider.key.as_pem(private=True))
    return path


def test_an_identity_provider_vouches_for_issuers(tmp_path: Path) -> None:
    """AGTP-294: tier 1 while the provider publishes the key; capped at tier 2, and warned of, once it does not."""
    with providing(tmp_path) as provider:
        config = sample(tmp_path, append=ANCHOR.format(issuer=provider.issuer, ca=provider.ca))
        place(config, provider)
        with running(config) as own, Client(trust=own.state / "ca.pem") as client:

            def tier() -> tuple[object, object, str | None]:
                reply = client.call(own.uri, "DESCRIBE", "/agents/desk")
                found = json.loads(reply.body)
                return found["trust_tier"], found.get("trust_warning"), reply.headers.get("trust-tier")

            until(lambda: tier() == (1, None, "1"))
            provider.rotate()
            until(lambda: tier() == (2, "verification-incomplete", "2"))
            until(lambda: "untrusted" in own.output)


def test_an_unreachable_provider_keeps_no_host_from_starting(tmp_path: Path) -> None:
    """AGTP-294: the issuer is unresolved, the agent served at tier 2, and the failure logged."""
    with providing(tmp_path) as provider:
        config = sample(tmp_path, append=ANCHOR.format(issuer=f"https://localhost:{free_port()}", ca=provider.ca))
        place(config, provider)
    with running(config) as own, Client(trust=own.state / "ca.pem") as client:
        found = json.loads(client.call(own.uri, "DESCRIBE", "/agents/desk").body)
        assert (found["trust_tier"], found["trust_warning"]) == (2, "verification-incomplete")
        until(lambda: "could not be reached" in own.output)
