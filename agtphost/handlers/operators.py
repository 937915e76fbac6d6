"""
Operators: who runs the host, what each is called, and what a role may do.

This is the host's only notion of an operator. ``[[operator]]`` lists them. Three older ways to name one map to roles:

- a key of ``[audit] operators`` is an administrator;
- a key of ``[admin] viewers`` is a viewer;
- the key of a registrar is an administrator of a development host, as long as no administrator is listed.

Two rights are left to registrars outside of roles. The issuer of an agent may change its lifecycle (core v08 section
7.2.19). In production, as long as no administrator is listed, it may also reload the host and limit that agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from agtphost.identity.peer import Peer, PeerCertificate


class OperatorRole(IntEnum):
    """A role of an operator; each role includes those before it."""

    VIEWER = 1
    APPROVER = 2
    ADMINISTRATOR = 3

    @property
    def label(self) -> str:
        """The word of the configuration."""
        return self.name.lower()


class OperatorAction(Enum):
    """A kind of request that operators make."""

    READ = "read records, agents, sessions, calls, upstreams and the configuration, also on the page"
    DECIDE = "decide approvals, escalations and proposals, and reply"
    RELOAD = "reload the configuration"
    LIFECYCLE = "activate, suspend, revoke, reinstate and deprecate agents"
    GRANT = "grant and take back what agents may call"
    REGISTRY = "register, renew and withdraw cards"
    TRY = "try a tool with the rights of an agent, on the page"
    OPERATE = "end calls and sessions of the page, restart upstream servers, approve changed definitions, end contracts"


NEEDED: Final[Mapping[OperatorAction, OperatorRole]] = MappingProxyType(
    {
        OperatorAction.READ: OperatorRole.VIEWER,
        OperatorAction.DECIDE: OperatorRole.APPROVER,
        OperatorAction.RELOAD: OperatorRole.ADMINISTRATOR,
        OperatorAction.LIFECYCLE: OperatorRole.ADMINISTRATOR,
        OperatorAction.GRANT: OperatorRole.ADMINISTRATOR,
        OperatorAction.REGISTRY: OperatorRole.ADMINISTRATOR,
        OperatorAction.TRY: OperatorRole.ADMINISTRATOR,
        OperatorAction.OPERATE: OperatorRole.ADMINISTRATOR,
    }
)
"""The least role for each action: the only table of what a role may do."""

RECORDED: Final = "sha256:"
"""How a key begins in records: the SHA-256 of its SubjectPublicKeyInfo."""

FINGERPRINT: Final = "ed25519:"
"""
How it begins where only the fingerprint is known: where a browser's certificate acts for a key of the configuration.
"""

REGISTRAR: Final = "registrar"
"""The name of a registrar that is an administrator because none is listed."""

_SPKI_OF_ED25519: Final = bytes.fromhex("302a300506032b6570032100")
"""What precedes the 32 octets of an Ed25519 key in its SubjectPublicKeyInfo."""


@lru_cache(maxsize=1_024)
def spki_digest(raw: bytes) -> str:
    """Return the SHA-256 of the SubjectPublicKeyInfo of an Ed25519 key, hexadecimal."""
    from hashlib import sha256

    return sha256(_SPKI_OF_ED25519 + raw).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A person who runs the host."""

    name: str
    key: str
    """The fingerprint of the key, or ``sha256:`` and the digest of its SubjectPublicKeyInfo."""

    role: OperatorRole
    spki: str = ""
    """The digest of the SubjectPublicKeyInfo, where the configuration names a file with the key."""

    listed: bool = False
    """Whether an entry of ``[[operator]]`` has the name and the key."""


class Operators:
    """
    The operators of one configuration.

    :param listed: all that the configuration lists; of several entries with one key, the first counts.
    :param registrars: keys that are administrators as long as none is listed.
    """

    def __init__(self, listed: Iterable[Operator] = (), registrars: Collection[str] = ()) -> None:
        self._by_key: dict[str, Operator] = {}
        for each in listed:
            self._by_key.setdefault(each.key, each)
        self.lists_administrator: bool = any(each.role is OperatorRole.ADMINISTRATOR for each in self._by_key.values())
        """Whether the configuration lists an administrator; if not, registrars have rights of one."""
        if not self.lists_administrator:
            for key in registrars:
                self._by_key[key] = Operator(name=REGISTRAR, key=key, role=OperatorRole.ADMINISTRATOR)
        self.keys: Collection[str] = self._by_key.keys()
        """Keys as the configuration lists them."""

        self.by_spki: bool = any(key.startswith(RECORDED) for key in self._by_key)
        """Whether some keys are listed by the digest of their SubjectPublicKeyInfo."""

    @classmethod
    def of_keys(cls, keys: Iterable[str], role: OperatorRole = OperatorRole.ADMINISTRATOR) -> Operators:
        """Return operators with keys alone, as the older lists of the configuration have them."""
        return cls(Operator(name=f"{role.label}-{key[:8]}", key=key, role=role) for key in keys)

    def find(self, peer: Peer | None) -> Operator | None:
        """Return the operator at the other end of a connection; None for everyone else."""
        return None if peer is None else self._find_by(peer.certificate)

    def _find_by(self, certificate: PeerCertificate | None) -> Operator | None:
        if certificate is None or not certificate.fingerprint:
            return None
        found = self._by_key.get(certificate.fingerprint)
        if found is None and self.by_spki and certificate.key is not None:
            found = self._by_key.get(RECORDED + spki_digest(certificate.key.raw))
        return found

    def may(self, peer: Peer | None, action: OperatorAction) -> bool:
        """Return whether the other end of a connection is an operator whose role includes an action."""
        found = self.find(peer)
        return found is not None and found.role >= NEEDED[action]

    def record_member(self, peer: Peer | None) -> dict[str, str] | None:
        """
        Return the member ``operator`` of a record about a request of an operator; None for everyone else.

        An operator who calls as an agent of the configuration is one too, without the rights of one.
        """
        certificate = None if peer is None else peer.certificate or peer.shown
        found = self._find_by(certificate)
        if certificate is None or found is None:
            return None
        return {"name": found.name, "key": _recorded_key(found, certificate)}


def _recorded_key(operator: Operator, certificate: PeerCertificate) -> str:
    if certificate.key is not None and certificate.key.fingerprint == certificate.fingerprint:
        return RECORDED + spki_digest(certificate.key.raw)
    if operator.key.startswith(RECORDED):
        return operator.key
    return RECORDED + operator.spki if operator.spki else FINGERPRINT + certificate.fingerprint


def setting_for(fingerprint: str, action: OperatorAction, operator: Operator | None = None) -> str:
    """
    Return the setting by which an administrator lets the holder of a key do something: the end of a remedy.

    :param operator: who has the key now; an entry with its name is to be changed, as each key is listed once.
    """
    key = f'name = "...", key = "{fingerprint or "FINGERPRINT"}"'
    if operator is not None and operator.listed:
        key = f'name = "{operator.name}"'
    return f'[[operator]] {key}, role = "{NEEDED[action].label}"'
