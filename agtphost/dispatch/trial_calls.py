"""
Calls that an operator makes with the rights of an agent, to try a tool.

Theory of operation. The operators' page puts the Agent-ID into :attr:`agtphost.identity.peer.Peer.rights_of` of a
request that it makes with the operator's own certificate. No octet on a wire becomes that member, so no client can
claim it. The gates judge such a request exactly as one of that agent: state, scopes, grants, rules of the tool, input.
Everything else is the operator's:

- The certificate is checked at each request, and must be an administrator's that names no agent.
- The record is one of the host's own chain. It names the operator, has no ``caller_id``, and says in ``extra.trial``
  whose rights the call was judged with.
- Rates are counted for the operator, state is kept under a name that no agent has, and an upstream does not get
  the agent's name.

Only tools of MCP servers can be tried, and none that needs an approval: an approval is for the agent's own call, and a
trial must neither ask for one nor use one up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from agtphost.errors import Refusal
from agtphost.identity.peer import Peer
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.contract.binding import Binding
    from agtphost.dispatch.exchange import Exchange

MayTry: TypeAlias = Callable[[Peer], bool]
"""Whether the other end of a connection is an operator who may try tools."""


def require_trial(exchange: Exchange, may_try: MayTry) -> None:
    """
    Require that an administrator makes the call, directly, and names no agent otherwise.

    :raises Refusal: 403.
    """
    peer, request = exchange.peer, exchange.request
    certificate = peer.certificate
    if certificate is None or not may_try(peer):
        raise Refusal(
            Reason.OPERATORS_ONLY,
            "Only administrators may try tools with the rights of an agent.",
            remedy='Sign in with an administrator\'s certificate. In host.toml: [[operator]] role = "administrator".',
            details={"required_role": "administrator"},
        )
    if certificate.agent_id is not None or exchange.agent_id is not None:
        raise Refusal(
            Reason.NOT_ENTITLED,
            "Only an operator may call with the rights of an agent, and this certificate names an agent.",
            remedy="Sign in with an operator's certificate that names no agent.",
        )
    if peer.depth or request.method != "EXECUTE" or request.path != "/":
        raise _refuse_other()


def require_tool(exchange: Exchange) -> None:
    """
    Require that the call is one of a tool of an MCP server.

    :raises Refusal: 403 for every other action.
    """
    if exchange.binding is None or not is_tool(exchange.binding):
        raise _refuse_other()


def is_tool(binding: Binding) -> bool:
    """Return whether a binding is a tool of an MCP server: nothing else can be tried."""
    return "mcp_tool" in (binding.extra or {})


def refuse_held_trial(exchange: Exchange) -> None:
    """
    Refuse to try what needs an approval.

    :raises Refusal: 403 for a trial.
    """
    if exchange.peer.rights_of:
        raise Refusal(
            Reason.NOT_ENTITLED,
            "A person approves each call of this tool, so it cannot be tried with the rights of an agent.",
            remedy="Have the agent call it, and decide in the Inbox.",
        )


def trial_member(exchange: Exchange) -> dict[str, str]:
    """Return the member ``extra.trial`` of the record: the agent whose rights counted, and the one that answered."""
    member = {"rights_of": exchange.peer.rights_of}
    if exchange.caller is not None:
        member["label"] = exchange.caller.name
    if exchange.agent is not None:
        member["answered_by"] = exchange.agent.agent_id
    return member


def _refuse_other() -> Refusal:
    return Refusal(
        Reason.NOT_ENTITLED,
        "With the rights of an agent only a tool of an MCP server can be tried.",
        remedy="Check access shows what the agent may call otherwise.",
    )
