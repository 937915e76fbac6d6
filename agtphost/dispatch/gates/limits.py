"""
How often one caller may ask: 429 beyond it (core v08 sections 5.6, 10.5 and 10.11).

Each caller has an allowance per class of methods, and all agents of one principal have one together; requests without a
name are counted by address. All credentials that prove an agent, its certificate and its tokens at the fronts of this
host, share one allowance. A caller that only names an agent is counted separately, so that it can't use up the
agent's allowance: by its address where headers are not believed. ESCALATE has a separate allowance, so that an agent's
call for a human always gets through.

An allowance is one number, the time at which the caller's bucket would be full (the generic cell rate algorithm): a
bucket that refills with time. Calls that a request makes inside this host, and what it stores, are charged to the same
allowances (:mod:`agtphost.dispatch.call_budget`).
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.config.limits import Limits
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import IGate
from agtphost.errors import Refusal
from agtphost.identity.peer import Assurance, Peer
from agtphost.vocabulary.addresses import find_origin
from agtphost.vocabulary.reasons import Reason

MOST_CALLERS = 10_000
"""Allowances remembered; the one that was not asked for longest is forgotten first (T-ID-40)."""

LOG_SECONDS = 60.0
"""A caller that is over its rate is logged once in this time; each refusal has its record all the same."""

READ, ACT, ESCALATE = "read", "act", "escalate"

CLASSES = {
    **dict.fromkeys(("DISCOVER", "DESCRIBE", "INSPECT", "QUERY", "SUMMARIZE", "PLAN"), READ),
    "ESCALATE": ESCALATE,
}
"""The class of each method that does not act on the world; all others do."""

log = Logger()


class AllowanceTable:
    """The counts of each kind of callers; they outlive changes of the limits."""

    def __init__(self) -> None:
        self._owed: dict[str, dict[object, float]] = {}

    def allowances_of(self, kind: str, per_minute: int, burst: float) -> Allowances:
        """Return the allowances of a kind, with their earlier counts."""
        return Allowances(per_minute, burst, owed=self._owed.setdefault(kind, {}))


class Allowances:
    """
    The allowances of one kind of callers.

    :param per_minute: requests.
    :param burst: seconds' worth of requests that may come together; a single one always may.
    :param owed: the counts so far, under any earlier limits; None: there are none yet.
    """

    __slots__ = ("_ahead", "_interval", "_most", "_owed", "_tolerance")

    def __init__(
        self, per_minute: int, burst: float, most: int = MOST_CALLERS, owed: dict[object, float] | None = None
    ) -> None:
        self._interval = 60.0 / per_minute
        self._tolerance = max(burst - self._interval, 0.0)
        # A millionth of a second is rounding, not haste.
        self._ahead = self._interval + self._tolerance + 1e-6
        self._most = most
        self._owed: dict[object, float] = {}
        if owed is not None:
            self._owed = owed

    def __len__(self) -> int:
        return len(self._owed)

    def take(self, who: object, now: float, calls: int = 1) -> float:
        """
        Count one request, or so many calls that are made for one.

        :return: 0.0 where it is allowed, otherwise in how many seconds one will be; then nothing is counted.
        """
        owed = self._owed
        # Taken out and put back: the order of the table is then by last use.
        due = owed.pop(who, now)
        if due < now:
            due = now
        full = due + calls * self._interval
        if full - now > self._ahead:
            owed[who] = due
            return full - now - self._interval - self._tolerance
        owed[who] = full
        if len(owed) > self._most:
            del owed[next(iter(owed))]
        return 0.0

    def owe(self, who: object, now: float, calls: int) -> None:
        """Count so many calls, allowed or not; a negative number gives calls back."""
        self._owed[who] = max(self._owed.pop(who, now), now) + calls * self._interval
        if len(self._owed) > self._most:
            del self._owed[next(iter(self._owed))]

    def calls_left(self, who: object, now: float) -> int:
        """Return how many calls are allowed at this moment."""
        early = max(self._owed.get(who, now), now) - now - self._tolerance
        return 0 if early > 1e-6 else int((1e-6 - early) / self._interval) + 1

    @property
    def most(self) -> int:
        """The most calls that are allowed at one moment."""
        return int((self._tolerance + 1e-6) / self._interval) + 1


@lru_cache(maxsize=4096)
def address_origin(address: str) -> str:
    """Return the unit of counting: see :func:`agtphost.vocabulary.addresses.find_origin`; other texts are their own."""
    try:
        return find_origin(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return address


class _Account(NamedTuple):
    """An allowance in which a call is counted."""

    allowances: Allowances
    who: str
    scope: str
    per_minute: int


@implementer(IGate)
class RateGate:
    """
    Counts each request from outside, and what is charged to it besides: calls inside this host, and octets stored.

    :param limits: with the requests per minute of everybody, and the addresses that are not counted.
    :param now: seconds from any start, never going back.
    :param counted: what was counted before; None: nothing was.
    :param floor: lowest assurance of a caller of what changes state. If it is above ``header``, a caller who only names
        an agent is counted by its address, like callers without a name, unless the address has no rate.
    """

    name = "rate"

    def __init__(
        self,
        limits: Limits,
        now: Callable[[], float] = time.monotonic,
        counted: AllowanceTable | None = None,
        floor: Assurance = Assurance.HEADER,
    ) -> None:
        self._believes_headers = floor <= Assurance.HEADER
        of = (counted or AllowanceTable()).allowances_of
        agent, principal, burst = (
            limits.requests_per_minute,
            limits.requests_per_minute_per_principal,
            limits.rate_burst,
        )
        self._now = now
        self._exempt = lru_cache(maxsize=4096)(self._is_exempt)
        self._agents = {kind: of(f"agent {kind}", agent, burst) for kind in (READ, ACT, ESCALATE)}
        proven = self._agents, of("principal", principal, burst)
        # Agents that are only named: apart from those that are proven.
        claimed = {kind: of(f"claimed {kind}", agent, burst) for kind in (READ, ACT, ESCALATE)}
        self._callers = {
            Assurance.CERTIFICATE: proven,
            Assurance.GATEWAY: proven,
            Assurance.HEADER: (claimed, of("claimed principal", principal, burst)),
        }
        self._anonymous = of("address", limits.anonymous_requests_per_minute, burst)
        self._limits = limits
        self._logged: dict[object, float] = {}

    def _is_exempt(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(parsed in network for network in self._limits.exempt_addresses)

    def check(self, exchange: Exchange) -> None:
        peer = exchange.peer
        if peer.depth:
            if exchange.place is None:
                # It belongs to no request: a workflow continues in its caller's name.
                self.charge(exchange, exchange.request.method, 1)
            return
        exchange.counted = True
        caller = None if peer.rights_of else exchange.caller
        now = self._now()
        if caller is None or (exchange.assurance is Assurance.HEADER and self._counts_by_address(peer)):
            self._nameless(exchange, now)
            return
        kind = CLASSES.get(exchange.request.method, ACT)
        agents, principals = self._callers[exchange.assurance]
        wait = agents[kind].take(caller.agent_id, now)
        if wait:
            raise self._refusal(caller.agent_id, f"agent:{kind}", self._limits.requests_per_minute, wait, now)
        owner = caller.owner_id
        if owner is not None and kind is not ESCALATE:
            wait = principals.take(owner, now)
            if wait:
                raise self._refusal(owner, "principal", self._limits.requests_per_minute_per_principal, wait, now)

    def _counts_by_address(self, peer: Peer) -> bool:
        """Return whether requests that only name an agent count for their address, unless the address has no limit."""
        return not self._believes_headers and not self._exempt(peer.address)

    def charge(self, exchange: Exchange, method: str, calls: int, octets: int = 0) -> None:
        """Charge the caller for further calls; see :class:`agtphost.dispatch.call_budget.Charges`."""
        now = self._now()
        taken: list[_Account] = []
        for account in self._accounts(exchange, method):
            wait = account.allowances.take(account.who, now, calls)
            if wait:
                for before in taken:
                    before.allowances.owe(before.who, now, -calls)
                raise self._too_many(account, calls, octets, wait, now)
            taken.append(account)

    def owe(self, exchange: Exchange, calls: int) -> None:
        """Charge the caller even beyond its allowance; see :class:`agtphost.dispatch.call_budget.Charges`."""
        now = self._now()
        for account in self._accounts(exchange, exchange.request.method):
            account.allowances.owe(account.who, now, calls)

    def _accounts(self, exchange: Exchange, method: str) -> Iterator[_Account]:
        """Yield the allowances in which :meth:`check` counts a request of the same caller."""
        peer, caller, limits = exchange.peer, exchange.accountable, self._limits
        kind = CLASSES.get(method, ACT)
        named = exchange.assurance is Assurance.HEADER and self._counts_by_address(peer)
        if caller is not None and not named:
            agents, principals = self._callers.get(exchange.assurance) or self._callers[Assurance.HEADER]
            yield _Account(agents[kind], caller.agent_id, f"agent:{kind}", limits.requests_per_minute)
            if caller.owner_id is not None and kind is not ESCALATE:
                yield _Account(principals, caller.owner_id, "principal", limits.requests_per_minute_per_principal)
        elif peer.certificate is not None and peer.certificate.agent_id is None:
            who = peer.certificate.sha256
            yield _Account(self._agents[kind], who, f"certificate:{kind}", limits.requests_per_minute)
        elif not self._exempt(peer.address):
            who = address_origin(peer.address)
            yield _Account(self._anonymous, who, "address", limits.anonymous_requests_per_minute)

    def _nameless(self, exchange: Exchange, now: float) -> None:
        """
        Count a request without an agent: by a certificate that names none, as those of issuers; otherwise by address.
        """
        peer = exchange.peer
        if peer.certificate is not None and peer.certificate.agent_id is None:
            kind = CLASSES.get(exchange.request.method, ACT)
            wait = self._agents[kind].take(peer.certificate.sha256, now)
            if wait:
                raise self._refusal(
                    peer.certificate.sha256, f"certificate:{kind}", self._limits.requests_per_minute, wait, now
                )
            return
        if self._exempt(peer.address):
            return
        who = address_origin(peer.address)
        wait = self._anonymous.take(who, now)
        if wait:
            raise self._refusal(who, "address", self._limits.anonymous_requests_per_minute, wait, now)

    def _refusal(self, who: str, scope: str, per_minute: int, wait: float, now: float) -> Refusal:
        self._log(who, scope, per_minute, now)
        seconds = max(1, ceil(wait))
        return Refusal(
            Reason.RATE_LIMITED,
            f"More than {per_minute} requests in a minute ({scope.partition(':')[0]}).",
            remedy=f"Wait {seconds} seconds.",
            details={"scope": scope, "limit_per_minute": per_minute, "retry_after_seconds": seconds},
            headers=(("Retry-After", str(seconds)),),
        )

    def _too_many(self, account: _Account, calls: int, octets: int, wait: float, now: float) -> Refusal:
        """Return the refusal of a request's inner calls or stored octets, with their cost and what is left."""
        allowances, per_minute = account.allowances, account.per_minute
        self._log(account.who, account.scope, per_minute, now)
        seconds, left, most = max(1, ceil(wait)), allowances.calls_left(account.who, now), allowances.most
        what = f"makes {calls} calls inside this host, each of which counts as a request"
        remedy = f"Wait {seconds} seconds, or make at most {left} calls."
        if octets:
            what = f"stores {octets} octets, and counts as {calls} more for it"
            remedy = f"Wait {seconds} seconds, or store less in one call."
        if calls > most:
            remedy = "Store less in one request." if octets else f"Make at most {most} calls in one request."
        return Refusal(
            Reason.RATE_LIMITED,
            f"The request {what}; {left} are left of {per_minute} in a minute ({account.scope.partition(':')[0]}).",
            remedy=remedy,
            details={
                "scope": account.scope,
                "limit_per_minute": per_minute,
                "retry_after_seconds": seconds,
                "cost": calls,
                "left": left,
            },
            headers=(("Retry-After", str(seconds)),),
        )

    def _log(self, who: str, scope: str, per_minute: int, now: float) -> None:
        if now - self._logged.get((who, scope), -LOG_SECONDS) < LOG_SECONDS:
            return
        if len(self._logged) >= MOST_CALLERS:
            self._logged.clear()
        self._logged[who, scope] = now
        log.warn("{who} is over its rate of {limit} a minute ({scope})", who=who, limit=per_minute, scope=scope)
