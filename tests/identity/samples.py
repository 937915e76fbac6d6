"""Identity material that several test modules start from; every signature in it is real."""

from __future__ import annotations

import hashlib
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agtphost.identity import documents, encoding, genesis
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import SigningKey
from agtphost.identity.packages import MANIFEST
from agtphost.vocabulary.catalog import FLOOR

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def key_of(name: str) -> SigningKey:
    """A key that is the same in every process: what is made of it may be part of a test's name."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a test's " + name.encode()).digest()))


def genesis_octets(key: SigningKey, **changes: Any) -> bytes:
    """A Genesis issued by ``key``."""
    arguments: dict[str, Any] = {
        "owner": "Jürgen & Søn",
        "owner_id": "acme.tld",
        "archetype": "executor",
        "governance_zone": "zone:acme",
        "scope": ["documents:query", "booking:*"],
        "issued_at": "2026-05-01T09:00:00Z",
        "members": {"org_label": "desk", "org_domain": "acme.tld"},
    }
    arguments.update(changes)
    if arguments.get("trust_tier") == 1:
        arguments.setdefault("evidence", {"method": "dns", "record": "_agtp.acme.tld"})
    return genesis.issue(key, **arguments)


def reference_genesis(key: SigningKey, **changes: Any) -> tuple[dict[str, Any], bytes]:
    """A Genesis in the shape of deployed implementations: PEM key, escaped form, no agent_id."""
    members: dict[str, Any] = {
        "agtp_genesis_version": "agtp-genesis/1",
        "name": "desk",
        "owner_id": "acme.tld",
        "principal_id": "acme.tld",
        "agent_public_key": SigningKey.generate().public.pem.decode(),
        "trust_tier": 2,
        "verification_path": "self-signed",
        "issued_at": "2026-05-01T09:00:00Z",
        "issuer": "Jürgen's registrar",
        "issuer_public_key": key.public.pem.decode(),
        **changes,
    }
    covered = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
    signed = {**members, "signature": encoding.encode(key.sign(covered)).decode()}
    return signed, covered


def resign(key: SigningKey, members: dict[str, Any], *, omit: tuple[str, ...] = ()) -> bytes:
    """``members`` with a fresh Agent-ID and signature, whatever they say."""
    body = {name: value for name, value in members.items() if name not in ("signature", "agent_id", *omit)}
    hashed = canonical({name: value for name, value in body.items() if name != "log_inclusion_proof"})
    body["agent_id"] = hashlib.sha256(hashed).hexdigest()
    body["signature"] = encoding.encode(key.sign(hashed)).decode()
    return canonical({name: value for name, value in body.items() if name not in omit})


def document(**changes: Any) -> dict[str, Any]:
    """An unsigned Identity Document of core shape; None leaves a member out."""
    members: dict[str, Any] = {
        "agtp_version": "1.0",
        "document_type": "agtp-identity",
        "document_version": "1.0",
        "agent_id": "ab" * 32,
        "name": "desk",
        "description": "Answers questions about rooms.",
        "principal": "Jürgen & Søn",
        "principal_id": "acme.tld",
        "issuer": "registrar.acme.tld",
        "issued_at": "2026-05-01T09:00:00Z",
        "updated_at": "2026-05-02T09:00:00Z",
        "status": "active",
        "methods": list(FLOOR),
        "capabilities": ["rooms"],
        "scopes_accepted": ["documents:query", "booking:*"],
        "trust_score": 0.94,
        "trust_score_computed_at": "2026-05-02T09:00:00Z",
        "trust_tier": 1,
        "verification_path": "dns-anchored",
        "owner_id": "acme.tld",
        **changes,
    }
    return {name: value for name, value in members.items() if value is not None}


def place_agent(
    directory: Path,
    key: SigningKey,
    *,
    name: str = "desk",
    signed: bool = True,
    paired: bool = False,
    **changes: Any,
) -> str:
    """Put an agent's Genesis and document into ``directory``; its Agent-ID."""
    octets = genesis_octets(key, members={"org_label": name})
    origin = genesis.Genesis.load(octets)
    members = document(agent_id=origin.agent_id, name=name, trust_tier=2, verification_path="org-asserted", **changes)
    served = documents.sign(members, "registrar.acme.tld", key) if signed else members
    if paired:
        genesis_file, document_file = directory / f"{name}.genesis.json", directory / f"{name}.agent.json"
    else:
        (directory / name).mkdir(parents=True)
        genesis_file, document_file = directory / name / "genesis.json", directory / name / "document.json"
    genesis_file.write_bytes(octets)
    document_file.write_text(json.dumps(served, ensure_ascii=False, indent=1), encoding="utf-8")
    return origin.agent_id


def pack(path: Path, members: dict[str, Any], files: dict[str, bytes] | None = None) -> str:
    """Write a package; its reference for the Genesis."""
    entries = {MANIFEST: canonical(members), **(files or {})}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
