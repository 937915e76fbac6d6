"""The gates between a known caller and a handler: method, path, endpoint, authority, input, store."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit.drafts import LedgerUnavailable, Reservation, ReservationKey, ReservationState
from agtphost.contract.method_parameters import parameter_faults
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.schemas import CompiledSchema, TooCostly
from agtphost.contract.table import EndpointTable
from agtphost.dispatch import authority
from agtphost.dispatch.dispatcher import store_down
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.limits import Allowances
from agtphost.dispatch.sealing import recall
from agtphost.errors import Refusal
from agtphost.iagtp import IContractResolver, IGate, ILedger
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import paths
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.status import Status

LOG_SECONDS = 10.0
"""Envelopes that contradict their headers are logged, but no more often than this."""

VITAL_CALLS = 10
"""Vital calls a minute of one agent while the disk is nearly full; registrars and operators have as many as need be."""

log = Logger()


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
class ContractGate:
    """A presented contract is the caller's own and in force: else 404 or 464 (AGTP-API section 10.1.4)."""

    name = "contract presentation"

    def __init__(self, negotiator: IContractResolver) -> None:
        self._presented = negotiator.presented

    def check(self, exchange: Exchange) -> None:
        fields = exchange.request.headers.by_name
        if "contract-synthesized" in fields or "synthesis-id" in fields:
            exchange.contract = self._presented(exchange)


@implementer(IGate)
class CatalogGate:
    """
    The method is one of the catalog's, or one the operator declared: else 459 (AGTP-API section 3.2).

    :param catalog: what requests are validated against unless they ask for another version.
    :param custom: methods beyond every catalog.
    :param policy: for the consent to ad-hoc invocation.
    :param others: further versions that the header AGTP-Catalog-Version can ask for.
    """

    name = "catalog"

    def __init__(
        self, catalog: Catalog, custom: Collection[str], policy: MethodPolicy, others: Sequence[Catalog] = ()
    ) -> None:
        self._catalog = catalog
        self._policy = policy
        self._known = frozenset(catalog.methods) | frozenset(custom)
        self._by_version = {
            supported.version: (supported, frozenset(supported.methods) | frozenset(custom))
            for supported in (catalog, *others)
        }
        self._versions = list(self._by_version)

    def check(self, exchange: Exchange) -> None:
        catalog, known = self._catalog, self._known
        asked = exchange.request.headers.get("agtp-catalog-version")
        if asked is not None:
            catalog, known = self._asked(asked)
            exchange.catalog_warnings = catalog.warnings
        if exchange.method not in known:
            require_consent(exchange, self._policy)
            raise self._violation(exchange.method, catalog)

    def _asked(self, version: str) -> tuple[Catalog, frozenset[str]]:
        found = self._by_version.get(version)
        if found is None:
            raise Refusal(
                Status.BAD_REQUEST,
                "catalog-version-unsupported",
                "This host does not validate against the catalog version that AGTP-Catalog-Version names.",
                remedy="Name a supported version, or leave AGTP-Catalog-Version out.",
                details={"catalog_version": self._catalog.version, "catalog_versions_supported": self._versions},
            )
        return found

    def _violation(self, method: str, catalog: Catalog) -> Refusal:
        elsewhere = [version for version, (_, known) in self._by_version.items() if method in known]
        details: dict[str, object] = {
            "method": method[:64],
            "catalog_version": catalog.version,
            "close_matches": list(catalog.close_matches(method)),
        }
        remedy = "Use a catalog method; the closest ones are listed."
        if elsewhere:
            details["catalog_versions_with_method"] = elsewhere
            remedy = f"Use a method of this catalog version, or send AGTP-Catalog-Version: {elsewhere[0]}."
        return Refusal(
            Status.METHOD_VIOLATION,
            "method-violation",
            "The method is not in the method catalog of this host.",
            remedy=remedy,
            details=details,
        )


def require_consent(exchange: Exchange, policy: MethodPolicy) -> None:
    """
    Ask for the missing half of the consent to ad-hoc invocation (AGTP-API section 16.4, spec reading 50).

    A call of what the host does not offer is an ordinary 459 or 405 where
    neither side consents, and also where both do: nothing here runs it. Where
    exactly one does, the other is told that it is its turn.

    :raises Refusal: 262 ``wildcards-required``.
    """
    agent = exchange.caller is not None and exchange.caller.document.get("wildcards") is True
    if agent is policy.wildcards_accepted:
        return
    missing = "server policy" if agent else "agent identity document"
    raise Refusal(
        Status.AUTHORIZATION_REQUIRED,
        "wildcards-required",
        f"Methods outside what this host offers need both sides' consent; the {missing} does not give it.",
        remedy=(
            "Call what DISCOVER /methods lists."
            if agent
            else "Declare wildcards: true in the agent's Identity Document, or call what DISCOVER /methods lists."
        ),
        details={
            "method": exchange.method[:64],
            "path": exchange.path,
            "consents": {"agent": agent, "server": policy.wildcards_accepted},
        },
        scopes=(),
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
class EndpointGate:
    """
    Method and path are bound: else 404 for an unknown path, 405 for a known one (AGTP-API section 6.1).

    A request that presents a contract is for that contract or for nothing; what nobody registered may
    still be negotiated about.
    """

    name = "endpoint"

    def __init__(self, table: EndpointTable, policy: MethodPolicy, negotiator: IContractResolver | None = None) -> None:
        self._table = table
        self._match = table.match
        self._policy = policy
        self._negotiator = negotiator

    def check(self, exchange: Exchange) -> None:
        match = (exchange.contract or self._match)(exchange.method, exchange.path)
        if match is None and self._negotiator is not None:
            match = self._negotiator.unregistered(exchange)
        if match is None:
            if self._table.methods_at(exchange.path):
                require_consent(exchange, self._policy)
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


@implementer(IGate)
class AnonymousGate:
    """A caller without a name gets no further than what is open to everyone: 401 (AGTP-029)."""

    name = "anonymous"

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        if exchange.assurance is Assurance.NONE and binding is not None and binding.min_assurance:
            authority.require_assurance(exchange, binding)


@implementer(IGate)
class AuthorityGate:
    """
    The binding is this agent's, its scopes are held, and the caller is known surely enough.

    :param name: of the gate. It stands twice in the order: before the body is read, so that nobody's body is
        parsed who may not call; and behind it, where the body of an EXECUTE has named another binding.
    """

    def __init__(self, name: str = "required scopes and assurance") -> None:
        self.name = name

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        if binding is None:
            raise Refusal(Status.NOT_FOUND, "not-found", "Nothing is bound to the request.")
        if binding is exchange.admitted:
            return
        for check in authority.CHECKS:
            check(exchange, binding)
        exchange.admitted = binding


@implementer(IGate)
class SchemaGate:
    """The input follows the binding's schema: else 422 with every fault and where it is (AGTP-API section 13.2)."""

    name = "schema"

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        schema = binding.input_schema if binding is not None else None
        if binding is not None and binding.method == "RUN":
            self._require_registry(schema)
        if schema is not None:
            request = exchange.request
            octets = len(request.body) + len(request.path) + len(request.query or "")
            valid = schema.checks if octets <= schema.free_octets else schema.is_valid
            try:
                if valid(exchange.input):
                    return
            except TooCostly as error:
                raise Refusal(Status.UNPROCESSABLE, error.reason, str(error), remedy=error.remedy) from None
            raise Refusal(
                Status.UNPROCESSABLE,
                "invalid-input",
                "The input does not follow the input schema.",
                remedy="Correct the fields named in faults.",
                details={"faults": schema.faults(exchange.input)},
            )

    @staticmethod
    def _require_registry(schema: CompiledSchema | None) -> None:
        """Whatever was bound, and however: RUN takes no free-form strings (core v08 section 7.4.2, MUST NOT)."""
        for _ in parameter_faults("RUN", None if schema is None else schema.schema):
            raise Refusal(
                Status.NOT_FOUND,
                "procedure-unregistered",
                "No registry of procedures stands behind this RUN, and without one nothing is run.",
                remedy="The operator lists the procedures as values of procedure_id in the input schema.",
            )


@implementer(IGate)
class IdempotencyGate:
    """
    A key is used once per agent: durably reserved before the handler runs (security invariant 5). A repeat is
    of the same method, path, body, addressee and acting principal; anything else under the key is 422.

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
        if binding.keyed:
            owner = f"{binding.keyed}:{owner}"
        return self._reserve(exchange, ReservationKey(agent_id=owner, key=key, sure=sure))

    async def _reserve(self, exchange: Exchange, key: ReservationKey) -> None:
        request = exchange.request
        # The wire verb: several HTTP verbs may stand for one method, and do not mean the same.
        verb = exchange.requested_method or exchange.method
        digest = sha256(f"{verb} {request.path}?{request.query or ''}\n".encode() + request.body)
        # One caller's key for another agent, or on behalf of another principal, is another call.
        for whose in ("" if exchange.agent is None else exchange.agent.agent_id, exchange.acting_principal or ""):
            digest.update(sha256(whose.encode()).digest())
        if exchange.purchase is not None and exchange.purchase.intent is not None:
            # Another assertion is another purchase, whatever the body says.
            digest.update(exchange.purchase.intent.key.encode("ascii"))
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
        if reservation.state is ReservationState.FULL:
            return Refusal(
                Status.RATE_LIMITED,
                "idempotency-quota",
                f"{reservation.limit} {reservation.unit} of keyed requests are kept of this agent at present.",
                remedy="Wait until earlier keys have expired, or send requests that need no retry without a key.",
                details={"scope": "idempotency", "unit": reservation.unit, "limit": reservation.limit},
                headers=(("Retry-After", str(reservation.retry_after)),),
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
    """
    No record can be kept, no handler runs: 503 (security invariant 12).

    While space is all that is wanting, what is vital runs on; of agents only so much, for the space is not theirs.
    """

    name = "store"

    def __init__(self, ledger: ILedger, now: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._now = now
        self._vital = Allowances(VITAL_CALLS, 60.0)

    def check(self, exchange: Exchange) -> None:
        if self._ledger.healthy:
            return
        if not (self._ledger.low and exchange.binding is not None and exchange.binding.vital):
            raise store_down()
        if exchange.caller is not None and self._vital.take(exchange.caller.agent_id, self._now()):
            raise store_down()
