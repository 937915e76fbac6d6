"""Certificates, authorities, revocation lists and grants that expire, and when operators are warned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509

from agtphost.identity import revocation
from agtphost.identity.revocation import RevocationError
from agtphost.vocabulary import times
from agtphost.vocabulary.quantities import lasting

DAY = 86_400.0
SOON: Final = 14 * DAY
"""Seconds before the end at which operators are warned."""

HOST, HTTPS, AGENT, CLIENT = "host-certificate", "https-certificate", "agent-certificate", "client-certificate"
AUTHORITY, LIST, GRANT = "authority", "revocation-list", "grant"
KINDS = (HOST, HTTPS, AGENT, CLIENT, AUTHORITY, LIST, GRANT)
"""Every kind of what ends."""

REMEDIES = {
    HOST: "renew it with `agtp cert renew`: the host takes it within seconds",
    HTTPS: "put a renewed one in its place, and run `agtp reload`",
    AGENT: "agtp agent renew {name}",
    AUTHORITY: "after that, certificates that it issued are refused: have them issued by another one in time",
    LIST: "agtp cert crl writes the next",
    CLIENT: "have it issued again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """A certificate, authority, revocation list or grant that expires."""

    kind: str
    """One of :data:`KINDS`."""

    name: str
    """Whose it is, or what it is called: the operator's word."""

    ends: float
    """Seconds since the Unix epoch."""

    file: str = ""

    begins: float = 0.0
    """Seconds since the Unix epoch from which it is valid; 0 where it always was."""

    def is_soon(self, now: float) -> bool:
        """Return whether it has expired, will within :data:`SOON`, or is not valid yet."""
        return self.ends - now <= SOON or self.begins > now

    def days_left(self, now: float) -> int:
        """Return the whole days that are left; negative once it has expired."""
        return int((self.ends - now) // DAY)

    def describe(self, now: float) -> str:
        """Return a sentence for operators, with what to do."""
        what = f"the {self.kind.replace('-', ' ')} {'of ' if self.kind in (AGENT, GRANT) else ''}{self.name}"
        left = self.ends - now
        if self.begins > now:
            begins = times.stamp(self.begins)
            return f"{what} is not valid before {begins}, and is refused until then; compare this machine's clock"
        when = f"ended {lasting(-left)} ago" if left <= 0 else f"ends in {lasting(left)}"
        remedy = REMEDIES.get(self.kind, "").format(name=self.name)
        if self.kind == CLIENT and self.name == "registrar":
            remedy = "agtp agent renew registrar"
        return f"{what} {when}, at {times.stamp(self.ends)}{f'; {remedy}' if remedy else ''}"


def of_certificates(kind: str, name: str, path: Path) -> Iterator[Expiring]:
    """
    Yield when a file's certificates expire: each of an authority's file, and the first of others, with which the chain
    begins.

    A file that is missing or cannot be read yields nothing; the code that needs the file reports it.
    """
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        return
    for certificate in found if kind == AUTHORITY else found[:1]:
        yield Expiring(
            kind=kind,
            name=name,
            ends=certificate.not_valid_after_utc.timestamp(),
            file=str(path),
            begins=certificate.not_valid_before_utc.timestamp(),
        )


def of_lists(name: str, path: Path) -> Iterator[Expiring]:
    """Yield the dates after which a file's revocation lists are out of date."""
    try:
        found = revocation.read_lists(path.read_bytes())
    except (OSError, RevocationError):
        return
    for each in found:
        if each.next_update_utc is not None:
            yield Expiring(kind=LIST, name=name, ends=each.next_update_utc.timestamp(), file=str(path))
