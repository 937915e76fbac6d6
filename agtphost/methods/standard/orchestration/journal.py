"""
What becomes true with the record of one step's call: see :mod:`agtphost.methods.standard.orchestration.workflow_items`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.dispatch.inner_results import awaits_approval
from agtphost.methods.standard.orchestration import workflow_items
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.status import Status


class StepJournal:
    """
    The journal of one call of a step.

    :param following: the number of the step that begins once this one is done; 0 where none does, asked when the call
        has ended, with whether it succeeded.
    :param again: whether the call may be made again if it fails, so that a failure ends nothing yet.
    """

    def __init__(
        self,
        workflow_id: str,
        owner: str,
        number: int,
        attempt: int,
        following: Callable[[bool], int],
        *,
        again: bool,
    ) -> None:
        self._workflow_id = workflow_id
        self._owner = owner
        self._number = number
        self._attempt = attempt
        self._following = following
        self._again = again
        self._asked = 0
        self._begins = 0
        self._ends = False
        self.outcome: dict[str, Any] = {}
        self.durable = False
        """Whether the outcome is kept."""

        self.final = False
        """Whether what is kept is that the step has ended."""

        self.begun = 0
        """The step whose begin is kept with it; 0 for none."""

    def changes(self, status: int, reason: str, body: bytes) -> tuple[Change, ...]:
        """Return the changes to commit with the call, as :class:`agtphost.identity.peer.FollowUp` describes."""
        self._asked += 1
        if self._asked > 2:
            # Neither the outcome nor what became of it found room: the workflow stops there, and says so.
            return ()
        # Of a long one nothing is kept but that it was done.
        long = len(body) > workflow_items.LONGEST_RESULT and status != Status.ACCEPTED
        document = jsontext.decode_kept(body) if body and not long else {}
        waits = awaits_approval(status, document)
        done = 200 <= status < 300 and status != Status.AUTHORIZATION_REQUIRED and not waits
        outcome: dict[str, Any] = {
            "step": self._number,
            "state": workflow_items.DONE if done else workflow_items.FAULTY,
            "status": status,
            "attempt": self._attempt,
        }
        if waits:
            outcome["approval_id"] = document.get("approval_id", "")
            outcome["reason"] = document["reason"]
        elif not done:
            outcome["reason"] = reason
        elif isinstance(document, dict):
            result = document["result"] if "result" in document and "attribution" in document else document
            if len(body) <= workflow_items.LONGEST_RESULT and not jsontext.is_deep(
                result, workflow_items.DEEPEST_RESULT
            ):
                outcome["result"] = result
            else:
                outcome["omitted"] = True
        self.outcome = outcome
        if not done and (waits or self._again):
            # It may be repeated: after a crash it counts as begun only.
            self._begins, self._ends = 0, waits
            waiting = workflow_items.begin_step(self._workflow_id, self._owner, self._number, self._attempt)
            return (waiting,) if not waits else (workflow_items.end_step(self._workflow_id, self._owner, outcome),)
        self._begins, self._ends = self._following(done), True
        kept = [workflow_items.end_step(self._workflow_id, self._owner, outcome, linked=True)]
        if self._begins:
            kept.append(workflow_items.begin_step(self._workflow_id, self._owner, self._begins))
        return tuple(kept)

    def mark_durable(self) -> None:
        """Note that the changes are durable, as :class:`agtphost.identity.peer.FollowUp` describes."""
        self.durable = True
        self.final = self._ends
        self.begun = self._begins
