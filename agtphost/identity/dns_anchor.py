"""
The DNS records that confirm a Tier 1 Genesis: core v08 section 10.7.

The record is ``_agtp.DOMAIN. TXT "agtp-zone=ZONE; cert=FINGERPRINT"``: the owner of the domain names the governance
zone, and the key that may issue agents under it. The record has the fingerprint of the issuer's key, because the name
of a zone is public and proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agtphost.identity.keys import VerifyingKey

EVIDENCE = "verification_evidence"
"""The member of a Genesis that says what its issuer looked at."""

LABEL = "_agtp"

Lookup = Callable[[str], Iterable[str]]
"""The texts of a name's TXT records; raises :class:`NoEvidence` where they cannot be had."""


class NoEvidence(ValueError):
    """Nothing shows what a Genesis would claim; the message says what is missing."""


def unchecked_evidence(*members: str) -> Mapping[str, Any]:
    """Return the evidence of a Genesis whose issuer checked nothing, with the members that it claims all the same."""
    return {"method": "none", "unchecked": list(members)}


def expected_record(zone: str, issuer: VerifyingKey) -> str:
    """Return the TXT record that the domain's owner has to publish."""
    return f"agtp-zone={zone}; cert={issuer.fingerprint}"


def dns_evidence(domain: str, zone: str, issuer: VerifyingKey, lookup: Lookup, checked_at: str) -> Mapping[str, Any]:
    """
    Look up whether a domain vouches for an issuer and a zone.

    :param checked_at: RFC 3339.
    :return: what the Genesis says of it.
    :raises NoEvidence: no record does, or none can be read.
    """
    name = f"{LABEL}.{domain.rstrip('.').lower()}"
    wanted = {"agtp-zone": zone, "cert": issuer.fingerprint}
    for text in lookup(name):
        if wanted.items() <= _members(text).items():
            return {"method": "dns", "record": name, "value": text, "checked_at": checked_at}
    raise NoEvidence(f'{name} has no TXT record "{expected_record(zone, issuer)}"')


def _members(text: str) -> dict[str, str]:
    """Parse ``name=value`` pairs; a name that occurs twice gets an empty value, so that neither counts."""
    found: dict[str, str] = {}
    for part in text.split(";"):
        name, equals, value = part.strip().partition("=")
        if equals:
            found[name.lower()] = value if name.lower() not in found else ""
    return found


def evidence_for(
    path: str, domain: str | None, zone: str, issuer: VerifyingKey, lookup: Lookup, checked_at: str
) -> Mapping[str, Any]:
    """
    Return the evidence of a Tier 1 Genesis by its ``verification_path``.

    :raises NoEvidence: it is not there, or this host has no way to look at it.
    """
    if path == "dns-anchored":
        if not domain:
            raise NoEvidence("dns-anchored needs the domain")
        return dns_evidence(domain, zone, issuer, lookup, checked_at)
    if path == "hybrid":
        raise NoEvidence("hybrid needs proof of a blockchain address, which nothing here can look at")
    if path == "log-anchored":
        raise NoEvidence("log-anchored needs a transparency log that takes the Genesis, and none is connected here")
    raise NoEvidence(f"tier 1 needs one of dns-anchored, log-anchored and hybrid, and {path} is none")
