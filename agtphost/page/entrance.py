"""
Let people enter: single-use links, and the sessions that they open.

Passwords do not exist. The holder of a certificate gets a link over AGTP (``AUTHORIZE /page``). The session that it
opens *is* that certificate, so the end of the certificate ends the session. For a browser with a listed certificate
(:mod:`agtphost.page.browser_certificates`) the page requests the link itself, and the session is valid only together
with that certificate.

A good token always works, however many wrong ones others send from the same address: every limit counts only wrong
tokens. The limits do not protect a token from being guessed; its 256 random bits do. With :data:`MOST_LINKS` links
open, a million guesses a second for a year hit one with a probability of 2 to the power of -203. Tokens and cookies are
looked up by their SHA-256, so the time of a look-up reveals nothing about known ones.
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
from agtphost.vocabulary.lru import keep

log = Logger()

COOKIE = "__Host-agtphost"
"""Browsers accept a cookie of this name only over TLS, for this host and all its paths, and from no other host."""

LINK_SECONDS = 60.0
"""Seconds for which a link is valid."""

REMEMBER_SECONDS = 600.0
"""Seconds for which the host remembers that a link was used or has expired."""

MOST_LINKS = 256
LINKS_PER_CERTIFICATE = 16
"""Links of one certificate; one more ends that certificate's oldest."""

MOST_SESSIONS = 64
"""Sessions of all people; one more ends the least recently used one of the person with the most sessions."""

SESSIONS_PER_CERTIFICATE = 16
"""Sessions of one certificate; one more ends that certificate's least recently used one."""

FAILURES_PER_MINUTE = 20
"""Wrong attempts of one address per minute that are explained; further wrong ones get 429, good ones enter."""

FAILURES_OF_ALL = 600
"""Wrong attempts of all addresses per minute that are explained."""

MINUTE = 60.0

MOST_ADDRESSES = 1_024


class EntryRefused(Exception):
    """
    A failed attempt to enter.

    :param status: of the answer: 410 for a link that was valid once, 403 for one that never was, 429 after too many
        wrong ones within a minute.
    """

    def __init__(self, status: int, explanation: str) -> None:
        super().__init__(explanation)
        self.status = status


@dataclass(slots=True)
class _PageLink:
    certificate: PeerCertificate
    issued: float
    used: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class PageSession:
    """The session of one person in one browser."""

    certificate: PeerCertificate
    csrf: str = field(repr=False)
    """The token that every form of the session carries."""

    last_used: float
    """When it was last used."""

    browser: str = ""
    """SHA-256 of the certificate that the browser has to present with the cookie; empty for one opened by a link."""

    message: str = ""
    """The message at the top of its next page: the result of the last action."""

    def peer(self, address: str, rights_of: str = "") -> Peer:
        """
        Return the other end of a call.

        :param rights_of: the Agent-ID with whose rights it is judged; empty for the person's own.
        """
        # People are not agents: the record names the person by the key.
        said = {"surface": "admin", "client": f"key:{self.certificate.fingerprint}"}
        if self.browser:
            said["browser"] = self.browser
        return Peer(address=address, transport="http", certificate=self.certificate, http=said, rights_of=rights_of)


class Entrance:
    """
    The links and sessions of the page.

    :param url: of the page, without a slash at its end.
    :param idle: seconds after which an unused session ends.
    :param now: returns monotonic seconds.
    """

    def __init__(self, url: str, idle: float, now: Callable[[], float]) -> None:
        self.url = url
        self._idle = idle
        self._now = now
        self._links: OrderedDict[str, _PageLink] = OrderedDict()
        self._sessions: OrderedDict[str, PageSession] = OrderedDict()
        self._failed: OrderedDict[str, list[float]] = OrderedDict()
        self._wrong: deque[float] = deque(maxlen=FAILURES_OF_ALL)
        self.when_all_end: Callable[[], None] = lambda: None
        """Called after :meth:`end_all`: ends what sessions have open."""

    # Links

    def issue_link(self, certificate: PeerCertificate) -> str:
        """Return a link for the holder of a certificate, valid once and for :data:`LINK_SECONDS` seconds."""
        token = secrets.token_urlsafe(32)
        own = [known for known, each in self._links.items() if each.certificate.fingerprint == certificate.fingerprint]
        for known in own[: 1 - LINKS_PER_CERTIFICATE]:
            del self._links[known]
        keep(self._links, _digest(token), _PageLink(certificate, self._now()), MOST_LINKS)
        # In the fragment it reaches no server, log or Referer.
        return f"{self.url}/enter#{token}"

    def enter(self, token: str, address: str, browser: str = "") -> tuple[str, PageSession]:
        """
        Open a session.

        :param token: of a link, or a whole link as it was printed.
        :param browser: SHA-256 of the certificate that the session is bound to; empty for none.
        :return: the value of the session's cookie, and the session.
        :raises EntryRefused: the link was used, has expired, or never existed; never for a good one.
        """
        now = self._now()
        # The part after the dot is only for the browser: the key that it verifies with.
        link = self._links.get(_digest(token.strip().rpartition("#")[2].partition(".")[0]))
        if link is None or now - link.issued > REMEMBER_SECONDS:
            raise self.refuse(address, 403, "This host did not make this link.")
        if link.used:
            log.warn("a link to the page was used a second time, from {address}", address=address)
            raise self.refuse(
                address,
                410,
                "This link was used already. If it was not you, end all sessions: agtp page --end-sessions.",
            )
        if now - link.issued > LINK_SECONDS:
            raise self.refuse(address, 410, f"This link has expired: it was valid for {LINK_SECONDS:.0f} seconds.")
        link.used = True
        session = PageSession(
            certificate=link.certificate, csrf=secrets.token_urlsafe(32), last_used=now, browser=browser
        )
        cookie = secrets.token_urlsafe(32)
        self._make_room(link.certificate.fingerprint)
        self._sessions[_digest(cookie)] = session
        return cookie, session

    def _make_room(self, person: str) -> None:
        """
        End a session if a person needs room for one more.

        :param person: the fingerprint of the certificate.
        """
        now = self._now()
        for known in [known for known, each in self._sessions.items() if now - each.last_used > self._idle]:
            del self._sessions[known]
        counts = Counter(each.certificate.fingerprint for each in self._sessions.values())
        if counts[person] >= SESSIONS_PER_CERTIFICATE:
            ends = person
        elif len(self._sessions) >= MOST_SESSIONS:
            ends = max(counts, key=lambda each: counts[each])
        else:
            return
        # Sessions are in the order of their last use.
        del self._sessions[
            next(known for known, each in self._sessions.items() if each.certificate.fingerprint == ends)
        ]

    def refuse(self, source: str, status: int, explanation: str) -> EntryRefused:
        """
        Count a wrong attempt, and return its answer: 429 if too many were wrong within a minute.

        :param source: the counter: an address, or the SHA-256 of a certificate that a browser presents.
        """
        now = self._now()
        crowded = len(self._wrong) == FAILURES_OF_ALL and self._wrong[0] > now - MINUTE
        if crowded or self.is_crowded(source):
            return EntryRefused(
                429, "Too many invalid links came from this address; a valid link still opens the page."
            )
        recent = [at for at in self._failed.get(source, ()) if at > now - MINUTE]
        keep(self._failed, source, [*recent[1 - FAILURES_PER_MINUTE :], now], MOST_ADDRESSES)
        self._wrong.append(now)
        return EntryRefused(status, explanation)

    def is_crowded(self, source: str) -> bool:
        """Return whether a source had so many wrong attempts within a minute that others are not explained."""
        since = self._now() - MINUTE
        return sum(at > since for at in self._failed.get(source, ())) >= FAILURES_PER_MINUTE

    # Sessions

    def find_session(self, cookie: str, person: str = "", *, used: bool = True) -> PageSession | None:
        """
        Return the session of a cookie, or None if it is unknown or was idle for too long.

        :param person: whom the certificate that the browser presents represents; see
            :attr:`agtphost.page.browser_certificates.BrowserCertificate.person`.
        :param used: whether a person makes the request; requests of a page's script do not keep a session from being
            idle.
        """
        known = _digest(cookie)
        session = self._sessions.get(known)
        if session is None or (session.browser and person != f"{session.certificate.fingerprint} {session.browser}"):
            return None
        now = self._now()
        if now - session.last_used > self._idle:
            del self._sessions[known]
            return None
        if used:
            session.last_used = now
            self._sessions.move_to_end(known)
        return session

    def is_open(self, session: PageSession) -> bool:
        """Return whether a session has neither ended nor been idle for too long."""
        return self._now() - session.last_used <= self._idle and any(
            each is session for each in self._sessions.values()
        )

    def end_by_cookie(self, cookie: str) -> None:
        """End the session of a cookie."""
        self._sessions.pop(_digest(cookie), None)

    def end_all(self) -> tuple[int, int]:
        """End every session and every unused link, and return how many of each there were."""
        ended = len(self._sessions)
        self._sessions.clear()
        now, links = self._now(), 0
        for link in self._links.values():
            if not link.used:
                links += now - link.issued <= LINK_SECONDS
                link.used = True
        self.when_all_end()
        return ended, links

    def end_session(self, session: PageSession) -> None:
        """End a session whose certificate is not accepted any more."""
        for known in [known for known, each in self._sessions.items() if each is session]:
            del self._sessions[known]


def _digest(secret: str) -> str:
    """Return the key by which a token or a cookie is looked up."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_forged(session: PageSession, given: str) -> bool:
    """Return whether a form was not made for this session."""
    return not hmac.compare_digest(session.csrf.encode(), given.encode())
