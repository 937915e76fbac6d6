"""What the host asks of an adapter: which bindings it has, and what a call of one of them is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zope.interface import Attribute, Interface

from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.carried_call import ToolAddress


class IPayloadAdapter(Interface):
    """
    Carries one framework's payloads on EXECUTE: core v08 sections 7.2.8 and 8.

    Never checks authority itself: it says what an action needs, and the gates decide.
    """

    name = Attribute("str: short lower-case name, such as mcp")
    payload_types = Attribute("frozenset[str]: the payload_type values it carries")

    def resolve(action: str, payload: Any, server: str | None) -> Resolution:
        """
        Find what an EXECUTE names.

        :param action: ``parameters.action``.
        :param payload: ``parameters.payload``, decoded.
        :param server: the upstream named by the path ``/mcp/<server>``; None where the path was ``/``.
        :raises agtphost.errors.Refusal: 422, 404 or 409 for what does not exist or is ambiguous.
        """

    def tools() -> Iterable[Binding]:
        """Return every tool that can be called now, as the binding that :meth:`resolve` would return, by name."""

    def call_of(binding: Binding, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Return the parameters of the EXECUTE that calls a tool, for lists, plans and exported documents.

        The arguments are the payload, some members of the payload, or one member of it; their values are copied
        unchanged.

        :param binding: one of :meth:`tools`.
        :return: ``action``, ``payload_type`` and ``payload``, such that :meth:`resolve` finds the binding.
        """

    def hosted_protocols() -> Sequence[Mapping[str, object]]:
        """
        Return ``hosted_protocols`` entries of the manifest (AGTP-API section 8.6), with the state of each upstream.
        """


class IToolAddresses(Interface):
    """Says where the tools of its upstreams are called: what the host's own payload adapters provide besides."""

    def address_of(upstream: str, tool: str) -> ToolAddress | None:
        """
        Say where a tool is called that a path such as ``/tools/files/read_file`` names.

        It says nothing of whether there is such a tool, or for whom: :meth:`IPayloadAdapter.resolve` and the gates do.

        :param upstream: the upstream's name.
        :param tool: the tool's name there.
        :return: None where the adapter has no upstream of that name.
        """
