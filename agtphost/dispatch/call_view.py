"""The view of a call that an operator's gate gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """
    A call as an operator's gate sees it: :class:`agtphost.plugin.IOperatorGate`.

    A member that no gate has established yet has its least powerful value.
    """

    method: str
    path: str
    """The path as requested."""

    path_parameters: Mapping[str, str]
    """Percent-decoded values of the ``{name}`` segments."""

    caller: Agent | None
    """The calling agent; None for an anonymous call."""

    assurance: Assurance
    """How the caller's identity was established."""

    acting_principal: str | None
    """On whose behalf the caller acts."""

    scopes: frozenset[str]
    """What the caller may do here and now."""

    agent: Agent | None
    """The addressed (responding) agent; None for a server-level call."""

    session_id: str | None
    task_id: str | None
    request_id: str | None
    input: Mapping[str, Any]
    """Body, query and path parameters merged; valid against the input schema after the gate ``schema``."""

    address: str
    """The IP address of the connection's other side."""

    name: str
    """What is called, where method and path do not say it: an upstream's tool as ``server.tool``."""
