"""Callers of a real host that nobody issued by the book: Genesis, keys and certificates as a test wants them."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agtphost.identity import certificates, genesis
from agtphost.identity.certificates import Authority
from agtphost.identity.files import write_once
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.identity.provisioning import AgentDescription, issue_agent, timestamp

OWNER = "callers"


def make_authority(folder: Path, stem: str) -> Authority:
    """A new authority, kept as ``STEM.pem`` and ``STEM.key``."""
    made = certificates.create_authority(now=datetime.now(UTC), organization=stem)
    folder.mkdir(parents=True, exist_ok=True)
    write_once(folder / f"{stem}.pem", made.certificate_pem, 0o644)
    write_once(folder / f"{stem}.key", made.key_pem, 0o600)
    return made


@dataclass(frozen=True, kw_only=True)
class Caller:
    """One agent, as the host knows it."""

    name: str
    agent_id: str
    zone: str
    scopes: Sequence[str]

    def certify(
        self, folder: Path, stem: str, authority: Authority, key: SigningKey | None = None
    ) -> tuple[Path, Path]:
        """A certificate that names the agent, whoever's key it is for: its file, and its key's."""
        key = key or SigningKey.generate()
        certificate = certificates.issue_agent_certificate(
            authority,
            key.public,
            label=self.name,
            organization=OWNER,
            agent_id=self.agent_id,
            principal_id=OWNER,
            commitment=self.scopes,
            zone=self.zone,
            now=datetime.now(UTC),
        )
        folder.mkdir(parents=True, exist_ok=True)
        files = folder / f"{stem}.pem", folder / f"{stem}.key"
        files[0].write_bytes(certificates.pem_of(certificate))
        files[1].write_bytes(key.pem)
        return files


def place_caller(
    known: Path,
    name: str,
    *,
    registrar: SigningKey,
    zone: str = "zone:development",
    scopes: Sequence[str] = ("documents:query",),
    agent_key: VerifyingKey | None = None,
) -> Caller:
    """
    Put an agent among those that a host knows.

    :param agent_key: what its Genesis names as its own key; None: nothing.
    """
    folder = known / name
    folder.mkdir(parents=True)
    now = datetime.now(UTC)
    octets = genesis.issue(
        registrar,
        owner=OWNER,
        owner_id=OWNER,
        archetype="executor",
        governance_zone=zone,
        scope=scopes,
        issued_at=timestamp(now),
        agent_key=agent_key,
        members={"org_label": name},
    )
    write_once(folder / "genesis.json", octets, 0o644)
    said = AgentDescription(
        name=name,
        principal=OWNER,
        owner_id=OWNER,
        governance_zone=zone,
        scopes=tuple(scopes),
        archetype="executor",
        description="A caller.",
    )
    issued = issue_agent(folder, said, registrar, issuer="registrar.test")
    return Caller(name=name, agent_id=issued.agent_id, zone=zone, scopes=tuple(scopes))


def shows(trust: Path, files: tuple[Path, Path]) -> ssl.SSLContext:
    """A client's TLS that shows a certificate."""
    context = ssl.create_default_context(cafile=str(trust))
    context.load_cert_chain(*files)
    return context
