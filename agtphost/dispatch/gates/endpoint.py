"""The gates of what is called: the contract that a request presents, the endpoint it reaches, the input's schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.contract.endpoint_table import EndpointTable
from agtphost.contract.method_parameters import parameter_faults
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.schemas import CompiledSchema, TooCostly
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.method import not_allowed, require_consent
from agtphost.dispatch.interfaces import Condition, ICacheableGate, IContractResolver, IGate
from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.steps import Executor


@implementer(ICacheableGate)
class ContractGate:
    """A presented contract is the caller's own and in force: else 404 or 464 (AGTP-API section 10.1.4)."""

    name = "contract presentation"

    def __init__(self, negotiator: IContractResolver) -> None:
        self._presented = negotiator.find_presented

    def check(self, exchange: Exchange) -> None:
        fields = exchange.request.headers.by_name
        if "contract-synthesized" in fields or "synthesis-id" in fields:
            exchange.contract = self._presented(exchange)

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Contracts begin and end."""
        fields = exchange.request.headers.by_name
        return None if "contract-synthesized" in fields or "synthesis-id" in fields else ()


@implementer(ICacheableGate)
class EndpointGate:
    """
    Method and path are bound: else 404 for an unknown path, 405 for a known one (AGTP-API section 6.1).

    A request that presents a contract can only call that contract; unregistered endpoints may still be negotiated.

    :param claims: works out the effective scopes, ahead of its turn, where negotiation asks for them.
    """

    name = "endpoint"

    def __init__(
        self,
        table: EndpointTable,
        policy: MethodPolicy,
        negotiator: IContractResolver | None,
        claims: Callable[[Exchange], None],
    ) -> None:
        self._claims = claims
        self._table = table
        self._match = table.match
        self._policy = policy
        self._negotiator = negotiator

    def check(self, exchange: Exchange) -> None:
        match = (exchange.contract or self._match)(exchange.method, exchange.path)
        if match is None and self._negotiator is not None:
            match = self._negotiator.find_unregistered(exchange, self._claims)
        if match is None:
            if self._table.methods_at(exchange.path):
                require_consent(exchange, self._policy)
                raise not_allowed(exchange, self._table, self._policy, "The path does not take that method.")
            raise Refusal(
                Reason.NOT_FOUND,
                "Nothing is registered under that path.",
                remedy="DISCOVER /methods lists what can be called.",
                details={"path": exchange.path},
            )
        exchange.binding = match.binding
        exchange.path_parameters = match.path_parameters

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict of a registered endpoint; one of a contract may end."""
        match = self._match(exchange.method, exchange.path)
        return None if match is None or match.binding is not exchange.binding else ()


@implementer(IGate)
class SchemaGate:
    """
    The input follows the binding's schema: else 422 with every fault and where it is (AGTP-API section 13.2).

    :param offload: compiles large deferred schemas in another thread; None: they are compiled in the reactor.
    """

    name = "schema"

    def __init__(self, offload: Executor | None = None) -> None:
        self._offload = offload

    def check(self, exchange: Exchange) -> Awaitable[None] | None:
        binding = exchange.binding
        schema = binding.input_schema if binding is not None else None
        # Only a schema that was put off has octets: the others cost no further function call here.
        if schema is not None and schema.octets and self._offload is not None and schema.takes_long:
            return self._check_later(exchange, schema, self._offload)
        if binding is not None and binding.method == "RUN":
            self._require_registry(schema)
        if binding is not None and binding.table is not None:
            self._require(exchange, binding.table, parameter=True)
        if schema is not None:
            self._require(exchange, schema, parameter=binding is not None and binding.tier == "A")
        return None

    async def _check_later(self, exchange: Exchange, schema: CompiledSchema, offload: Executor) -> None:
        await offload(schema.prepare)
        # It may have been released for others in between: then it is compiled once more.
        again = self.check(exchange)
        if again is not None:
            await again

    @staticmethod
    def _require(exchange: Exchange, schema: CompiledSchema, *, parameter: bool) -> None:
        """
        Check the input against a schema.

        :param parameter: whether the refusal names the first parameter that is wrong: a method's parameters have
            standard names that its callers know.
        :raises Refusal: the input does not follow the schema.
        """
        request = exchange.request
        octets = len(request.body) + len(request.path) + len(request.query or "")
        valid = schema.checks if octets <= schema.free_octets else schema.is_valid
        try:
            if valid(exchange.input):
                return
        except TooCostly as error:
            raise Refusal(error.reason) from None
        faults = schema.faults(exchange.input)
        named = {"parameter": _parameter(exchange.input, schema, faults)} if parameter else {}
        raise Refusal(
            Reason.INVALID_INPUT,
            "The input does not follow the input schema.",
            details={**named, "faults": faults},
        )

    @staticmethod
    def _require_registry(schema: CompiledSchema | None) -> None:
        """
        Check that the input schema of a RUN lists its procedures: RUN takes no free-form strings (core v08 section
        7.4.2, MUST NOT).
        """
        for _ in parameter_faults("RUN", None if schema is None else schema.schema):
            raise Refusal(Reason.PROCEDURE_UNREGISTERED)


def _parameter(given: Mapping[str, Any], schema: CompiledSchema, faults: Sequence[Mapping[str, Any]]) -> str:
    """Return the first wrong parameter of a faulty input; if none is wrong, the first missing one."""
    named = (str(fault["path"]).split("/")[1] for fault in faults if fault["path"])
    missing = (name for name in schema.schema.get("required", ()) if name not in given)
    return next(iter((*named, *missing)), "")
