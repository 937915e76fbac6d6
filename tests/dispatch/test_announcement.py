"""``AGTP-API-Version``: on every response, from the moment it is announced."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from agtphost.identity.peer import Peer
from agtphost.wire.events import Response
from tests.dispatch.scene import CALLER, Scene


def of(response: Response) -> str | None:
    return response.headers.get("agtp-api-version")


def test_every_response_carries_the_version_of_the_moment() -> None:
    """AGTP-269: successes, refusals and answers to what never was a request; a new number from its announcement on."""
    scene = Scene()
    assert of(scene.ask("QUERY", "/words", headers={"Agent-ID": CALLER})) is None
    for number in (7, 8):
        scene.sealer.announce(number)
        answers = [
            scene.ask("QUERY", "/words", headers={"Agent-ID": CALLER}),
            scene.ask("QUERY", "/nowhere"),
            scene.ask("FLY", "/desk"),
        ]
        malformed: Deferred[Response] = Deferred.fromCoroutine(
            scene.dispatcher().refuse("malformed", "No request.", 400, Peer(address="127.0.0.1"))
        )
        malformed.addCallback(answers.append)
        assert {of(answer) for answer in answers} == {str(number)}
        assert len(answers) == 4
        assert {answer.headers.get("server-id") for answer in answers} == {"test-host"}
