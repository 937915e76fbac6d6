"""The family of what grants, signs, logs, cancels, hands over and delivers: its built-ins, and what they share."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.methods.standard.authorization import Authorizing, cancel_grant
from agtphost.methods.standard.bookings import cancel_approval, cancel_booking, cancel_monitor, cancel_workflow
from agtphost.methods.standard.cancellation import Cancellation
from agtphost.methods.standard.channels import Publishing
from agtphost.methods.standard.confirmation_targets import add_confirmations
from agtphost.methods.standard.connections import Connecting, cancel_connection
from agtphost.methods.standard.log_method import Logging
from agtphost.methods.standard.messages.alerts import Alerting
from agtphost.methods.standard.messages.broadcasts import Broadcasting
from agtphost.methods.standard.messages.replies import Replying
from agtphost.methods.standard.messages.reports import Reporting
from agtphost.methods.standard.messages.send import Sending
from agtphost.methods.standard.queues import Pulling, Queues, Submitting
from agtphost.methods.standard.services import MethodServices
from agtphost.methods.standard.sign import Signing
from agtphost.methods.standard.transfers import Transferring


def handlers(parts: MethodServices) -> Mapping[str, IBuiltInHandler]:
    """Return the handlers by method."""
    queues, publishing, alerting, sending = Queues(parts), Publishing(parts), Alerting(parts), Sending(parts)
    add_confirmations(parts)
    sources = (
        cancel_grant(parts),
        alerting.cancel,
        publishing.cancel,
        cancel_connection(parts),
        cancel_approval(parts),
        cancel_monitor(parts),
        cancel_workflow(parts),
        queues.cancel,
        cancel_booking(parts),
    )
    return {
        "ALERT": alerting,
        "AUTHORIZE": Authorizing(parts),
        "BROADCAST": Broadcasting(parts, sending),
        "CANCEL": Cancellation(parts.held, sources, parts.now),
        "CONNECT": Connecting(parts),
        "LOG": Logging(parts),
        "PUBLISH": publishing,
        "PULL": Pulling(queues),
        "REPLY": Replying(parts),
        "REPORT": Reporting(parts),
        "SEND": sending,
        "SIGN": Signing(parts),
        "SUBMIT": Submitting(queues),
        "TRANSFER": Transferring(parts),
    }
