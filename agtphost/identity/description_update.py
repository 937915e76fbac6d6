"""
A description that was edited after its agent was issued: what follows it, and what cannot.

The Identity Document is written and signed anew, for the same agent. What the
Genesis says is the agent's identity (core v08 section 6.2) and stays: a
description that says something else there is refused, and not passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from agtphost.identity import documents, files
from agtphost.identity.agent_files import DOCUMENT_SUFFIX
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import (
    HOSTED,
    AgentDescription,
    IssuedAgent,
    ProvisioningError,
    new_document,
    registrar_url,
)

KNOWN = "description.sha256"
"""
The file next to a document with the digest of its description. A document that was signed by hand since then is kept.
"""

_OF_ISSUING = frozenset({*documents.SIGNATURE_FIELDS, "issuer", "updated_at", "trust_score", "trust_score_computed_at"})
"""Members that no description states."""


def follow_descriptions(
    state_dir: Path, *, server_id: str, hosted: Iterable[Path], now: datetime | None = None
) -> None:
    """
    Write the documents of the development profile's agents anew whose descriptions have become others.

    :param state_dir: with everything that :func:`.provisioning.provision_development` makes.
    :param hosted: the descriptions, each of an agent that was issued.
    :param now: UTC; None for the present.
    :raises ProvisioningError: with each description that says what the Genesis settled otherwise.
    :raises OSError: if a file cannot be written.
    """
    moment, issuer = now or datetime.now(UTC), registrar_url(server_id)
    registrar = SigningKey.load(state_dir / "registrar.key")
    faulty: list[tuple[Path, str]] = []
    for path in hosted:
        octets = path.read_bytes()
        description = AgentDescription.read(octets, path.name.removesuffix(DOCUMENT_SUFFIX))
        issued = IssuedAgent(agent_id="", directory=state_dir / HOSTED / description.name)
        known, digest = issued.directory / KNOWN, f"{sha256(octets).hexdigest()}\n".encode()
        try:
            if known.exists() and known.read_bytes() != digest:
                _follow(description, issued, registrar, issuer, moment)
        except ProvisioningError as error:
            faulty.append((path, str(error)))
        else:
            if not known.exists() or known.read_bytes() != digest:
                files.replace(known, digest, files.PUBLIC)
    if faulty:
        raise ProvisioningError("\n".join(f"{path}: {why}" for path, why in faulty), faulty)


def _follow(
    description: AgentDescription, issued: IssuedAgent, registrar: SigningKey, issuer: str, now: datetime
) -> None:
    origin = Genesis.load(issued.genesis.read_bytes())
    for member, settled in _find_conflicts(description, origin):
        raise ProvisioningError(
            f"{member}: the agent was issued with {settled}, which is part of its identity; "
            f"remove {issued.directory} to issue another agent of this name"
        )
    try:
        present = documents.decode(issued.document.read_bytes())
        signer = documents.check_signature(present)
    except documents.DocumentError:
        return  # Reading the agents says what is wrong with it; writing over it would hide that.
    if signer is None or signer.fingerprint != registrar.public.fingerprint:
        return  # Another registrar signed it.
    octets = new_document(description, origin, registrar, issuer, now)
    if _described_members(documents.decode(octets)) != _described_members(present):
        files.replace(issued.document, octets, files.PUBLIC)


def _find_conflicts(description: AgentDescription, origin: Genesis) -> Iterator[tuple[str, str]]:
    """Yield the members of a description that contradict the Genesis, with the value in the Genesis."""
    pairs: tuple[tuple[str, Any, Any], ...] = (
        ("scopes_accepted", frozenset(description.scopes), origin.scopes),
        ("archetype", description.archetype, origin.archetype),
        ("principal", description.principal, origin.owner),
        ("owner_id", description.owner_id, origin.owner_id),
        ("governance_zone", description.governance_zone, origin.governance_zone),
        ("trust_tier", description.trust_tier, origin.trust_tier),
        ("verification_path", description.verification_path, origin.verification_path),
    )
    for member, said, settled in pairs:
        if said != settled:
            yield member, " ".join(sorted(settled)) if isinstance(settled, frozenset) else str(settled)


def _described_members(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in _OF_ISSUING}
