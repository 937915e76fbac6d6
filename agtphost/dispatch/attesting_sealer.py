"""A sealer for hosts that show evidence of what they run on: ``[attestation]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.failed_calls import Failures
from agtphost.dispatch.outcome import Outcome
from agtphost.dispatch.rule_source import RuleSource
from agtphost.dispatch.sealer import NOTHING, Sealer
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer
from agtphost.handlers.context import EndpointResponse
from agtphost.handlers.operators import Operators
from agtphost.identity.peer import Assurance

ATTESTATION = "Attestation-Evidence"


class AttestingSealer(Sealer):
    """
    A sealer whose responses carry ``Attestation-Evidence``, and in their body what it is.

    Documents that are served as they are, such as manifests and lists, cannot say what it is, and go without.

    :param kind: ``rats-eat``, ``rats-corim`` or ``rats-uri``.
    :param evidence: visible ASCII characters.
    """

    def __init__(
        self,
        server_id: str,
        supported_methods: tuple[str, ...],
        warnings: Mapping[str, str] | None = None,
        *,
        kind: str,
        evidence: str,
        floor: Assurance = Assurance.CERTIFICATE,
        ruling: RuleSource | None = None,
        failed: Failures | None = None,
        operators: Operators | None = None,
    ) -> None:
        super().__init__(
            server_id,
            supported_methods,
            warnings,
            floor=floor,
            ruling=ruling,
            failed=failed,
            operators=operators,
        )
        self._fields = ((ATTESTATION, evidence),)
        # Bodies are JSON objects with members, so this goes in front of the last brace.
        self._member = f',"attestation_type":"{kind}"}}'.encode()

    def envelope(self, exchange: Exchange, status: int, result: Any, beside: Mapping[str, Any] = NOTHING) -> bytes:
        return super().envelope(exchange, status, result, beside)[:-1] + self._member

    def success(self, exchange: Exchange, answer: EndpointResponse) -> Outcome:
        outcome = super().success(exchange, answer)
        # What is answered as it was before says what it is where it did so then.
        enveloped = not isinstance(answer, Answer) or answer.enveloped
        own = enveloped if answer.body is None else answer is exchange.replay
        if own and outcome.body.endswith(self._member):
            outcome.headers = (*outcome.headers, *self._fields)
        return outcome

    def plain(self, exchange: Exchange, result: Any) -> Outcome:
        return self._attest(super().plain(exchange, result))

    def interim(self, exchange: Exchange, event: Mapping[str, Any], token: str) -> Outcome:
        return self._attest(super().interim(exchange, event, token))

    def refusal(self, exchange: Exchange, refusal: Refusal) -> Outcome:
        outcome = super().refusal(exchange, refusal)
        outcome.body = outcome.body[:-1] + self._member
        return self._attest(outcome)

    def _attest(self, outcome: Outcome) -> Outcome:
        outcome.headers = (*outcome.headers, *self._fields)
        return outcome
