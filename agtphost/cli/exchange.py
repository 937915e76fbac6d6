"""One request and its answer: failures become exit statuses, records are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agtphost.cli.failures import CommandError, HostRefused, NoConnection, Unverified, WrongInput
from agtphost.cli.reach import Reach
from agtphost.client import errors
from agtphost.identity.keys import VerifyingKey

if TYPE_CHECKING:
    from agtphost.client.reply import Reply
    from agtphost.client.sync import Client
    from agtphost.client.verification import Verification


def failure_of(error: errors.ClientError) -> CommandError:
    """A client's error as the command's."""
    kind: type[CommandError] = NoConnection
    if isinstance(error, errors.InvalidCall):
        kind = WrongInput
    elif isinstance(error, errors.AgentGone):
        kind = HostRefused
    elif isinstance(error, errors.VerificationFailed):
        kind = Unverified
    return kind(error.explanation, error.remedy)


@contextmanager
def connected(reach: Reach) -> Iterator[Client]:
    """
    A client for one command.

    :raises CommandError: in place of every error of the client's.
    """
    from agtphost.client.sync import Client

    try:
        with Client(
            trust=reach.cacert,
            cert=reach.cert,
            key=reach.key,
            agent_id=reach.agent_id,
            timeout=reach.timeout,
        ) as client:
            yield client
    except errors.ClientError as error:
        raise failure_of(error) from None


def refusal(reply: Reply) -> HostRefused:
    """A status outside 2xx as an error; ``--json`` prints the body."""
    said = f"{reply.status} {reply.text}".rstrip()
    if reply.explanation:
        said = f"{said}: {reply.explanation}"
    if reply.reason:
        said = f"{said} [{reply.reason}]"
    answer: dict[str, Any] = {"status": reply.status, **reply.document, "audit_id": reply.audit_id}
    return HostRefused(said, reply.remedy, answer=answer)


def require_success(reply: Reply) -> Reply:
    """The reply, if the host did what was asked. :raises HostRefused: otherwise."""
    if not reply.ok:
        raise refusal(reply)
    return reply


def ask(
    reach: Reach, method: str, path: str = "/", input: Mapping[str, Any] | None = None, **options: Any
) -> Reply:
    """
    One request over a connection of its own, which has to succeed.

    :raises CommandError: if it does not.
    """
    with connected(reach) as client:
        return require_success(client.call(reach.uri, method, path, input, **options))


def result_of(reply: Reply) -> Mapping[str, Any]:
    """The ``result`` object of an answer. :raises NoConnection: if it has none, which is not AGTP."""
    result = reply.result
    if not isinstance(result, dict):
        raise NoConnection("the answer has no result object", "Is this an AGTP host of the same version?")
    return result


# Records


def signing_keys(reach: Reach, client: Client) -> Mapping[str, VerifyingKey]:
    """The keys that the host signs with: those at hand, else what its manifest publishes over TLS."""
    return reach.keys or client.fetch_signing_keys(reach.uri)


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
            "checks": [
                {"name": check.name, "ok": check.ok, "detail": check.detail} for check in verification.checks
            ],
        }
        raise Unverified(f"the record does not verify:\n{listed}", answer=answer)
    return verification
