"""Credentials of an external identity provider at a real host: required, refused, lifted, and never kept."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.hosting import Host, running, sample, until
from tests.system.provider import Provider, providing

CANARY = "canary-7f3a91d2"

SETTINGS = """
[log]
access = true

[policies.oauth]
required_on_methods = ["BOOK"]

[[policies.oauth.issuer]]
expected_issuer = "{issuer}"
expected_audience = ["agtphost"]
{source}
ca = "{ca}"
"""

NIGHTS = ("arrival=2027-01-01", "departure=2027-01-03")


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """An identity provider."""
    with providing(tmp_path_factory.mktemp("provider")) as serving:
        yield serving


@pytest.fixture(scope="module")
def host(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host, whose BOOK needs a credential; its keys come by discovery."""
    source = f'discovery_url = "{provider.issuer}/.well-known/openid-configuration"'
    settings = SETTINGS.format(issuer=provider.issuer, source=source, ca=provider.ca)
    with running(sample(tmp_path_factory.mktemp("oauth"), append=settings)) as started:
        until(lambda: "keys of" in started.output)
        yield started


def ask(host: Host, *words: str, header: str | None = None) -> tuple[int, dict[str, Any]]:
    """One request; the status and the body."""
    options = () if header is None else ("--header", header)
    answer = json.loads(host.agtp("call", host.uri, *words, *options, "--json").stdout)
    return int(answer["status"]), dict(answer.get("body") or answer)


def book(host: Host, header: str | None = None, who: tuple[str, ...] = (), room: str = "garden") -> Any:
    """Book a room."""
    return ask(host, "BOOK", "/room", f"room={room}", *NIGHTS, *who, header=header)


def test_a_credential_is_required_where_the_operator_says(host: Host) -> None:
    """AGTP-290: oauth-required; other methods do not need it."""
    status, body = book(host)
    assert (status, body["reason"]) == (401, "oauth-required")
    assert host.agtp("call", host.uri, "DISCOVER", "/methods").returncode == 0


def test_a_valid_one_is_lifted_into_the_record(host: Host, provider: Provider) -> None:
    """AGTP-291: who the agent acts for is signed, and named in the access line of the call."""
    status, body = book(host, f"Authorization: Bearer {provider.token(sub='alice@example.com')}")
    assert status == 200, body
    newest = host.agtp_json("audit", "walk", "librarian", "-n", "1")[0]
    assert newest["payload"]["acting_principal_id"] == "alice@example.com"
    until(lambda: any("BOOK" in line and "alice@example.com" in line for line in host.output.splitlines()))
    searched = ("audit", "search", "--person", "alice@example.com")
    for command in (("audit", "walk", "librarian", "-n", "1"), searched):
        assert "demo for alice@example.com" in host.agtp(*command).stdout
    (row,) = csv.DictReader(host.agtp(*searched, "--csv").stdout.splitlines())
    assert (row["caller"], row["person"]) == ("demo", "alice@example.com")
    explained = host.agtp("explain", newest["audit_id"]).stdout
    assert "  person   alice@example.com, on whose behalf it called\n" in explained
    assert "acting_principal_id" not in explained


@pytest.mark.parametrize(("claims", "detail"), [({"aud": "another"}, "oauth-audience"), ({"exp": 1}, "oauth-expired")])
def test_a_bad_one_is_refused_even_where_none_is_needed(
    host: Host, provider: Provider, claims: dict[str, Any], detail: str
) -> None:
    """AGTP-290: oauth-invalid, with the finer reason as detail."""
    header = f"Authorization: Bearer {provider.token(**claims)}"
    for status, body in (book(host, header), ask(host, "DISCOVER", "/methods", header=header)):
        assert (status, body["reason"], body["detail"]) == (401, "oauth-invalid", detail)


def test_the_axes_fail_apart(host: Host, provider: Provider) -> None:
    """AGTP-289: a bad token is oauth-invalid; a bad agent is unauthenticated whatever its token."""
    status, body = book(host, "Authorization: Bearer nonsense")
    assert (status, body["reason"]) == (401, "oauth-invalid")
    stranger = ("--no-cert", "--agent-id", "0" * 64)
    status, body = book(host, f"Authorization: Bearer {provider.token()}", who=stranger)
    assert (status, body["reason"]) == (401, "agent-unauthenticated")


def test_a_key_is_of_the_principal_and_the_addressee_too(host: Host, provider: Provider) -> None:
    """One caller's Idempotency-Key under another principal's credential is 422, not the first one's answer."""

    def again(principal: str) -> tuple[int, dict[str, Any]]:
        # Alike to the octet but for the credential: a booking that names nobody.
        header = f"Authorization: Bearer {provider.token(sub=principal)}"
        words = ("--idempotency-key", "principals-1", "--task-id", "t")
        return ask(host, "BOOK", "/room", "room=library", *NIGHTS, *words, header=header)

    first, same, other = again("alice"), again("alice"), again("bob")
    assert first[0] == same[0] == 200 and first[1]["result"] == same[1]["result"], (first, same)
    assert (other[0], other[1]["reason"]) == (422, "idempotency-key-reused")
    assert again("alice")[0] == 200


def test_the_token_is_nowhere(host: Host, provider: Provider) -> None:
    """AGTP-292: not in the store, the log, a record, an answer or the export; a canary inside it would show."""
    good = provider.token(sub="bob", canary=CANARY)
    bad = provider.token(aud="another", canary=CANARY)
    for credential in (f"Bearer {good}", f"Bearer {bad}", f"Basic {CANARY}", f"Bearer {CANARY}"):
        book(host, f"Authorization: {credential}")
    host.agtp("audit", "export", "-o", str(host.state / "export.jsonl"))
    secrets = (CANARY.encode(), good.encode(), good.split(".")[1].encode(), bad.split(".")[2].encode())
    for file in host.state.rglob("*"):
        if file.is_file():
            octets = file.read_bytes()
            assert not any(secret in octets for secret in secrets), file
    assert not any(secret.decode() in host.output for secret in secrets)


def test_rotated_keys_are_fetched(host: Host, provider: Provider) -> None:
    """A token with an unknown key has the keys fetched again, off the request path; then it passes."""
    provider.rotate()
    header = f"Authorization: Bearer {provider.token()}"
    status, body = book(host, header)
    assert (status, body["detail"]) == (401, "oauth-unknown-key")
    # At most once in some seconds; the room is taken by now, and that is another matter.
    until(lambda: book(host, header)[0] == 422)


def test_without_the_section_nothing_changes(tmp_path: Path) -> None:
    """AGTP-293: an Authorization header is neither needed nor looked at."""
    with running(sample(tmp_path)) as plain:
        status, body = book(plain)
        other, same = book(plain, "Authorization: Bearer nonsense", room="attic")
        assert status == other == 200
        assert body.keys() == same.keys()
