"""
Adopt files that change while the host runs: certificates, revocation lists, and the next signing key.

A thread checks them, so nothing is read on the reactor. New files are read and checked as a whole before any of them is
used.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Draft, LedgerUnavailable, StreamEvent
from agtphost.audit.ledger import Ledger
from agtphost.audit.state import StateTable
from agtphost.config import Config
from agtphost.errors import ConfigurationError
from agtphost.host.newest_key import find_unstored, put_reset_secret, put_statement, put_token_key
from agtphost.identity import files, key_history
from agtphost.identity.key_history import HostKey, Succession
from agtphost.identity.keys import KeyFormatError, SigningKey, is_exposed
from agtphost.protocols.periodic import PeriodicService
from agtphost.protocols.tls import PreparedTLS, ServerTLS
from agtphost.vocabulary.regular_files import Stamp, stamps

LOOK_EVERY = 0.5
"""Seconds between two checks. A revoked certificate counts for one second at most: a list of 100,000 is read in 0.3."""

INCOMPLETE_SECONDS = 2.0
"""For so long a list that cannot be read counts as one that is being written."""

MARGIN = 2.0
"""Seconds of the old key's use that must remain when the files of the new one are put in place."""

log = Logger()


class FileRotation(PeriodicService):
    """
    A service that adopts changed files.

    :param tls: the host's certificates, authorities and revocation lists.
    :param key: the signing key; None where the host signs nothing.
    :param adopted: called with the succession once everything signs with the new key.
    :param changed: called after files of either kind have been adopted.
    """

    name = "rotation"
    failure_message = "a change of files was not adopted"

    def __init__(
        self,
        reactor: Any,
        config: Config,
        tls: ServerTLS,
        key: SigningKey | None,
        ledger: Ledger,
        held: StateTable,
        adopted: Callable[[Succession], None],
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(reactor, LOOK_EVERY)
        self._reactor = reactor
        self._config = config
        self._tls = tls
        self._key = key if isinstance(key, HostKey) else None
        self._ledger = ledger
        self._held = held
        self._adopted = adopted
        self._changed = changed
        self._seen: dict[Path, Stamp] = {}
        self._faults: tuple[str, ...] = ()
        self._faulty_since = 0.0
        self._refused: Stamp = None
        self._linked: Succession | None = None

    def startService(self) -> None:
        """Start to look for files that differ from those read; store a statement from before there were items."""
        # Not those that are there now: a list may have changed since, which is long ago where this host stood by.
        self._seen = dict(self._tls.read)
        link = find_unstored(self._held, self._key)
        if link is not None:
            draft = Draft(chain=HOST_CHAIN, payload={}, changes=(put_statement(link),), performed=True)
            self._ledger.submit(draft).addErrback(
                lambda failure: log.error(
                    "the statement of the signing key could not be stored; the next start tries again: {why}",
                    why=failure.getErrorMessage(),
                )
            )
        super().startService()

    def _offload(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), function, *arguments)

    async def _check(self) -> None:
        waiting = None if self._key is None else key_history.waiting_key(self._config.audit.key)
        # One change of threads for all files: this is most of what an idle host does.
        seen = await self._offload(stamps, (*self._tls.files.files, *(() if waiting is None else (waiting,))))
        stamp = None if waiting is None else seen.pop(waiting)
        if seen != self._seen:
            await self._renew(seen)
        if self._key is not None and waiting is not None and stamp is not None:
            await self._follow(self._key, waiting, stamp)

    # Certificates and revocation lists

    async def _renew(self, seen: dict[Path, Stamp]) -> None:
        changed = sorted(str(path) for path in seen if seen[path] != self._seen.get(path))
        try:
            prepared: PreparedTLS = await self._offload(self._tls.prepare)
        except ConfigurationError as error:
            # The key of a new certificate may not be there yet. The next change of a file comes here again.
            self._seen = seen
            log.error("the changed TLS files were not adopted: {why}", why=str(error))
            return
        faults = tuple(str(fault) for fault in prepared.faults)
        if faults:
            now = self._clock.seconds()
            if faults != self._faults:
                self._faults, self._faulty_since = faults, now
            # The file may be incomplete; one that stays so counts.
            if now - self._faulty_since < INCOMPLETE_SECONDS:
                return
        self._seen, self._faults = seen, ()
        self._tls.adopt(prepared)
        for fault in faults:
            log.error("a revocation list went out of use: {why}", why=fault)
        log.info("the changed TLS files are in use: {changed}", changed=", ".join(changed))
        self._changed()

    # The signing key

    async def _follow(self, key: HostKey, path: Path, stamp: Stamp) -> None:
        """Change to the key that waits in a file, unless it was refused as it is."""
        if stamp == self._refused:
            return
        try:
            new = await self._offload(_read, path)
            link = self._linked
            if link is None or (link.old, link.new) != (key.public, new.public) or _ends_too_soon(link):
                # The date is in the future: until all files are in place, records are still signed with the old key.
                end = datetime.now(UTC) + timedelta(seconds=key_history.SETTLING)
                moment = end.strftime("%Y-%m-%dT%H:%M:%SZ")
                link = key_history.succeed(key, new, server_id=self._config.host.server_id, rotated_at=moment)
                event = StreamEvent(
                    chain=HOST_CHAIN, event_type=key_history.EVENT, fields=key_history.event_fields(link)
                )
                server_id = self._config.host.server_id
                changes = [put_statement(link), put_token_key(self._held, key, new, server_id, end.timestamp())]
                if self._config.quic.enabled:
                    changes.append(put_reset_secret(self._held, key, new, server_id))
                await self._ledger.submit(
                    Draft(chain=HOST_CHAIN, payload={}, events=(event,), changes=tuple(changes), performed=True)
                )
                self._linked = link
            if _ends_too_soon(link):
                # The store took too long. The next check makes the statement again; until then the old key signs.
                return
            await self._offload(partial(_place_files, self._config, link))
        except (KeyFormatError, OSError) as error:
            self._refused = stamp
            log.error("the signing key was not changed: {why}", why=str(error))
            return
        except LedgerUnavailable as error:
            log.error("the signing key could not be changed yet: {why}", why=str(error))
            return
        key.follow(new, link)
        self._ledger.adopt(new)
        self._adopted(link)
        self._changed()
        log.info("records are signed with {new} from now on, which follows {old}", new=link.new.kid, old=link.old.kid)


def _ends_too_soon(link: Succession) -> bool:
    """Return whether the old key's use ends too soon to change to the new key before."""
    return datetime.fromisoformat(link.rotated_at) - datetime.now(UTC) < timedelta(seconds=MARGIN)


def _read(path: Path) -> SigningKey:
    if is_exposed(path):
        raise KeyFormatError(f"{path}: other users can read the key; run: chmod 600 {path}")
    return SigningKey.load(path)


def _place_files(config: Config, link: Succession) -> None:
    """
    Put the files of a recorded rotation in place.

    The order lets a host that dies in between start with the old key and repeat all of it; every key that signed
    anything stays known.
    """
    path = config.audit.key
    key_history.keep(config.host.state_dir / key_history.DIRECTORY, link)
    files.replace(path.with_suffix(".pub"), link.new.pem, files.PUBLIC)
    files.rename(key_history.waiting_key(path), path)
