"""One request and its answer: failures become exit statuses, records are checked."""

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
from agtphost.cli.output import visible
from agtphost.cli.target import Target
from agtphost.client import errors
from agtphost.identity.keys import VerifyingKey

if TYPE_CHECKING:
    from agtphost.client.approvals import PendingApproval
    from agtphost.client.confirming import Confirm
    from agtphost.client.reply import Reply
    from agtphost.client.sync import Client
    from agtphost.client.verification import Verification


STOPPED = frozenset({"agent-retired", "agent-suspended"})
"""Reasons of a host that does not serve an agent any more."""


def failure_of(error: errors.ClientError) -> CommandError:
    """A client's error as the command's."""
    kind: type[CommandError] = NoConnection
    if isinstance(error, errors.InvalidCall):
        kind = WrongInput
    elif isinstance(error, (errors.AgentGone, errors.NotConfirmed)):
        kind = HostRefused
    elif isinstance(error, errors.VerificationFailed):
        kind = Unverified
    return kind(error.explanation, error.remedy)


ANOTHER_VERSION = "Is this an AGTP host of the same version?"


@contextmanager
def connected(target: Target, confirm: Confirm | None = None) -> Iterator[Client]:
    """
    A client for one command.

    :param confirm: asks about calls that cannot be undone; None: nobody is asked.
    :raises CommandError: in place of every error of the client's.
    """
    from agtphost.client.sync import Client

    try:
        options = target.client_options()
        if confirm is not None:
            options["confirm"] = confirm
        with Client(**options) as client:
            yield client
    except errors.ClientError as error:
        raise failure_of(error) from None


def refusal(reply: Reply) -> HostRefused:
    """Whatever is no success as an error; ``--json`` prints the body."""
    said = f"{reply.status} {reply.text}".rstrip()
    if reply.explanation:
        said = f"{said}: {reply.explanation}"
    if reply.reason:
        said = f"{said} [{reply.reason}]"
    answer: dict[str, Any] = {"status": reply.status, **reply.document, "audit_id": reply.audit_id}
    if reply.approval is not None:
        return HeldForApproval(said, "\n  ".join(_held(reply.approval, reply.audit_id)), answer=answer)
    remedy = reply.remedy
    if reply.reason in STOPPED and reply.caller_id is not None and reply.document.get("agent_id") == reply.caller_id:
        # The identity was perhaps chosen by the configuration, and the operator is left without one.
        another = "`--as NAME` asks as another agent, or as registrar; `agtp agent ls` lists them."
        remedy = f"{remedy} {another}" if remedy else another
    # Whatever the host sent stays on lines of its own below the sentence that says what happened.
    audit = (f"Audit-ID: {reply.audit_id}",) if reply.audit_id else ()
    return HostRefused(said, "\n  ".join(line for line in (remedy, *reply.particulars, *audit) if line), answer=answer)


def _held(pending: PendingApproval, audit_id: str | None) -> Iterator[str]:
    """Who has to do what before a held call is made."""
    until = f", until {pending.expires_at}" if pending.expires_at else ""
    yield f"Nothing was done yet. The approval is {pending.approval_id}{until}."
    yield f"Who may decide looks at it, and decides: agtp approvals show {pending.approval_id}"
    yield "Then make the very same call again, or say --wait-approval SECONDS and have it made."
    if audit_id:
        yield f"Audit-ID: {audit_id}"


def unsuccessful(reply: Reply) -> ExitStatus:
    """The exit status of an answer that is printed whole."""
    if reply.approval is not None:
        return ExitStatus.HELD
    return ExitStatus.SUCCESS if reply.ok else ExitStatus.REFUSED


def called(
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
    One request, and where a person has to approve it, the same again until that is decided.

    :param patience: seconds to wait for the decision; None: none.
    """
    given: dict[str, Any] = {"stream": stream, **options}
    if stream is not None:
        return client.call(target.uri, method, path, input, wait_for_approval=patience or 0.0, **given)
    if patience is None:
        return client.call(target.uri, method, path, input, **given)
    reply = client.call(target.uri, method, path, input, **given)
    if reply.approval is None:
        return reply
    # Whoever is to decide has to hear of it while this waits.
    click.echo(visible(f"held for a person: {reply.approval.approval_id}; waiting {patience:g} s at most"), err=True)
    return client.call(target.uri, method, path, input, wait_for_approval=patience, **given)


def require_success(reply: Reply) -> Reply:
    """The reply, if the host did what was asked. :raises HostRefused: otherwise."""
    if not reply.ok:
        raise refusal(reply)
    return reply


def ask(target: Target, method: str, path: str = "/", input: Mapping[str, Any] | None = None, **options: Any) -> Reply:
    """
    One request over a connection of its own, which has to succeed.

    :raises CommandError: if it does not.
    """
    with connected(target) as client:
        return require_success(client.call(target.uri, method, path, input, **options))


def result_of(reply: Reply) -> Mapping[str, Any]:
    """The ``result`` object of an answer. :raises NoConnection: if it has none, which is not AGTP."""
    return object_of({"result object": reply.result}, "result object")


def object_of(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A member that is an object. :raises NoConnection: if it is none."""
    found = result.get(name)
    if not isinstance(found, dict):
        raise NoConnection(f"the answer has no {name}", ANOTHER_VERSION)
    return found


def entries_of(listed: Any, what: str) -> list[dict[str, Any]]:
    """A list of objects. :raises NoConnection: if it is none."""
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise NoConnection(f"the answer is not a list of {what}", ANOTHER_VERSION)
    return listed


def inspect(client: Client, target: Target, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of an INSPECT, which has to succeed."""
    return result_of(require_success(client.call(target.uri, "INSPECT", "/", asked)))


# Records


def signing_keys(target: Target, client: Client) -> Mapping[str, VerifyingKey]:
    """The keys that the host signs with: those at hand, else what its manifest publishes over TLS."""
    return target.keys or client.fetch_signing_keys(target.uri)


def verify(reply: Reply, keys: Mapping[str, VerifyingKey]) -> Verification:
    """
    Check the record of an answer.

    :raises Unverified: naming every check that failed.
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
