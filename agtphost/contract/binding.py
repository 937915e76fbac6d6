"""A binding is what a request resolves to: something that can be called, with its handler and its requirements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

from agtphost.contract.reserved import LISTS
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import BELIEVED
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

if TYPE_CHECKING:
    from agtphost.contract.carried_call import CarriedCall
    from agtphost.contract.schemas import CompiledSchema

PAYMENT = "payments:purchase"
"""The scope that every PURCHASE needs; without it 455."""

ACTIVATION = "activation:run"
"""The scope that every RUN needs; without it 455."""

LIGHT = "light"
"""Weight of a binding whose handler works in the reactor's thread, and only briefly."""

COMPUTE = "compute"
"""Weight of a binding whose handler may return a Computation for a worker process: :mod:`agtphost.compute`."""

DEMANDED: Mapping[str, str] = {"PURCHASE": PAYMENT, "RUN": ACTIVATION}


class IBindingHandler(Interface):
    """
    The handler of a binding carries out its calls.

    Operators' handlers and the host's own differ in what they get: :class:`agtphost.handlers.interface.IHandler`,
    :class:`agtphost.handlers.built_in.IBuiltInHandler`.
    """

    kind = Attribute("str: what lists call it, such as registered_function, composition or built_in")

    def handle(context: Any) -> Any:
        """Carry out a call, and return a result, a response, or an awaitable of either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """
    A method on a path, or an action of EXECUTE, with its handler and its requirements.

    Built-in methods, endpoints, hosted tools and negotiated contracts are all bindings, so the same gates apply to all.
    """

    method: str
    path: str
    """The path template."""

    handler: IBindingHandler
    tier: str
    """``A`` protocol-native, ``B`` operator's, ``C`` negotiated (AGTP-API section 6.1)."""

    name: str = ""
    """Name in lists if it differs from method and path: a tool's ``server.tool``."""

    description: str = ""
    required_scopes: tuple[str, ...] = ()
    scope_status: Status = Status.AUTHORIZATION_REQUIRED
    """262 for endpoints, 455 for the action of EXECUTE (design decision 7)."""

    min_assurance: Assurance = BELIEVED
    operators: bool = False
    """
    Whether operators whose certificate names no agent may call it as well. They may not call what is meant for agents.
    """

    people: bool = False
    """Whether people of ``[notify.people]`` may call it as well, although their certificates name no agent."""

    input_schema: CompiledSchema | None = None
    output_schema: CompiledSchema | None = None
    table: CompiledSchema | None = None
    """A further schema of its input: the table of the standard method that an operator's endpoint replaces."""

    absent: bool = False
    """Whether no handler exists yet: a call is refused with that reason, and lists leave it out."""

    errors: frozenset[str] = frozenset()
    """Names that an EndpointError of its handler may have."""

    idempotent: bool = False
    state_changing: bool = True
    """Whether its records carry an ``action_id``."""

    server_level: bool = False
    """Whether the host itself answers; then its record goes to the host's chain."""

    listing: bool = False
    """Whether it only lists what the host offers; repeated reads of an unchanged list are summed up."""

    vital: bool = False
    """Whether it works while the disk is nearly full: what stops an agent, and what a person decides."""

    approval: bool = False
    """Whether a person approves each call (``[approvals]``)."""

    why_approved: str = ""
    """Why an approval is needed, as a sentence, if that is not the operator's own setting; otherwise empty."""

    definition: str = ""
    """SHA-256, in hex, of all that it leads to, if lists do not show that."""

    unknown: Callable[[], Awaitable[None]] | None = None
    """Asks the upstream what this is, because it cannot be approved before; None if it is known."""

    missing: Callable[[Callable[[Any], bool]], Exception] | None = None
    """
    Makes the refusal for a name that does not exist, from a function that tells which bindings may be named. None if
    this binding exists.

    Such a placeholder requires of its caller what all its neighbours require. A caller who may call none of them does
    not learn which of them exist.
    """

    alike: Binding | None = None
    """
    A placeholder with the requirements of its neighbours, if this binding's own requirements differ.

    A caller who could not call the neighbours is refused as there. None if the requirements are the same. The
    placeholder may have one itself, for example if a name does not tell its server: a caller who could call the first
    placeholder learns the requirements of this binding.
    """

    covers: Collection[Reason] | None = None
    """For a placeholder: the refusals that ``missing`` replaces; None: all of them."""

    agents: frozenset[str] = frozenset()
    """Agent-IDs of the hosted agents that offer it; empty: all of them."""

    piecewise: bool = False
    """Whether it needs no grant itself (:mod:`agtphost.contract.rights`), because each of its parts does."""

    parts: tuple[Binding, ...] = ()
    """Bindings that a call leads to; the caller needs a grant of each."""

    keyed: str = ""
    """Separates the Idempotency-Keys of this binding from those of others, such as an offer from what it offers."""

    weight: str = LIGHT
    """Where its handler works: :data:`LIGHT` or :data:`COMPUTE`."""

    in_turn: bool = False
    """Whether calls of one caller with large bodies are handled one after the other."""

    most_octets: int | None = None
    """Largest body of a request, if it is smaller than the host's limit."""

    timeout: float | None = None
    """Seconds; None: the host's default."""

    cost: Mapping[str, Decimal] | None = None
    """Price of a call, by budget unit; None if it is unknown (core v08 section 11.6)."""

    headers: tuple[tuple[str, str], ...] = ()
    """Response header fields of every answer, success or failure: ``AGTP-Endpoint-Warning``."""

    call: CarriedCall | None = None
    """The EXECUTE that calls a hosted tool; None if method and path call the binding."""

    structured: Mapping[str, Any] | None = None
    """JSON Schema of the structured content that an MCP tool declares; None if it declares none."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members for the binding's record, such as the MCP server and tool."""

    origin: str = ""
    """The file that declares it, with the line; for the operator."""

    lines: Mapping[str, int] = field(default_factory=dict)
    """The lines of its members in the file of :attr:`origin`."""

    details: Mapping[str, Any] = field(default_factory=dict)
    """Further members that lists show: semantic block, schemas, annotations."""

    @property
    def display_name(self) -> str:
        """Return the name that people read: ``files.read_file``, ``QUERY /library/{isbn}``."""
        return self.name or str(self.extra.get("action") or f"{self.method} {self.path}")

    @property
    def label(self) -> str:
        """Return the name for counters; it contains nothing that a caller chose."""
        if self.tier == "C":
            return "contracts"
        server = self.extra.get("mcp_server")
        if server and (self.unknown is not None or not self.details):
            # If the server has not listed the name, or it is a resource or prompt, the name is the caller's own text.
            return f"{server}.*"
        return self.display_name

    @classmethod
    def native(
        cls,
        method: str,
        path: str,
        handler: IBindingHandler,
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
        Return a binding of the host itself; one that only reads is idempotent.

        :param least: the lowest assurance of its caller.
        :param weight: where its handler works.
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
            listing=not changes and (method, path) in LISTS,
            vital=vital,
            timeout=timeout,
            weight=weight,
        )

    def __post_init__(self) -> None:
        demanded = DEMANDED.get(self.method)
        if demanded is not None:
            # The drafts require this scope for every binding (methods v01 sections 5.7, 8.8 and 10.1).
            if demanded not in self.required_scopes:
                object.__setattr__(self, "required_scopes", (*self.required_scopes, demanded))
            object.__setattr__(self, "scope_status", Status.SCOPE_VIOLATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The result of resolving an EXECUTE: the binding, and what to call it with."""

    binding: Binding
    input: Mapping[str, Any]

    handler: IBindingHandler | None = None
    """
    The handler of this call alone, if the payload has more than the input; None: the binding's. A copy of the binding
    would cost 20 us.
    """

    beside: Mapping[str, Any] = field(default_factory=dict)
    """Members that the caller sends to the handler in addition to the input; an approval is bound to them as well."""

    @property
    def effective_handler(self) -> IBindingHandler:
        """Return the handler that carries out this call."""
        return self.binding.handler if self.handler is None else self.handler
