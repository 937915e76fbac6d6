"""An endpoint: a method on a path, with its purpose, input and output (AGTP-API section 6)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from agtphost.contract.binding import Binding, IBindingHandler
from agtphost.contract.schemas import CompiledSchema
from agtphost.contract.semantic import Impact, Semantic
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import budget
from agtphost.vocabulary.status import Status

if TYPE_CHECKING:
    from agtphost.contract.service import ServiceReference

HANDLER_TYPES = ("registered_function", "composition", "external_service")
"""The binding kinds of AGTP-API section 12 that this host runs."""

PLUGIN = "plugin"
"""The value of ``type`` for a registered function that an installed package provides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerReference:
    """A reference to an endpoint's handler. Only ``type`` is ever published (AGTP-API section 8.9)."""

    type: str
    """One of :data:`HANDLER_TYPES`."""

    function: str = ""
    """Dotted path of a Python function."""

    blocking: bool = False
    """Whether the function waits or computes for long, and so runs in a separate thread."""

    asyncio: bool = False
    """Whether the function is an asyncio function, and so runs on an asyncio event loop in a separate thread."""

    plugin: str = ""
    """The plugin whose ``handle`` is the function, instead of a dotted path."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the plugin's factory."""

    recipe: str = ""
    """``name`` or ``name@version`` of a composition's recipe."""

    service: ServiceReference | None = None
    """The upstream of an external service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecation:
    """The deprecation of an endpoint, and its successor (AGTP-API section 6.5)."""

    deprecated_in: str
    removed_in: str | None = None
    successor_method: str | None = None
    """None: the same method."""

    successor_path: str | None = None
    """None: the same path."""

    @property
    def warning(self) -> str:
        """Return the value of ``AGTP-Endpoint-Warning``, which every response of the endpoint has."""
        parts = ["deprecated"]
        successor = " ".join(part for part in (self.successor_method, self.successor_path) if part)
        if successor:
            parts.append(f"successor={successor}")
        if self.removed_in:
            parts.append(f"removed_in={self.removed_in}")
        return "; ".join(parts)

    def document(self) -> dict[str, Any]:
        """Return the manifest's form; absent members are left out."""
        members: dict[str, Any] = {"deprecated_in": self.deprecated_in}
        if self.removed_in:
            members["removed_in"] = self.removed_in
        successor = {"method": self.successor_method, "path": self.successor_path}
        named = {name: value for name, value in successor.items() if value}
        if named:
            members["successor"] = named
        return members


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A checked endpoint of the operator (tier B of AGTP-API section 6.1)."""

    method: str
    path: str
    """The path template."""

    description: str
    """One sentence for people; :attr:`semantic` is for agents."""

    semantic: Semantic
    input_schema: CompiledSchema
    output_schema: CompiledSchema
    """Compiled as a closed schema if the endpoint has ``strict_output``."""

    errors: tuple[str, ...]
    """Names that the handler may raise, answered 422."""

    handler: HandlerReference
    namespace: str | None = None
    """Group name for readers; it has no effect."""

    required_scopes: tuple[str, ...] = ()
    """Scopes of which the caller needs all."""

    deprecated: Deprecation | None = None
    min_assurance: Assurance
    """Default: :func:`agtphost.identity.required_assurance.default_assurance`."""

    timeout: float | None = None
    """Seconds; None: the host's default."""

    agents: tuple[str, ...] = ()
    """Names of the hosted agents that offer it; empty: all of them."""

    cost: Mapping[str, Decimal] | None = None
    """Price of a call, by budget unit: it is sent as ``Cost-Estimate`` and compared with Budget-Limit."""

    approval: bool = False
    """
    Whether a person approves each call: as declared, by ``[approvals]``, or because a step of its recipe needs it.
    """

    definition: str = ""
    """SHA-256, in hex, of what it is and leads to; an approval is bound to it. Empty if no approval is needed."""

    data_classes: tuple[str, ...] = ()
    """Names of ``[[data_class]]`` entries that it works with; negotiation compares them."""

    provider: bool = False
    """Whether it serves a standard method: see :func:`agtphost.contract.endpoint_loading.is_idle_provider`."""

    action: str = ""
    """The name by which ``EXECUTE /`` calls it; empty if it has none (core v08 section 7.2.8)."""

    file: str = ""
    """The file that declares it."""

    line: int = 0
    lines: Mapping[str, int] = field(default_factory=dict)
    """The lines of its members in :attr:`file`, for messages."""

    @property
    def name(self) -> str:
        """Return ``METHOD /path``."""
        return f"{self.method} {self.path}"

    @property
    def warning(self) -> str | None:
        """Return the value of ``AGTP-Endpoint-Warning``; None if the endpoint is not deprecated."""
        return self.deprecated.warning if self.deprecated is not None else None

    def _headers(self) -> tuple[tuple[str, str], ...]:
        fields = [] if self.warning is None else [("AGTP-Endpoint-Warning", self.warning)]
        if self.cost is not None:
            fields.append(("Cost-Estimate", budget.render(self.cost)))
        return tuple(fields)

    def projection(self) -> dict[str, Any]:
        """Return the endpoint as in the manifest, with only the kind of its handler (AGTP-API section 8.9)."""
        members: dict[str, Any] = {
            "method": self.method,
            "path": self.path,
            "description": self.description,
            "tier": "B",
            "semantic": self.semantic.document(),
            "input_schema": self.input_schema.schema,
            "output_schema": self.output_schema.schema,
            "errors": list(self.errors),
            "handler": {"type": self.handler.type},
            "required_scopes": list(self.required_scopes),
            "min_assurance": self.min_assurance.label,
        }
        if self.action:
            members["action"] = self.action
        if self.approval:
            members["approval"] = "required"
        if self.namespace is not None:
            members["namespace"] = self.namespace
        if self.deprecated is not None:
            members["deprecated"] = self.deprecated.document()
        return members

    def bind(self, handler: IBindingHandler, agent_ids: Collection[str] = ()) -> Binding:
        """
        Return a binding of the endpoint to its handler.

        :param handler: the handler that :attr:`handler` refers to.
        :param agent_ids: the Agent-IDs of :attr:`agents`.
        """
        return Binding(
            method=self.method,
            path=self.path,
            handler=handler,
            tier="B",
            description=self.description,
            required_scopes=self.required_scopes,
            scope_status=Status.SCOPE_VIOLATION if self.action else Status.AUTHORIZATION_REQUIRED,
            min_assurance=self.min_assurance,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            errors=frozenset(self.errors),
            idempotent=self.semantic.is_idempotent,
            state_changing=self.semantic.impact is not Impact.INFORMATIONAL,
            agents=frozenset(agent_ids),
            approval=self.approval,
            definition=self.definition,
            timeout=self.timeout,
            cost=self.cost,
            headers=self._headers(),
            extra={"action": self.action} if self.action else {},
            origin=f"{self.file}:{self.line}" if self.file else "",
            lines=self.lines,
            details=self.projection(),
        )
