"""Send one request: failures become exit statuses, and records are verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.failures import (
    CommandError,
    ExitStatus,
    HeldForApproval,
    HostRefused,
    NoConnection,
    Unverified,
    WrongInput,
)
from agtphost.cli.options import AUTO
from agtphost.cli.output import print_note
from agtphost.cli.target import Target
from agtphost.client import errors
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.client.approvals import PendingApproval
    from agtphost.client.caller import ClientOptions
    from agtphost.client.carriers import Fallback
    from agtphost.client.confirmation import Confirm
    from agtphost.client.reply import Reply
    from agtphost.client.sync import Client
    from agtphost.client.verification import Verification


FALLBACK = "agtphost.cli.exchange.fallback"
"""Key of a click context's ``meta`` with the host that was called over TLS in place of QUIC."""

STOPPED = frozenset({"agent-retired", "agent-suspended"})
"""Refusal reasons for an agent that the host no longer serves."""


TAKEOVER = (
    "Another host may be taking over its store: try again in some seconds. `agtp cluster status` shows which one serves"
)


def failure_of(error: errors.ClientError, *, shares_store: bool = False) -> CommandError:
    """
    Return the command's error for a client's error.

    :param shares_store: whether another host can take over from the one that was called.
    """
    kind: type[CommandError] = NoConnection
    if isinstance(error, errors.InvalidCall):
        kind = WrongInput
    elif isinstance(error, (errors.AgentGone, errors.NotConfirmed)):
        kind = HostRefused
    elif isinstance(error, errors.VerificationFailed):
        kind = Unverified
    remedies = [error.remedy]
    if shares_store and isinstance(error, (errors.CannotConnect, errors.HandshakeEnded)):
        remedies.insert(0, f"{TAKEOVER}.")
    return kind(error.explanation, "\n  ".join(filter(None, remedies)))


ANOTHER_VERSION = "Check that this is an AGTP host of the same version."


@contextmanager
def open_client(target: Target, confirm: Confirm | None = None) -> Iterator[Client]:
    """
    Provide a client for one command.

    :param confirm: asks before irreversible calls; None: never ask.
    :raises CommandError: in place of every error of the client.
    """
    from agtphost.client.sync import Client

    try:
        options = target.client_options(**carrier_options(target))
        if confirm is not None:
            options["confirm"] = confirm
        with Client(**options) as client:
            yield client
    except errors.ClientError as error:
        raise failure_of(error, shares_store=target.shares_store) from None


def carrier_options(target: Target) -> ClientOptions:
    """Return the options of a client that chooses carriers: what earlier commands knew, and the note of a fallback."""
    if target.quic != AUTO:
        return {}
    from agtphost.client.carriers import CarrierFiles

    context = click.get_current_context(silent=True)

    def report(fallback: Fallback) -> None:
        print_note(f"note: {fallback}")
        if context is not None:
            context.meta[FALLBACK] = fallback

    return {"carrier_memory": CarrierFiles(), "on_fallback": report}


def refusal(reply: Reply, suggestion: str = "") -> HostRefused:
    """
    Return the error for an unsuccessful answer; ``--json`` prints its body.

    :param suggestion: a sentence with names that may be meant.
    """
    said = f"{reply.status} {reply.text}".rstrip()
    if reply.explanation:
        said = f"{said}: {reply.explanation}"
    if reply.reason:
        said = f"{said} [{reply.reason}]"
    answer: dict[str, Any] = {"status": reply.status, **reply.document, "audit_id": reply.audit_id}
    if reply.approval is not None:
        return HeldForApproval(said, "\n  ".join(_explain_hold(reply.approval, reply.audit_id)), answer=answer)
    close = reply.document.get("close_matches")
    if not suggestion and reply.reason == Reason.UNKNOWN_TOOL and isinstance(close, list) and close:
        suggestion = f"Did you mean {' or '.join(map(str, close))}?"
    another = ""
    if reply.reason in STOPPED and reply.caller_id is not None and reply.document.get("agent_id") == reply.caller_id:
        # The configuration may have chosen this identity, so name a way to use another.
        another = "Call as another agent or as registrar with `--as NAME`; `agtp agent ls` lists agents."
    if reply.reason == Reason.AGENT_UNAUTHENTICATED and _leaves_certificate_out():
        another = "This call presented no client certificate because of --no-cert; leave that option out."
    # The host's text goes on separate lines below the sentence that says what happened.
    audit = (f"Audit-ID: {reply.audit_id}",) if reply.audit_id else ()
    return HostRefused(
        said,
        "\n  ".join(line for line in (suggestion, reply.remedy, another, *reply.particulars, *audit) if line),
        answer=answer,
    )


def _leaves_certificate_out() -> bool:
    """Return whether the command that runs was given ``--no-cert``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("no_cert"))


def _explain_hold(pending: PendingApproval, audit_id: str | None) -> Iterator[str]:
    """Yield what has to happen before a held call is made."""
    until = f", until {pending.expires_at}" if pending.expires_at else ""
    yield f"The call was not made yet. Its approval is {pending.approval_id}{until}."
    yield f"A person who may decide runs: agtp approvals show {pending.approval_id}"
    yield "Then repeat exactly this call, or make it with --wait-approval SECONDS."
    if audit_id:
        yield f"Audit-ID: {audit_id}"


def exit_status_of(reply: Reply) -> ExitStatus:
    """Return the exit status for an answer that was printed in full."""
    if reply.approval is not None:
        return ExitStatus.HELD
    return ExitStatus.SUCCESS if reply.ok else ExitStatus.REFUSED


def call_with_approval(
    client: Client,
    target: Target,
    method: str,
    path: str,
    input: Mapping[str, Any] | None,
    *,
    patience: float | None = None,
    stream: Callable[[Reply], object] | None = None,
    **options: Any,
) -> Reply:
    """
    Send one request; if a person has to approve it, wait and repeat it after the decision.

    :param patience: seconds to wait for the decision; None: do not wait.
    """
    given: dict[str, Any] = {"stream": stream, **options}
    if stream is not None:
        return client.call(target.uri, method, path, input, wait_for_approval=patience or 0.0, **given)
    if patience is None:
        return client.call(target.uri, method, path, input, **given)
    reply = client.call(target.uri, method, path, input, **given)
    if reply.approval is None:
        return reply
    # Print the approval before the wait, so that the person can be asked.
    print_note(f"held for a person: {reply.approval.approval_id}; waiting {patience:g} s at most")
    return client.call(target.uri, method, path, input, wait_for_approval=patience, **given)


def require_success(reply: Reply) -> Reply:
    """
    Return the reply if it is successful.

    :raises HostRefused: it is not.
    """
    if not reply.ok:
        raise refusal(reply)
    return reply


def ask(target: Target, method: str, path: str = "/", input: Mapping[str, Any] | None = None, **options: Any) -> Reply:
    """
    Send one request over a new connection, and return its successful reply.

    :raises CommandError: the request failed.
    """
    with open_client(target) as client:
        return require_success(client.call(target.uri, method, path, input, **options))


def result_of(reply: Reply) -> Mapping[str, Any]:
    """
    Return the ``result`` object of an answer.

    :raises NoConnection: the answer has none, so it is not AGTP.
    """
    return object_of({"result object": reply.result}, "result object")


def object_of(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """
    Return a member that is an object.

    :raises NoConnection: the member is missing or of another type.
    """
    found = result.get(name)
    if not isinstance(found, dict):
        raise NoConnection(f"the answer has no {name}", ANOTHER_VERSION)
    return found


def entries_of(listed: Any, what: str) -> list[dict[str, Any]]:
    """
    Return a list of objects.

    :raises NoConnection: it is anything else.
    """
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise NoConnection(f"the answer is not a list of {what}", ANOTHER_VERSION)
    return listed


def inspect(client: Client, target: Target, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result of a successful INSPECT."""
    return result_of(require_success(client.call(target.uri, "INSPECT", "/", asked)))


# Records


def signing_keys(target: Target, client: Client) -> Mapping[str, VerifyingKey]:
    """Return the keys that the host signs with: local ones, or else those that its manifest publishes over TLS."""
    return target.keys or client.fetch_signing_keys(target.uri)


def verify(reply: Reply, keys: Mapping[str, VerifyingKey]) -> Verification:
    """
    Verify the record of an answer.

    :raises Unverified: the record does not verify; the message names every failed check.
    """
    verification = reply.verify(keys)
    if not verification.ok:
        listed = "\n".join(f"  {check.name}: {check.detail}" for check in verification.failures)
        answer = {
            "verified": False,
            "audit_id": reply.audit_id,
            "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in verification.checks],
        }
        raise Unverified(f"the record does not verify:\n{listed}", answer=answer)
    return verification
