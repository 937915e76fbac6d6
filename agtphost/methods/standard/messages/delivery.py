"""Into inboxes: to everybody that is named, in one transaction, and with a count of whom it reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.methods.oversight import notification
from agtphost.methods.oversight.notification import MOST as MOST
from agtphost.methods.standard.services import MethodServices


@dataclass(kw_only=True)
class Delivered:
    """The outcome of one message."""

    changes: list[Change] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    """Whose inboxes it is in."""

    full: list[str] = field(default_factory=list)
    """Whose inboxes take no more of this sender."""

    def add(self, more: Delivered) -> None:
        """Add the outcome of another part of the message."""
        self.changes += more.changes
        self.reached += more.reached
        self.full += more.full

    @property
    def notification_ids(self) -> list[str]:
        """The identifiers of the notifications, in the order of :attr:`reached`."""
        return [change.key for change in self.changes]


def deliver(
    parts: MethodServices,
    recipients: Iterable[str],
    *,
    sender: str,
    topic: str,
    content: Mapping[str, Any],
    urgency: str,
    until: float | None = None,
    task_id: str | None = None,
    **more: Any,
) -> Delivered:
    """
    Return a message for each of some inboxes, to be committed by the sender.

    :param task_id: of the call that it comes from, by which REPLY finds it; None where there is none.
    :param recipients: as :meth:`~agtphost.methods.oversight.notification.Notification.inboxes` has them.
    """
    found = Delivered()
    if task_id is not None:
        more["task_id"] = task_id
    for recipient in dict.fromkeys(recipients):
        change = notification.deposit(
            parts.held,
            recipient=recipient,
            sender=sender,
            topic=topic,
            content=content,
            now=parts.now(),
            urgency=urgency,
            until=until,
            **more,
        )
        if change is None:
            found.full.append(notification.name_of_inbox(recipient))
        else:
            found.changes.append(change)
            found.reached.append(recipient)
    return found


async def prepare_changes(parts: MethodServices, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes ready to be stored, measured off the reactor where they are many."""
    return await notification.prepare_changes(parts.offload, changes)
