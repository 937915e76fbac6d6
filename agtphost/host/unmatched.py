"""
Names of the configuration that match nothing here, so that what they were meant to protect or admit is neither.

What cannot work is refused where it is read; these could be right tomorrow, or
elsewhere, and so an operator is told and the host starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.config import Config
from agtphost.host.materials import Materials
from agtphost.identity.certificates import CertificateError, load_certificate, parse_peer_certificate


def unmatched(materials: Materials) -> Iterator[str]:
    """A sentence for each."""
    config = materials.config
    known = materials.directory.known()
    zones = {agent.governance_zone for agent in known if agent.governance_zone}
    for zone, seen in config.policies.zones.items():
        if zone != "*" and zone not in zones:
            yield f"[policies.zones] {zone}: no agent known here is of that zone"
        for other in seen:
            if other != "*" and other not in zones:
                yield f"[policies.zones] {zone} may look into {other}, and no agent known here is of that zone"
    methods = config.policies.methods
    served = {endpoint.method for endpoint in materials.endpoints}
    for key, names in (("allow", methods.allow), ("disallow", methods.disallow), ("custom", methods.custom)):
        for name in names if isinstance(names, tuple) else ():
            if not materials.catalog.knows(name) and name not in served:
                yield f"[policies.methods] {key} names {name}, which is no method of the catalog or of an endpoint"
    yield from _operators(config)


def _operators(config: Config) -> Iterator[str]:
    """Fingerprints that no certificate here has: an operator's may well be elsewhere, but a typo looks the same."""
    if not config.audit.operators:
        return
    here = set(_fingerprints(config))
    for fingerprint in config.audit.operators:
        if fingerprint not in here:
            yield (
                f"[audit] operators has {fingerprint}, which is the key of no certificate below "
                f"{config.host.state_dir}; `agtp cert show FILE` prints a certificate's"
            )


def _fingerprints(config: Config) -> Iterator[str]:
    state: Path = config.host.state_dir
    folders = {folder for folder in (state, config.identity.known_agents, config.identity.agents) if folder is not None}
    for folder in folders:
        for path in sorted(folder.rglob("*.pem")) if folder.is_dir() else ():
            try:
                yield parse_peer_certificate(load_certificate(path).public_bytes(Encoding.DER)).fingerprint
            except (OSError, CertificateError):
                continue  # A key, or no certificate of ours.
