"""``AGTP-API-Version``: on every response, from the moment it is announced."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from agtphost.identity.peer import Peer
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Response
from tests.dispatch.hosts import CALLER, DispatchHost


def announced_version(response: Response) -> str | None:
    return response.headers.get("agtp-api-version")


def test_every_response_carries_the_version_of_the_moment() -> None:
    """AGTP-269: successes, refusals and answers to what never was a request; a new number from its announcement on."""
    host = DispatchHost()
    assert announced_version(host.ask("QUERY", "/words", headers={"Agent-ID": CALLER})) == "1"
    for number in (7, 8):
        host.core.admission.sealer.announce(number)
        answers = [
            host.ask("QUERY", "/words", headers={"Agent-ID": CALLER}),
            host.ask("QUERY", "/nowhere"),
            host.ask("FLY", "/desk"),
        ]
        malformed: Deferred[Response] = Deferred.fromCoroutine(
            host.dispatcher.refuse(Reason.INVALID_REQUEST_LINE, "No request.", Peer(address="127.0.0.1"))
        )
        malformed.addCallback(answers.append)
        assert {announced_version(answer) for answer in answers} == {str(number)}
        assert len(answers) == 4
        assert {answer.headers.get("server-id") for answer in answers} == {"host.test"}
