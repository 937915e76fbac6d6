"""
How people enter: a link that is good once, and the session that it opens.

No password exists. Whoever has shown a certificate over AGTP gets a link
(``AUTHORIZE /page``); the session that it opens *is* that certificate, so
that whatever ends the certificate ends the session. For a browser that shows a
certificate of its own (:mod:`agtphost.page.browsers`) the page asks for the
link itself, and its session is good together with that certificate alone.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from twisted.logger import Logger

from agtphost.identity.peer import Peer, PeerCertificate
from agtphost.vocabulary.newest import keep

log = Logger()

COOKIE = "__Host-agtphost"
"""Browsers take a cookie of this name over TLS alone, for this host and all its paths, and from no other host."""

LIFE = 60.0
"""Seconds that a link is good for."""

REMEMBERED = 600.0
"""Seconds for which it is still known that a link was used, or is over."""

MOST_LINKS = 256
MOST_SESSIONS = 64
"""Of all people together; one more ends the one that was used longest ago."""

FAILURES = 20
"""Entries from one address that may fail within a minute."""

MINUTE = 60.0

MOST_ADDRESSES = 1_024


class NoEntry(Exception):
    """
    A link that opens nothing.

    :param status: what it is answered with: 410 for one that was good once, 403 for one that never was.
    """

    def __init__(self, status: int, explanation: str) -> None:
        super().__init__(explanation)
        self.status = status


@dataclass(slots=True)
class _Link:
    certificate: PeerCertificate
    issued: float
    used: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One person at one browser."""

    certificate: PeerCertificate
    csrf: str = field(repr=False)
    """What every form of the session carries."""

    seen: float
    """When it was used last."""

    browser: str = ""
    """SHA-256 of the certificate that the browser has to show with the cookie; empty for one that came by a link."""

    said: str = ""
    """What its next page begins with: what became of the last action."""

    def peer(self, address: str) -> Peer:
        """The other end of one call."""
        # People are no agents: whose click it was, the record says by the key.
        said = {"surface": "admin", "client": f"key:{self.certificate.fingerprint}"}
        if self.browser:
            said["browser"] = self.browser
        return Peer(address=address, transport="http", certificate=self.certificate, http=said)


class Entrance:
    """
    Issues links, opens sessions and finds them again.

    :param url: where the page is, without a slash at its end.
    :param idle: seconds after which a session that was not used is over.
    :param now: seconds of a clock that never goes back.
    """

    def __init__(self, url: str, idle: float, now: Callable[[], float]) -> None:
        self.url = url
        self._idle = idle
        self._now = now
        self._links: OrderedDict[str, _Link] = OrderedDict()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._failed: OrderedDict[str, list[float]] = OrderedDict()

    # Links

    def link(self, certificate: PeerCertificate) -> str:
        """A link for whoever holds that certificate, good once and for :data:`LIFE` seconds."""
        token = secrets.token_urlsafe(32)
        keep(self._links, token, _Link(certificate, self._now()), MOST_LINKS)
        # A fragment: no server is sent it, no log has it, no Referer tells it.
        return f"{self.url}/enter#{token}"

    def barred(self, address: str) -> bool:
        """Whether so many entries from an address failed that none is looked at now."""
        since = self._now() - MINUTE
        failures = [at for at in self._failed.get(address, ()) if at > since]
        return len(failures) >= FAILURES

    def enter(self, token: str, address: str, browser: str = "") -> tuple[str, Session]:
        """
        Open a session.

        :param token: of a link, or a whole link as it was printed.
        :param browser: SHA-256 of the certificate that it is good together with; empty where with none.
        :return: the value of the session's cookie, and the session.
        :raises NoEntry: for a link that was used, has expired, or never was.
        """
        now = self._now()
        # What follows the dot is for the browser alone: the key that it verifies with.
        link = self._links.get(token.strip().rpartition("#")[2].partition(".")[0])
        if link is None or now - link.issued > REMEMBERED:
            self.failed(address)
            raise NoEntry(403, "No such link was made here.")
        if link.used:
            self.failed(address)
            log.warn("a link to the page was used a second time, from {address}", address=address)
            raise NoEntry(410, "This link was used already. If it was not you, end all sessions: restart the host.")
        if now - link.issued > LIFE:
            self.failed(address)
            raise NoEntry(410, f"This link was good for {LIFE:.0f} seconds, and they are over.")
        link.used = True
        session = Session(certificate=link.certificate, csrf=secrets.token_urlsafe(32), seen=now, browser=browser)
        cookie = secrets.token_urlsafe(32)
        keep(self._sessions, cookie, session, MOST_SESSIONS)
        return cookie, session

    def failed(self, address: str) -> None:
        """Note that somebody there has tried to enter, and may not."""
        now = self._now()
        recent = [at for at in self._failed.get(address, ()) if at > now - MINUTE]
        keep(self._failed, address, [*recent[1 - FAILURES :], now], MOST_ADDRESSES)

    # Sessions

    def session(self, cookie: str, person: str = "", *, used: bool = True) -> Session | None:
        """
        The session of a cookie; None where there is none, or it was idle for too long.

        :param person: as whom the browser could enter with the certificate that it shows; see
            :attr:`agtphost.page.browsers.Shown.person`.
        :param used: whether a person asks; what a page does by itself keeps no session from being idle.
        """
        session = self._sessions.get(cookie)
        if session is None or (session.browser and person != f"{session.certificate.fingerprint} {session.browser}"):
            return None
        now = self._now()
        if now - session.seen > self._idle:
            del self._sessions[cookie]
            return None
        if used:
            session.seen = now
            self._sessions.move_to_end(cookie)
        return session

    def leave(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(cookie, None)

    def end(self, session: Session) -> None:
        """End a session whose certificate admits no more."""
        for cookie in [known for known, each in self._sessions.items() if each is session]:
            del self._sessions[cookie]


def forged(session: Session, given: str) -> bool:
    """Whether a form was not made for this session."""
    return not hmac.compare_digest(session.csrf.encode(), given.encode())
