"""
Publish revoked certificates: ``certificate_revoked`` (companion section 9.3).

Theory of operation. A certificate is revoked by an entry of a revocation list in force, or with its agent: the
certificates of a retired agent may not be used. Every other second both are compared with the revocations that were
published before. New ones are committed as signed events of the host's own chain, together with one notice for each
subscriber. So each revocation is published once, even if it happened while the host was down, and within the 60 seconds
that core v08 section 7.2.16 allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.audit.state import StateTable
from agtphost.config import Config
from agtphost.host.notice_queue import REVOKED, NoticeQueue
from agtphost.iagtp import IAgentDirectory, ILedger
from agtphost.identity import revocation
from agtphost.identity.agents import Agent
from agtphost.identity.certificates import link_of, parse_peer_certificate
from agtphost.identity.revocation import RevocationError
from agtphost.protocols.periodic import PeriodicService
from agtphost.protocols.tls import ServerTLS
from agtphost.vocabulary import times
from agtphost.vocabulary.quotas import ITEM_KINDS
from agtphost.vocabulary.regular_files import Stamp, stamps

PUBLISHED = "certificate-revocation"
"""The kind of state item that marks a revocation as published."""

LOOK_EVERY = 2.0
"""Seconds between two comparisons."""

FILES_EVERY = 15
"""Comparisons after which the certificate files of known agents are read again."""

MOST_REMEMBERED = ITEM_KINDS[PUBLISHED].in_all
"""Revocations that are remembered; of longer lists, the rest is not published."""

PER_COMMIT = 50
"""Revocations in one commit."""

log = Logger()


@dataclass(frozen=True, kw_only=True)
class KnownCertificate:
    """A certificate of an agent that this host has a file of."""

    link: str
    serial: str
    agent_id: str


class CertificateNotices(PeriodicService):
    """
    A service that finds new revocations, records them and queues their notices.

    :param tls: has the revocation lists in force.
    :param states: returns the present state of an agent.
    """

    name = "certificate notices"
    failure_message = "revocations could not be compared"

    def __init__(
        self,
        reactor: Any,
        config: Config,
        held: StateTable,
        directory: IAgentDirectory,
        states: Callable[[Agent], LifecycleState],
        tls: ServerTLS,
        propagation: NoticeQueue,
        ledger: ILedger,
    ) -> None:
        super().__init__(reactor, LOOK_EVERY)
        self._reactor = reactor
        self._folder = config.identity.known_agents
        self._held = held
        self._directory = directory
        self._states = states
        self._tls = tls
        self._propagation = propagation
        self._ledger = ledger
        self._certificates = AgentCertificates(self._folder)
        self._seen: object = None
        self._changed = True
        self._looks = 0

    def note_state(self, agent_id: str, state: LifecycleState) -> None:
        """Note that an agent's state has changed."""
        self._changed = self._changed or state.status is LifecycleStatus.RETIRED

    def _offload(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), function, *arguments)

    async def _check(self) -> None:
        again = self._looks % FILES_EVERY == 0
        self._looks += 1
        if again and await self._offload(self._certificates.look):
            self._changed = True
        in_force = self._tls.revocations.revoked
        if in_force is self._seen and not self._changed:
            return
        if not again and await self._offload(self._certificates.look):
            self._changed = True
        self._changed = False
        entries = await self._offload(_read_entries, self._tls.files.client_crl)
        due = {link: entry for link, entry in entries.items() if link in in_force.links}
        for known in self._retired_certificates():
            due.setdefault(known.link, {"certificate_serial": known.serial, "revocation_reason": "agent-revoked"})
        if await self._publish(due):
            self._seen = in_force
        else:
            self._changed = True

    def _retired_certificates(self) -> Iterable[KnownCertificate]:
        for known in self._certificates.known.values():
            agent = self._directory.by_id(known.agent_id)
            if agent is not None and self._states(agent).status is LifecycleStatus.RETIRED:
                yield known

    async def _publish(self, due: Mapping[str, Mapping[str, str]]) -> bool:
        """Commit the revocations that were not published before; return whether all of them are now."""
        told = self._held.count(PUBLISHED)
        new = [link for link in due if self._held.get(PUBLISHED, link) is None]
        if told + len(new) > MOST_REMEMBERED:
            log.warn(
                "{count} revocations are more than the host publishes; shorten the lists of [tls] client_crl",
                count=told + len(new),
            )
            new = new[: max(0, MOST_REMEMBERED - told)]
        subjects = {known.link: known.agent_id for known in self._certificates.known.values()}
        moment = times.stamp()
        for start in range(0, len(new), PER_COMMIT):
            changes: list[Change] = []
            events: list[StreamEvent] = []
            for link in new[start : start + PER_COMMIT]:
                content = {
                    "event_type": REVOKED,
                    "subject_agent_id": subjects.get(link, ""),
                    "effective_at": moment,
                    **due[link],
                }
                changes.append(Change(kind=PUBLISHED, key=link, value=content, expected=0))
                changes.extend(self._propagation.certificate_notices(link, content))
                said = {name: value for name, value in content.items() if name != "event_type"}
                events.append(StreamEvent(chain=HOST_CHAIN, event_type=REVOKED, fields={**said, "link": link}))
            draft = Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes), events=tuple(events))
            try:
                await self._ledger.submit(draft)
            except (LedgerUnavailable, StaleChange) as error:
                log.error("revocations could not be recorded: {why}", why=str(error))
                return False
        return True


class AgentCertificates:
    """
    The certificates of known agents from ``*/*.pem`` next to their documents; read in a thread.

    :param folder: the directory of known agents.
    """

    def __init__(self, folder: Path) -> None:
        self.known: dict[Path, KnownCertificate] = {}
        self._folder = folder
        self._stamps: dict[Path, Stamp] = {}

    def look(self) -> bool:
        """
        Read new files; return whether there were any. Removed files stay known: their certificates may be used
        elsewhere.
        """
        found = stamps(self._folder.glob("*/*.pem"))
        fresh = [path for path, stamp in found.items() if stamp is not None and self._stamps.get(path) != stamp]
        for path in fresh:
            known = _read(path)
            if known is not None:
                self.known[path] = known
        self._stamps = found
        return bool(fresh)


def _read(path: Path) -> KnownCertificate | None:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        parsed = parse_peer_certificate(certificate.public_bytes(Encoding.DER))
    except (OSError, ValueError):
        return None
    if parsed.agent_id is None or parsed.malformed:
        return None
    return KnownCertificate(link=link_of(certificate), serial=parsed.serial, agent_id=parsed.agent_id)


def _read_entries(paths: Iterable[Path]) -> dict[str, dict[str, str]]:
    """Return the revocation list entries by the link of their certificate; unreadable lists are ignored."""
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        try:
            lists = revocation.read_lists(path.read_bytes())
        except (OSError, RevocationError):
            continue
        for each in lists:
            for link, entry in revocation.entries_of(each):
                found[link] = {
                    "certificate_serial": f"{entry.serial_number:x}",
                    "revocation_reason": revocation.reason_of(entry),
                    "effective_at": revocation.moment(entry.revocation_date_utc) or "",
                }
    return found
