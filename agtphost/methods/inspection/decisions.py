"""INSPECT ``target=decision``: whether an agent may make a call, and which gate says so (design decision 14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agtphost.contract.carried_call import ToolAddress
from agtphost.dispatch.decision import Decision, Question
from agtphost.dispatch.rule_source import APPROVAL, RuleSource
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import INSPECT_ALL, Authorization, is_registrar
from agtphost.handlers.built_in import BuiltInContext
from agtphost.handlers.operators import OperatorAction
from agtphost.iagtp import IAgentDirectory
from agtphost.identity.peer import Assurance, Peer
from agtphost.vocabulary.reasons import Reason

ASSURANCES = {assurance.label: assurance for assurance in Assurance}


class Decisions:
    """
    Answers what the gates would decide, to the agent itself and to its overseers.

    :param decide: the gates' word.
    :param directory: whose Genesis issuers may ask about them.
    :param authorization: tells who oversees an agent: its registrar, operators, agents with ``inspect:all``.
    :param ruling: finds the rule that decides, for overseers; None: it is not shown.
    :param find_tool: returns where a tool is called that lists call by this name.
    :param find_action: returns where a plugin's tool is called that has this action and this payload type.
    """

    def __init__(
        self,
        decide: Callable[[Question, Peer], Awaitable[Decision]],
        directory: IAgentDirectory,
        authorization: Authorization,
        ruling: RuleSource | None = None,
        *,
        find_tool: Callable[[str], ToolAddress],
        find_action: Callable[[str, str], ToolAddress | None],
    ) -> None:
        self._find_tool = find_tool
        self._find_action = find_action
        self._ruling = ruling
        self._decide = decide
        self._directory = directory
        self._authorization = authorization

    async def __call__(self, context: BuiltInContext) -> Mapping[str, Any]:
        """Return the decision as a document."""
        given = self._read_action(self._read_tool(context.input))
        agent_id = None if given.get("agent_id") in (None, "") else parameters.agent_id(given)
        self._authorize(context, agent_id)
        sought = given.get("input")
        if sought is not None and not isinstance(sought, dict):
            raise parameters.invalid("input", "input is not an object.", "Send the input that the call would have.")
        shape = given.get("input_shape")
        if shape is not None and not isinstance(shape, dict):
            raise parameters.invalid("input_shape", "input_shape is not an object.", "Send what a record has.")
        agent = None if agent_id is None else self._directory.by_id(agent_id)
        certificate = None if agent is None else agent.certificate
        question = Question(
            agent_id=agent_id,
            commitment=None if certificate is None else certificate.commitment,
            method=parameters.require_text(given, "method"),
            path=parameters.text(given, "path") or "/",
            assurance=self._assurance(given, agent_id),
            scopes=parameters.text(given, "authority_scope"),
            input=sought,
            shape=shape,
            partial=given.get("partial") is True,
        )
        if context.peer is None:
            raise Refusal(Reason.SERVER_ERROR, "The question has no address that it came from.")
        decision = await self._decide(question, context.peer)
        named = {} if agent is None else {"agent_name": agent.display_name}
        told = {"agent_id": agent_id or "", **named, "requested_method": question.method, **decision.document()}
        if self._ruling is not None and self._may_see_rules(context, agent_id):
            self._add_rules(self._ruling, decision, told, parameters.text(given, "reason"))
        return told

    def _read_tool(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Return the question about the EXECUTE that calls ``tool``, if one is given: a tool's name, as lists have it.

        ``input`` has the tool's arguments then; without it, the schema of the arguments is not asked.
        """
        name, arguments = parameters.text(given, "tool"), given.get("input")
        if name is None or not (arguments is None or isinstance(arguments, dict)):
            return given
        found = self._find_tool(name)
        called = {"method": "EXECUTE", "input": found.call.parameters(arguments or {}), "partial": arguments is None}
        return {**given, **called, "path": found.path if given.get("path") in (None, "/") else given["path"]}

    def _read_action(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Return the question with the payload of a plugin's tool, of which a record names the action alone.

        An adapter may need members of the payload to find its tool, such as an operation.
        """
        sought = given.get("input")
        if given.get("partial") is not True or not isinstance(sought, dict) or "payload" in sought:
            return given
        action, kind = sought.get("action"), sought.get("payload_type")
        found = self._find_action(action, kind) if isinstance(action, str) and isinstance(kind, str) else None
        return given if found is None else {**given, "input": found.call.parameters({})}

    @staticmethod
    def _add_rules(ruling: RuleSource, decision: Decision, told: dict[str, Any], reason: str | None) -> None:
        """
        Add the configuration rule that decides.

        :param reason: the reason in a record, which may differ from the present decision.
        """
        binding, caller, method = decision.binding, decision.caller, decision.method
        refusal = decision.refusal
        if refusal is not None:
            rule = ruling.find_rule(str(refusal.reason), binding, caller, method=method, extra=refusal.extra)
            if rule is not None:
                told["refusal"]["rule"] = rule.document()
        elif decision.needs_approval:
            rule = ruling.find_rule(APPROVAL, binding)
            if rule is not None:
                told["approval_rule"] = rule.document()
        if reason:
            rule = ruling.find_rule(reason, binding, caller, method=method)
            if rule is not None:
                told["rule"] = rule.document()

    def _may_see_rules(self, context: BuiltInContext, agent_id: str | None) -> bool:
        """
        Return whether the caller may see the host's rules: operators, viewers, overseers, and issuers of an agent.
        """
        if self._authorization.looks(context) or (
            agent_id is not None and self._authorization.manages(context, agent_id)
        ):
            return True
        return any(is_registrar(context.peer, each) for each in self._directory.list_hosted())

    @staticmethod
    def _assurance(given: Mapping[str, Any], agent_id: str | None) -> Assurance:
        if agent_id is None:
            return Assurance.NONE
        named = parameters.text(given, "assurance") or Assurance.CERTIFICATE.label
        if named not in ASSURANCES or named == Assurance.NONE.label:
            raise parameters.invalid(
                "assurance", "assurance has an unknown value.", "Use certificate, header or gateway."
            )
        return ASSURANCES[named]

    def _authorize(self, context: BuiltInContext, agent_id: str | None) -> None:
        """
        Let every agent ask about itself, with its certificate, and every caller about unknown agents.

        What would be decided tells what an agent may do here. Neither a header nor a front proves who asks, so
        a caller without a certificate gets the same answer about every agent, the one that it names included.
        """
        caller, proven = context.caller, context.assurance is Assurance.CERTIFICATE
        if agent_id is None or (proven and caller is not None and caller.agent_id == agent_id):
            return
        if self._authorization.manages(context, agent_id, OperatorAction.READ) or self._authorization.oversees(context):
            return
        if context.peer is None or context.peer.certificate is None:
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED,
                "Only the agent and its overseers can see what it may do.",
                remedy="Connect with the certificate of the agent, of its Genesis issuer, or of an operator.",
            )
        raise Refusal(
            Reason.ACL_NOT_PERMITTED,
            "Only overseers of another agent can see what it may do.",
            remedy=f"Ask with the scope {INSPECT_ALL}, or with the certificate of its Genesis issuer or an operator.",
        )
