"""The gates between a known caller and a handler: method, path, endpoint, authority, input, store."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import LedgerUnavailable, Reservation, ReservationKey, ReservationState
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.table import EndpointTable
from agtphost.dispatch import authority, bodies
from agtphost.dispatch.dispatcher import store_down
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.sealing import recall
from agtphost.errors import Refusal
from agtphost.iagtp import IGate, ILedger
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import paths, scopes
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.status import Status

MEMOIZED = 10_000
"""Authorities remembered; beyond, all are worked out again: bounded whatever callers send (T-ID-40)."""


@implementer(IGate)
class ReservedHeadersGate:
    """Delegation-Chain has no semantics yet, so it is refused rather than ignored (core v08 section 5.5)."""

    name = "reserved headers"

    def check(self, exchange: Exchange) -> None:
        if "delegation-chain" in exchange.request.headers:
            raise Refusal(
                Status.NOT_IMPLEMENTED,
                "delegation-not-supported",
                "This host does not implement the reserved header Delegation-Chain.",
                remedy="Leave Delegation-Chain out.",
                details={"header": "Delegation-Chain"},
            )


@implementer(IGate)
class AliasGate:
    """Resolves the wire verb in one hop, before any other look at it (AGTP-API section 9.2)."""

    name = "alias"

    def __init__(self, policy: MethodPolicy) -> None:
        self._aliases = policy.aliases

    def check(self, exchange: Exchange) -> None:
        wire = exchange.request.method
        resolved = self._aliases.get(wire)
        if resolved is None:
            exchange.method = wire
        else:
            exchange.method = resolved
            exchange.requested_method = wire


@implementer(IGate)
class CatalogGate:
    """The method is one of the catalog's, or one the operator declared: else 459 (AGTP-API section 3.2)."""

    name = "catalog"

    def __init__(self, catalog: Catalog, custom: Collection[str]) -> None:
        self._catalog = catalog
        self._known = frozenset(catalog.methods) | frozenset(custom)

    def check(self, exchange: Exchange) -> None:
        method = exchange.method
        if method in self._known:
            return
        raise Refusal(
            Status.METHOD_VIOLATION,
            "method-violation",
            "The method is not in the method catalog of this host.",
            remedy="Use a catalog method; the closest ones are listed.",
            details={
                "method": method[:64],
                "catalog_version": self._catalog.version,
                "close_matches": list(self._catalog.close_matches(method)),
            },
        )


@implementer(IGate)
class PathGate:
    """The path follows the path grammar: else 460 naming the segment (AGTP-API section 5)."""

    name = "path grammar"

    def __init__(self, grammar: paths.PathGrammar) -> None:
        self._grammar = grammar

    def check(self, exchange: Exchange) -> None:
        offence = self._grammar.offence(exchange.path)
        if offence is not None:
            raise Refusal(
                Status.ENDPOINT_VIOLATION,
                "endpoint-violation",
                offence.explanation,
                remedy="Name a thing in the path and put the verb in the method.",
                details={"segment": offence.segment, "path": exchange.path},
            )


@implementer(IGate)
class PolicyGate:
    """The operator's method policy admits the method, and so it must the target of a redirect."""

    name = "method policy"

    def __init__(self, policy: MethodPolicy, table: EndpointTable) -> None:
        self._policy = policy
        self._table = table
        self._open = policy.admits_everything

    def check(self, exchange: Exchange) -> None:
        if self._open:
            return
        self._require(exchange)
        target = self._policy.redirect(exchange.method, exchange.path)
        if target is not None:
            exchange.requested_method = exchange.requested_method or exchange.method
            exchange.method, exchange.path = target
            self._require(exchange)

    def _require(self, exchange: Exchange) -> None:
        if not self._policy.admits(exchange.method):
            raise not_allowed(exchange, self._table, self._policy, "The operator's policy does not allow the method.")


def not_allowed(exchange: Exchange, table: EndpointTable, policy: MethodPolicy, explanation: str) -> Refusal:
    """405 with what the drafts want in its body (AGTP-API section 11)."""
    allowed = [method for method in table.methods_at(exchange.path) if policy.admits(method)]
    return Refusal(
        Status.METHOD_NOT_ALLOWED,
        "method-not-allowed",
        explanation,
        remedy="Use one of the allowed methods." if allowed else "DISCOVER /methods lists what can be called.",
        details={
            "method": exchange.method,
            "path": exchange.path,
            "allowed_methods_for_path": allowed,
            "redirects_for_path": policy.redirects_at(exchange.path),
        },
    )


@implementer(IGate)
class BodyGate:
    """The body is JSON or YAML as this host reads it."""

    name = "body"

    def check(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.body:
            value = bodies.decode(request.body, request.headers.get("content-type"))
            exchange.parameters, exchange.context = bodies.unwrap(value)
        else:
            exchange.parameters = {}


@implementer(IGate)
class EndpointGate:
    """Method and path are bound: else 404 for an unknown path, 405 for a known one (AGTP-API section 6.1)."""

    name = "endpoint"

    def __init__(self, table: EndpointTable, policy: MethodPolicy) -> None:
        self._table = table
        self._match = table.match
        self._policy = policy

    def check(self, exchange: Exchange) -> None:
        match = self._match(exchange.method, exchange.path)
        if match is None:
            if self._table.methods_at(exchange.path):
                raise not_allowed(exchange, self._table, self._policy, "The path does not take that method.")
            raise Refusal(
                Status.NOT_FOUND,
                "not-found",
                "Nothing is registered under that path.",
                remedy="DISCOVER /methods lists what can be called.",
                details={"path": exchange.path},
            )
        exchange.binding = match.binding
        exchange.path_parameters = match.path_parameters
        query = exchange.request.query
        if query is None and not match.path_parameters:
            exchange.input = exchange.parameters
        else:
            exchange.input = self._merged(exchange, query)

    @staticmethod
    def _merged(exchange: Exchange, query: str | None) -> dict[str, Any]:
        """Query below body below path parameters (AGTP-API section 5.5)."""
        try:
            merged: dict[str, Any] = dict(paths.parse_query(query)) if query else {}
        except paths.PathError as error:
            raise Refusal(
                Status.BAD_REQUEST, "invalid-query", f"{error}", remedy="Correct the query string."
            ) from None
        merged.update(exchange.parameters)
        merged.update(exchange.path_parameters)
        return merged


@implementer(IGate)
class AnonymousGate:
    """A caller without a name gets no further than what is open to everyone: 401 (AGTP-029)."""

    name = "anonymous"

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        if exchange.assurance is Assurance.NONE and binding is not None and binding.min_assurance:
            authority.require_assurance(exchange, binding)


@implementer(IGate)
class ClaimedScopesGate:
    """Works out the effective scopes; a claim beyond what was granted is refused, 262 or 455."""

    name = "claimed scopes"

    def __init__(self) -> None:
        self._memo: dict[tuple[str, frozenset[str], str | None, frozenset[str] | None], frozenset[str]] = {}

    def check(self, exchange: Exchange) -> None:
        claim = exchange.request.headers.get("authority-scope")
        caller = exchange.caller
        if caller is None:
            if claim is not None:
                self._parse(claim)
            return
        certificate = exchange.peer.certificate
        committed = certificate.commitment if certificate is not None and certificate.agent_id else None
        key = (caller.agent_id, caller.scopes, claim, committed)
        known = self._memo.get(key)
        if known is None:
            claimed = None if claim is None else self._parse(claim)
            known = authority.effective_scopes(caller.scopes, committed, claimed)
            if len(self._memo) >= MEMOIZED:
                self._memo.clear()
            self._memo[key] = known
        exchange.scopes = known

    @staticmethod
    def _parse(claim: str) -> frozenset[str]:
        try:
            return scopes.parse(claim)
        except scopes.ScopeError as error:
            raise Refusal(
                Status.BAD_REQUEST,
                "invalid-authority-scope",
                f"Authority-Scope is malformed: {error}.",
                remedy="Send comma-separated tokens such as documents:query.",
            ) from None


@implementer(IGate)
class AuthorityGate:
    """The binding is this agent's, its scopes are held, and the caller is known surely enough."""

    name = "required scopes and assurance"

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        if binding is None:
            raise Refusal(Status.NOT_FOUND, "not-found", "Nothing is bound to the request.")
        for check in authority.CHECKS:
            check(exchange, binding)


@implementer(IGate)
class SchemaGate:
    """The input follows the binding's schema: else 422 with every fault and where it is (AGTP-API section 13.2)."""

    name = "schema"

    def check(self, exchange: Exchange) -> None:
        schema = exchange.binding.input_schema if exchange.binding is not None else None
        if schema is not None and not schema.is_valid(exchange.input):
            raise Refusal(
                Status.UNPROCESSABLE,
                "invalid-input",
                "The input does not follow the input schema.",
                remedy="Correct the fields named in faults.",
                details={"faults": schema.faults(exchange.input)},
            )


@implementer(IGate)
class IdempotencyGate:
    """
    A key is used once per agent: durably reserved before the handler runs (security.md invariant 5).

    Keys of callers known by header alone are kept apart from those of the
    same agent with its certificate, so that nobody can use up or read another's.
    """

    name = "idempotency"

    def __init__(self, ledger: ILedger) -> None:
        self._ledger = ledger

    def check(self, exchange: Exchange) -> Any:
        caller, key, binding = exchange.caller, exchange.idempotency_key, exchange.binding
        if key is None or caller is None or binding is None or not binding.state_changing:
            return None
        if binding.server_level:
            # Lifecycle methods: repeating one is a no-op already (core v08 sections 7.2.14 to 7.2.18).
            return None
        sure = exchange.assurance is Assurance.CERTIFICATE
        owner = caller.agent_id if sure else f"{exchange.assurance.label}:{caller.agent_id}"
        return self._reserve(exchange, ReservationKey(agent_id=owner, key=key))

    async def _reserve(self, exchange: Exchange, key: ReservationKey) -> None:
        request = exchange.request
        digest = sha256(f"{exchange.method} {request.path}?{request.query or ''}\n".encode() + request.body)
        try:
            reservation = await self._ledger.reserve(key, digest.digest()[:16])
        except LedgerUnavailable:
            raise store_down() from None
        if reservation.state is ReservationState.NEW:
            exchange.reservation = key
        elif reservation.state is ReservationState.DONE:
            exchange.replay = recall(reservation.result)
        else:
            raise self._refusal(reservation)

    @staticmethod
    def _refusal(reservation: Reservation) -> Refusal:
        if reservation.state is ReservationState.MISMATCH:
            return Refusal(
                Status.UNPROCESSABLE,
                "idempotency-key-reused",
                "The Idempotency-Key was used for another request.",
                remedy="Use a new key for a new request.",
            )
        if reservation.state is ReservationState.RUNNING:
            return Refusal(
                Status.CONFLICT,
                "idempotency-in-progress",
                "The request with this Idempotency-Key is still running.",
                remedy="Repeat it later to get its answer.",
                headers=(("Retry-After", "1"),),
            )
        return Refusal(
            Status.CONFLICT,
            "idempotency-in-doubt",
            "The host stopped while the request with this Idempotency-Key was running; it is never run again.",
            remedy="Find out whether it took effect before using a new key.",
        )


@implementer(IGate)
class StoreGate:
    """No record can be kept, no handler runs: 503 (security.md invariant 12)."""

    name = "store"

    def __init__(self, ledger: ILedger) -> None:
        self._ledger = ledger

    def check(self, exchange: Exchange) -> None:
        if not self._ledger.healthy:
            raise store_down()
