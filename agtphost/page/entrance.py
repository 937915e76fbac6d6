"""
How people enter: a link that is good once, and the session that it opens.

No password exists. Whoever has shown a certificate over AGTP gets a link
(``AUTHORIZE /page``); the session that it opens *is* that certificate, so
that whatever ends the certificate ends the session. For a browser that shows a
certificate of its own (:mod:`agtphost.page.browsers`) the page asks for the
link itself, and its session is good together with that certificate alone.

A good token is never barred, however many wrong ones others send from the same
address: every limit counts wrong tokens alone. It is not these limits that keep
a token from being guessed but its 256 random bits: with :data:`MOST_LINKS`
links open, a million guesses a second for a year hit one with a probability
of 2 to the power of -203. Tokens and cookies are looked up by their SHA-256, so
that the time a look-up takes says nothing of one that is known.
"""

from __future__ import annotations

import hmac
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

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
LINKS_OF_ONE = 16
"""Links of one certificate; one more ends its own oldest, and nobody else's."""

MOST_SESSIONS = 64
"""Of all people together; one more ends the one that was used longest ago of whoever has most of them."""

SESSIONS_OF_ONE = 16
"""Sessions of one certificate; one more ends its own that was used longest ago, and no one else's."""

FAILURES = 20
"""Wrong entries of one address within a minute that are explained; further wrong ones get 429, good ones enter."""

FAILURES_IN_ALL = 600
"""The same of all addresses together."""

MINUTE = 60.0

MOST_ADDRESSES = 1_024


class NoEntry(Exception):
    """
    A link that opens nothing.

    :param status: what it is answered with: 410 for one that was good once, 403 for one that never was, 429 where too
        many wrong ones came within a minute.
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
        self._wrong: deque[float] = deque(maxlen=FAILURES_IN_ALL)

    # Links

    def link(self, certificate: PeerCertificate) -> str:
        """A link for whoever holds that certificate, good once and for :data:`LIFE` seconds."""
        token = secrets.token_urlsafe(32)
        own = [known for known, each in self._links.items() if each.certificate.fingerprint == certificate.fingerprint]
        for known in own[: 1 - LINKS_OF_ONE]:
            del self._links[known]
        keep(self._links, _digest(token), _Link(certificate, self._now()), MOST_LINKS)
        # A fragment: no server is sent it, no log has it, no Referer tells it.
        return f"{self.url}/enter#{token}"

    def enter(self, token: str, address: str, browser: str = "") -> tuple[str, Session]:
        """
        Open a session.

        :param token: of a link, or a whole link as it was printed.
        :param browser: SHA-256 of the certificate that it is good together with; empty where with none.
        :return: the value of the session's cookie, and the session.
        :raises NoEntry: for a link that was used, has expired, or never was; never for a good one.
        """
        now = self._now()
        # What follows the dot is for the browser alone: the key that it verifies with.
        link = self._links.get(_digest(token.strip().rpartition("#")[2].partition(".")[0]))
        if link is None or now - link.issued > REMEMBERED:
            raise self.refuse(address, 403, "No such link was made here.")
        if link.used:
            log.warn("a link to the page was used a second time, from {address}", address=address)
            raise self.refuse(
                address, 410, "This link was used already. If it was not you, end all sessions: restart the host."
            )
        if now - link.issued > LIFE:
            raise self.refuse(address, 410, f"This link was good for {LIFE:.0f} seconds, and they are over.")
        link.used = True
        session = Session(certificate=link.certificate, csrf=secrets.token_urlsafe(32), seen=now, browser=browser)
        cookie = secrets.token_urlsafe(32)
        self._make_room(link.certificate.fingerprint)
        self._sessions[_digest(cookie)] = session
        return cookie, session

    def _make_room(self, person: str) -> None:
        """
        End a session for one more of a person, where that is needed.

        :param person: the fingerprint of the certificate.
        """
        now = self._now()
        for known in [known for known, each in self._sessions.items() if now - each.seen > self._idle]:
            del self._sessions[known]
        counts = Counter(each.certificate.fingerprint for each in self._sessions.values())
        if counts[person] >= SESSIONS_OF_ONE:
            ends = person
        elif len(self._sessions) >= MOST_SESSIONS:
            ends = max(counts, key=lambda each: counts[each])
        else:
            return
        # They are in the order of their use.
        del self._sessions[
            next(known for known, each in self._sessions.items() if each.certificate.fingerprint == ends)
        ]

    def refuse(self, source: str, status: int, explanation: str) -> NoEntry:
        """
        Count a wrong entry, and return what it is answered with: 429 where too many were wrong within a minute.

        :param source: what the entry is counted by: an address, or the SHA-256 of a certificate that a browser shows.
        """
        now = self._now()
        crowded = len(self._wrong) == FAILURES_IN_ALL and self._wrong[0] > now - MINUTE
        if crowded or self.is_crowded(source):
            return NoEntry(429, "Too many wrong links came from here; a good one still opens the page.")
        recent = [at for at in self._failed.get(source, ()) if at > now - MINUTE]
        keep(self._failed, source, [*recent[1 - FAILURES :], now], MOST_ADDRESSES)
        self._wrong.append(now)
        return NoEntry(status, explanation)

    def is_crowded(self, source: str) -> bool:
        """Return whether so many entries of a source were wrong within a minute that others are not explained."""
        since = self._now() - MINUTE
        return sum(at > since for at in self._failed.get(source, ())) >= FAILURES

    # Sessions

    def session(self, cookie: str, person: str = "", *, used: bool = True) -> Session | None:
        """
        The session of a cookie; None where there is none, or it was idle for too long.

        :param person: as whom the browser could enter with the certificate that it shows; see
            :attr:`agtphost.page.browsers.Shown.person`.
        :param used: whether a person asks; what a page does by itself keeps no session from being idle.
        """
        known = _digest(cookie)
        session = self._sessions.get(known)
        if session is None or (session.browser and person != f"{session.certificate.fingerprint} {session.browser}"):
            return None
        now = self._now()
        if now - session.seen > self._idle:
            del self._sessions[known]
            return None
        if used:
            session.seen = now
            self._sessions.move_to_end(known)
        return session

    def leave(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(cookie), None)

    def end(self, session: Session) -> None:
        """End a session whose certificate admits no more."""
        for known in [known for known, each in self._sessions.items() if each is session]:
            del self._sessions[known]


def _digest(secret: str) -> str:
    """Return what a token or a cookie is looked up by."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def forged(session: Session, given: str) -> bool:
    """Whether a form was not made for this session."""
    return not hmac.compare_digest(session.csrf.encode(), given.encode())
