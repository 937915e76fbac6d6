"""What a request was resolved to: one thing that can be called, and what calling it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import BELIEVED
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

if TYPE_CHECKING:
    from agtphost.contract.carried import CarriedCall
    from agtphost.contract.schemas import CompiledSchema
    from agtphost.handlers.built_in import IBuiltInHandler
    from agtphost.handlers.interface import IHandler

PAYMENT = "payments:purchase"
"""The scope that every PURCHASE needs; without it 455."""

ACTIVATION = "activation:run"
"""The same of every RUN."""

LIGHT = "light"
"""Of a binding whose handler works in the reactor's thread, and sees to it that it does so briefly."""

COMPUTE = "compute"
"""Of a binding whose handler may return a Computation, which runs in a worker process: :mod:`agtphost.compute`."""

DEMANDED: Mapping[str, str] = {"PURCHASE": PAYMENT, "RUN": ACTIVATION}


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """
    A method on a path (or an action of EXECUTE) with its handler and its needs.

    Built-in methods, endpoints, hosted tools and, later, contracts are all
    bindings, so that one set of gates decides about all of them.
    """

    method: str
    path: str
    """The path template."""

    handler: IHandler | IBuiltInHandler
    tier: str
    """``A`` protocol-native, ``B`` operator's, ``C`` negotiated (AGTP-API section 6.1)."""

    name: str = ""
    """What lists call it where method and path do not: a tool's ``server.tool``."""

    description: str = ""
    required_scopes: tuple[str, ...] = ()
    scope_status: Status = Status.AUTHORIZATION_REQUIRED
    """262 for endpoints, 455 for the action of EXECUTE (design decision 7)."""

    min_assurance: Assurance = BELIEVED
    operators: bool = False
    """Whether operators may call it as well whose certificate names no agent: what is asked of agents is not theirs."""

    people: bool = False
    """Whether people of ``[notify.people]`` may call it as well, whose certificates name no agent either."""

    input_schema: CompiledSchema | None = None
    output_schema: CompiledSchema | None = None
    table: CompiledSchema | None = None
    """What its input follows besides: the table of the standard method in whose place an operator's endpoint is."""

    absent: bool = False
    """Whether nobody provides it yet: it says so when it is called, and is in no list."""

    errors: frozenset[str] = frozenset()
    """Names that an EndpointError may carry."""

    idempotent: bool = False
    state_changing: bool = True
    """Whether its records carry an ``action_id``."""

    server_level: bool = False
    """Answered by the host itself: its record goes to the host's chain."""

    vital: bool = False
    """Whether it works on while the disk is nearly full: what stops an agent, and what a person decides."""

    approval: bool = False
    """Whether a person approves each call (``[approvals]``)."""

    why_approved: str = ""
    """Why that is so, as a sentence, where the operator did not say it of this one; empty where it did."""

    definition: str = ""
    """SHA-256, hex, of all that it leads to, where lists do not show that."""

    unknown: Callable[[], Awaitable[None]] | None = None
    """Finds out what it is, where its upstream has not said yet: nobody can approve it before. None: it is known."""

    missing: Callable[[Callable[[Any], bool]], Exception] | None = None
    """
    Makes the refusal that nothing of that name is there, of what tells which bindings may be named; None: it is there.

    Such a binding stands in the place of what doesn't exist. It asks of its caller what all its neighbours ask, so
    that whoever may call none of them is not told which of them there are.
    """

    alike: Binding | None = None
    """
    What stands in the place of a neighbour that doesn't exist, where this asks for something else than its neighbours.

    Who could not call the neighbour either is refused as there. None: this asks for the same. The neighbour may have
    one itself, as where a name says nothing of its server: whoever could call the first is told what this asks for.
    """

    covers: Collection[Reason] | None = None
    """Of a neighbour: the refusals that its ``missing`` is given instead of; None: of all of them."""

    beside: Mapping[str, Any] = field(default_factory=dict)
    """What the caller says to the handler besides the input: an approval is bound to it as well."""

    agents: frozenset[str] = frozenset()
    """Agent-IDs of the hosted agents that offer it; empty means every one."""

    piecewise: bool = False
    """Whether it needs no grant of its own (:mod:`agtphost.contract.rights`): what it shows or reaches does, each."""

    parts: tuple[Binding, ...] = ()
    """What else calling it leads to, each of which its caller needs a grant of."""

    keyed: str = ""
    """Keeps Idempotency-Keys of calls of this binding apart from those of others: an offer, and what is offered."""

    weight: str = LIGHT
    """Where its work is done: :data:`LIGHT` or :data:`COMPUTE`."""

    in_turn: bool = False
    """Whether calls of one caller with large bodies are read and answered one after the other."""

    most_octets: int | None = None
    """Of a request's body, where it takes less than the host does."""

    timeout: float | None = None
    """Seconds; None means the host's default."""

    cost: Mapping[str, Decimal] | None = None
    """What a call takes, by budget unit; None where nobody said (core v08 section 11.6)."""

    headers: tuple[tuple[str, str], ...] = ()
    """Response header fields of every answer, success or failure: ``AGTP-Endpoint-Warning``."""

    call: CarriedCall | None = None
    """The EXECUTE that calls it, of a hosted tool; None where method and path call it."""

    structured: Mapping[str, Any] | None = None
    """JSON Schema of the structured content that an MCP tool says it answers with; None where it says none."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members for the binding's record, such as the MCP server and tool."""

    origin: str = ""
    """The file that declares it, with the line; for its operator."""

    lines: Mapping[str, int] = field(default_factory=dict)
    """Those of its members in the file of :attr:`origin`."""

    details: Mapping[str, Any] = field(default_factory=dict)
    """What lists show besides: semantic block, schemas, annotations."""

    @property
    def spoken(self) -> str:
        """What it is called where people read of it: ``files.read_file``, ``QUERY /library/{isbn}``."""
        return self.name or str(self.extra.get("action") or f"{self.method} {self.path}")

    @property
    def label(self) -> str:
        """The same for counters: a name that no caller chose."""
        if self.tier == "C":
            return "contracts"
        server = self.extra.get("mcp_server")
        if server and (self.unknown is not None or not self.details):
            # What a server has not listed, a resource or a prompt: the caller's own word.
            return f"{server}.*"
        return self.spoken

    @classmethod
    def native(
        cls,
        method: str,
        path: str,
        handler: IHandler | IBuiltInHandler,
        description: str,
        least: Assurance = BELIEVED,
        *,
        changes: bool = False,
        server_level: bool = False,
        vital: bool = False,
        timeout: float | None = None,
        weight: str = LIGHT,
    ) -> Binding:
        """
        What the host itself answers; whatever only reads may be repeated.

        :param least: how surely its caller must be known.
        :param weight: where its work is done.
        """
        return cls(
            method=method,
            path=path,
            handler=handler,
            tier="A",
            description=description,
            min_assurance=least,
            idempotent=not changes,
            state_changing=changes,
            server_level=server_level,
            vital=vital,
            timeout=timeout,
            weight=weight,
        )

    def __post_init__(self) -> None:
        demanded = DEMANDED.get(self.method)
        if demanded is not None:
            # Nobody can bind it without (methods v01 sections 5.7, 8.8 and 10.1).
            if demanded not in self.required_scopes:
                object.__setattr__(self, "required_scopes", (*self.required_scopes, demanded))
            object.__setattr__(self, "scope_status", Status.SCOPE_VIOLATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What an EXECUTE names: the binding, and the input to call it with."""

    binding: Binding
    input: Mapping[str, Any]
