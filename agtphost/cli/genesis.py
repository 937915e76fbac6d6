"""The ``agtp genesis`` group: issue and verify an Agent Genesis (core v08 section 6.5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from agtphost.cli.dns_lookup import resolver_of, txt_records
from agtphost.cli.failures import Unverified, WrongInput
from agtphost.cli.groups import VerbGroup
from agtphost.cli.local_files import deliver, load_signing_key, load_verifying_key, output_option, read_octets
from agtphost.cli.options import EXISTING, json_option
from agtphost.cli.output import print_json, print_summary
from agtphost.identity.dns_anchor import EVIDENCE, NoEvidence, evidence_for
from agtphost.identity.extensions import ARCHETYPES
from agtphost.identity.genesis import PATHS, Genesis, GenesisError, issue
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.provisioning import timestamp


@click.group(cls=VerbGroup)
def command() -> None:
    """Issue and verify an Agent Genesis, which determines the Agent-ID."""


def summary(genesis: Genesis) -> dict[str, object]:
    """Return the members of a Genesis by name, for output."""
    return {
        "agent_id": genesis.agent_id,
        "owner": genesis.owner,
        "owner_id": genesis.owner_id,
        "archetype": genesis.archetype,
        "governance_zone": genesis.governance_zone,
        "scope": sorted(genesis.scopes),
        "trust_tier": genesis.trust_tier,
        "verification_path": genesis.verification_path,
        "verification_evidence": genesis.members.get(EVIDENCE),
        "issued_at": genesis.issued_at,
        "issuer_fingerprint": genesis.issuer_fingerprint,
        "self_signed": genesis.self_signed,
        "notes": list(genesis.notes),
    }


def tier_1_evidence(
    path: str, domain: str | None, zone: str, issuer: VerifyingKey, resolver: str | None, checked_at: str
) -> Mapping[str, Any]:
    """
    Look up the evidence that a Tier 1 Genesis needs (core v08 section 10.7).

    :raises Unverified: the evidence does not exist, so no Genesis may be signed.
    """
    try:
        return evidence_for(
            path, domain, zone, issuer, lambda name: txt_records(name, resolver_of(resolver)), checked_at
        )
    except NoEvidence as error:
        raise Unverified(f"a Genesis of tier 1 cannot be issued: {error}", answer={"issued": False}) from None


@command.command("issue")
@click.option("--key", type=EXISTING, required=True, metavar="FILE", help="The issuer's signing key.")
@click.option("--owner", required=True, metavar="NAME", help="The responsible person or organization.")
@click.option("--owner-id", metavar="ID", help="Identifier of the owner; default: none.")
@click.option(
    "--archetype", type=click.Choice(sorted(ARCHETYPES)), default="assistant", show_default=True, help="Kind of agent."
)
@click.option("--zone", default="zone:default", show_default=True, metavar="ZONE", help="Governance zone of the agent.")
@click.option("--scope", "scopes", multiple=True, metavar="TOKEN", help="A scope of the agent; may be repeated.")
@click.option(
    "--tier",
    type=click.IntRange(1, 3),
    default=2,
    show_default=True,
    metavar="TIER",
    help="Trust tier of the agent.",
)
@click.option(
    "--path",
    type=click.Choice(sorted(PATHS)),
    default="org-asserted",
    show_default=True,
    help="How a verifier can check who issued the Genesis.",
)
@click.option("--org-domain", metavar="DOMAIN", help="The organization's domain.")
@click.option("--resolver", metavar="HOST[:PORT]", help="DNS resolver to ask; default: the system's.")
@click.option("--agent-key", type=EXISTING, metavar="FILE", help="Public key of the agent, which the Genesis then has.")
@output_option
@json_option
def issue_command(
    key: Path,
    owner: str,
    owner_id: str | None,
    archetype: str,
    zone: str,
    scopes: tuple[str, ...],
    tier: int,
    path: str,
    org_domain: str | None,
    resolver: str | None,
    agent_key: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """
    Issue a Genesis, signed with the issuer's key.

    Tier 1 with dns-anchored is issued only if the domain has the record
    _agtp.DOMAIN TXT "agtp-zone=ZONE; cert=FINGERPRINT-OF-THE-KEY". The record becomes part of the Genesis. Ask a
    resolver that you trust.

    \b
    Example:
      agtp genesis issue --key registrar.key --owner "Example Ltd" --scope documents:query -o genesis.json
    """
    signer = load_signing_key(key)
    issued_at = timestamp(datetime.now(UTC))
    evidence = None
    if tier == 1:
        evidence = tier_1_evidence(path, org_domain, zone, signer.public, resolver, issued_at)
    try:
        octets = issue(
            signer,
            owner=owner,
            owner_id=owner_id,
            archetype=archetype,
            governance_zone=zone,
            scope=scopes,
            issued_at=issued_at,
            trust_tier=tier,
            verification_path=path,
            agent_key=None if agent_key is None else load_verifying_key(agent_key),
            members={"org_domain": org_domain} if org_domain else None,
            evidence=evidence,
        )
    except GenesisError as error:
        raise WrongInput(f"the Genesis cannot be issued: {error}") from None
    deliver(octets, output, Genesis.load(octets).agent_id, as_json)


@command.command("verify")
@click.argument("file")
@click.option(
    "--issuer", type=EXISTING, metavar="FILE", help="Public key of the issuer that must have signed the Genesis."
)
@json_option
def verify(file: str, issuer: Path | None, as_json: bool) -> None:
    """
    Verify the hash and signature of a Genesis.

    FILE may be - for standard input. Without --issuer this shows that the document is undamaged, but not that its
    issuer can be trusted.

    \b
    Example:
      agtp genesis verify genesis.json --issuer registrar.pub
    """
    expected = None if issuer is None else load_verifying_key(issuer)
    genesis = _load(file)
    if expected is not None and genesis.issuer_key != expected:
        raise Unverified(
            f"the Genesis was issued by another key: {genesis.issuer_fingerprint}, not {expected.fingerprint}",
            "Do not rely on it, unless you know that key to be the issuer's too.",
            answer={"verified": False, **summary(genesis)},
        )
    if as_json:
        print_json({"verified": True, **summary(genesis)})
        return
    print_summary(summary(genesis))
    trusted = "issued by the given key" if expected is not None else "its issuer was not checked"
    click.echo(f"genesis verified ({trusted})")


def _load(file: str) -> Genesis:
    octets = read_octets(file)
    try:
        return Genesis.load(octets)
    except GenesisError as error:
        raise Unverified(
            f"the Genesis does not verify: {error}", answer={"verified": False, "reason": str(error)}
        ) from None
