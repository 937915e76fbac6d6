"""The common part of the adapters for A2A agents and ACP servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.carried_call import ToolAddress
from agtphost.errors import NamingRefusal, Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.upstream.approval import ApproveDefinition, approve_binding
from agtphost.upstream.cancellation import AlreadyOver
from agtphost.upstream.offered_tools import OfferedTool
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from agtphost.upstream.supervision import UpstreamState
from agtphost.upstream.web_upstream import WebUpstream
from agtphost.vocabulary.reasons import Reason

U = TypeVar("U", bound=WebUpstream)


class WebAdapter(ABC, Generic[U]):
    """
    The base of the adapters for protocols over HTTP.

    :param upstreams: the hosted ones; their order does not matter.
    :param links: the owners of their tasks.
    :param authorization: decides who may approve what changed.
    """

    name = ""
    """The name of the protocol."""

    member = ""
    """The kind of upstream, and the member of a payload that names one."""

    ambiguous: Reason
    unknown: Reason
    """Reasons to refuse a request that names none of several upstreams, or an unknown one."""

    example = ""
    """An example of a payload."""

    approve_action = ""
    """The action that approves changes, for operators; it is not listed."""

    actions: tuple[str, ...] = ()
    """The actions that lists show."""

    unlisted_actions: tuple[str, ...] = ()
    """The actions that lists do not show."""

    def __init__(
        self, upstreams: Iterable[U], links: TaskOwnership, authorization: Authorization | None = None
    ) -> None:
        self.by_name: Mapping[str, U] = {upstream.settings.name: upstream for upstream in upstreams}
        self._links = links
        self._bound: dict[str, tuple[object, Mapping[str, Binding]]] = {}
        rights = authorization or Authorization()
        self._approving = {
            name: approve_binding(
                self.approve_action,
                f"/{self.name}/{name}",
                ApproveDefinition(self.name, name, upstream.pins, upstream.list_pending, rights),
            )
            for name, upstream in self.by_name.items()
        }

    # Methods of the protocols

    @abstractmethod
    def _bind(self, upstream: U) -> Mapping[str, Binding]:
        """Return the bindings of an upstream by action, as it describes itself."""

    def _list_offered_actions(self, upstream: U) -> Iterable[str]:
        """Return the actions that an upstream can answer."""
        return self.actions

    @abstractmethod
    def _describe_for_manifest(self, upstream: U) -> Mapping[str, object]:
        """Return the further members of an upstream's entry in the manifest."""

    @abstractmethod
    def _describe_for_operators(self, upstream: U) -> Mapping[str, object]:
        """Return the further members of an upstream's report for operators."""

    def _guess_upstream(self, payload: Mapping[str, Any]) -> str | None:
        """Return the upstream that a payload means although it names none, or None."""
        return None

    # Methods for the host

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        """
        Find the upstream that a path or payload names.

        :raises Refusal: 404 for an unknown upstream; 409 for several, none of them named; 422 for an unknown action or
            a payload that is not an object.
        """
        payload = {} if payload is None else payload
        kind = self.name.upper()
        if not isinstance(payload, dict):
            raise Refusal(
                Reason.INVALID_PAYLOAD,
                f"The payload of an {kind} action must be an object.",
                remedy=f"Send an object, such as {self.example}.",
            )
        if action == self.approve_action:
            return Resolution(binding=self._approving[self._find_named(payload, server)], input=payload)
        if action not in self.actions and action not in self.unlisted_actions:
            raise Refusal(
                Reason.UNKNOWN_ACTION,
                f"{kind} payloads do not carry the action {action[:64]!r}.",
                details={"supported_actions": list(self.actions)},
            )
        return Resolution(binding=self._bindings(self._find_named(payload, server))[action], input=payload)

    def tools(self) -> list[Binding]:
        """Return every action that can be called now, by upstream."""
        return [
            self._bindings(name)[action]
            for name, upstream in sorted(self.by_name.items())
            if upstream.state in (UpstreamState.UP, UpstreamState.IDLE)
            for action in self._list_offered_actions(upstream)
        ]

    def call_of(self, binding: Binding, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the EXECUTE of an action: its payload is the arguments, and its path names the upstream."""
        assert binding.call is not None
        return binding.call.parameters(arguments)

    def address_of(self, upstream: str, tool: str) -> ToolAddress | None:
        """
        Return where an action is called; see :class:`agtphost.iagtp.IToolAddresses`.

        Only actions that lists may show are tools; those that carry a whole request of the protocol are not.
        """
        if upstream not in self.by_name or tool not in self.actions:
            return None
        call = self._bindings(upstream)[tool].call
        assert call is not None
        return ToolAddress(path="/", call=replace(call, constants={call.upstream_member: upstream}))

    def hosted_protocols(self) -> Sequence[Mapping[str, object]]:
        """Return the ``hosted_protocols`` entries: AGTP-API section 8.6."""
        return [
            {
                "protocol": self.name.upper(),
                "method": "EXECUTE",
                "path": f"/{self.name}/{name}",
                "name": name,
                **upstream.snapshot().to_json(),
                **self._describe_for_manifest(upstream),
            }
            for name, upstream in sorted(self.by_name.items())
        ]

    def upstreams(self) -> Sequence[Mapping[str, object]]:
        """Return the full state of each upstream, for operators."""
        return [
            {**upstream.snapshot().to_full_json(), **self._describe_for_operators(upstream)}
            for _, upstream in sorted(self.by_name.items())
        ]

    def list_offered(self) -> Iterator[OfferedTool]:
        """Return every action that upstreams offer, for operators."""
        for name, upstream in self.by_name.items():
            for action in self._list_offered_actions(upstream):
                binding = self._bindings(name)[action]
                yield OfferedTool(
                    protocol=self.name,
                    upstream=name,
                    name=action,
                    upstream_state=upstream.state.value,
                    description=binding.description,
                    binding=binding,
                )

    def _upstream_of(self, link: OwnedTask) -> U:
        """
        Return the upstream of a task.

        :raises AlreadyOver: it is not configured any more.
        """
        upstream = self.by_name.get(link.upstream)
        if upstream is None:
            raise AlreadyOver("the upstream was removed from the configuration")
        return upstream

    def _bindings(self, name: str) -> Mapping[str, Binding]:
        """Return the bindings of an upstream, made again when its description has changed."""
        upstream = self.by_name[name]
        known = self._bound.get(name)
        if known is None or known[0] is not upstream.description:
            known = self._bound[name] = upstream.description, self._bind(upstream)
        return known[1]

    def _find_named(self, payload: Mapping[str, Any], server: str | None) -> str:
        given, kind = payload.get(self.member), f"{self.name.upper()} {self.member}"
        named = server if server is not None else given if isinstance(given, str) else None
        if named is None:
            named = next(iter(self.by_name)) if len(self.by_name) == 1 else self._guess_upstream(payload)
        if named is None:
            raise NamingRefusal(
                self.ambiguous,
                f"This host has several {kind}s, and the request names none.",
                remedy=f"Name one as payload.{self.member}, or in the path: /{self.name}/NAME.",
                among=lambda admits: {"candidates": self._usable(admits)},
            )
        if named not in self.by_name:
            there = f"{self.name}_{self.member}s"
            raise NamingRefusal(self.unknown, among=lambda admits: {there: self._usable(admits)})
        return named

    def _usable(self, admits: Callable[[Any], bool]) -> list[str]:
        """Return the upstreams where the caller may call something."""
        return [name for name in sorted(self.by_name) if any(map(admits, self._bindings(name).values()))]
