"""How surely a caller is known has one order: none, header, gateway, certificate."""

from __future__ import annotations

from agtphost.contract.binding import Binding
from agtphost.identity.peer import Assurance, Peer, state_owner
from tests.dispatch.hosts import CALLER, DispatchHost, Recorder, certificate, payload
from tests.rows import each_row

WHERE = "127.0.0.1"
CALLERS = {
    "nobody": (Peer(address=WHERE), False, "none"),
    "a header": (Peer(address=WHERE), True, "header"),
    "a front that asks for nothing": (Peer(address=WHERE, transport="http"), True, "header"),
    "a client that a front has proven": (Peer(address=WHERE, transport="http", vouched=True), True, "gateway"),
    "a certificate": (Peer(address=WHERE, certificate=certificate(CALLER)), True, "certificate"),
}


def test_the_order() -> None:
    """Who was proven by the operator's own front is known more surely than who merely gives a name."""
    assert [each.label for each in sorted(Assurance)] == ["none", "header", "gateway", "certificate"]


@each_row("who", CALLERS)
@each_row("least", list(Assurance), ids=lambda each: each.label)
def test_what_a_surer_caller_may(who: str, least: Assurance) -> None:
    """Nobody is refused for being known more surely than is asked; the record says how surely."""
    peer, named, known = CALLERS[who]
    binding = Binding(
        method="QUERY", path="/least", handler=Recorder(), tier="B", min_assurance=least, state_changing=False
    )
    host = DispatchHost(bindings=[binding])
    answer = host.ask("QUERY", "/least", peer=peer, headers={"Agent-ID": CALLER} if named else {})
    assert payload(host)["identity_assurance"] == known
    assert answer.status == (200 if Assurance[known.upper()] >= least else 401)


def test_what_a_front_has_proven_holds_inside() -> None:
    """A call in the course of another is made as surely as that one, and did not come over HTTP itself."""
    inner = Binding(
        method="QUERY",
        path="/inner",
        handler=Recorder(),
        tier="B",
        min_assurance=Assurance.GATEWAY,
        state_changing=False,
    )

    async def outer(context):  # type: ignore[no-untyped-def]
        return await context.invoke("QUERY", "/inner", {})

    binding = Binding(
        method="QUERY",
        path="/outer",
        handler=Recorder(lambda context: outer(context)),
        tier="B",
        min_assurance=Assurance.HEADER,
        state_changing=False,
    )
    for vouched in (True, False):
        host = DispatchHost(bindings=[inner, binding])
        http = {"surface": "a2a", "client": "nightly", "method": "POST"}
        peer = Peer(address=WHERE, transport="http", vouched=vouched, http=http)
        answer = host.ask("QUERY", "/outer", peer=peer, headers={"Agent-ID": CALLER})
        within, without = payload(host, -2), payload(host, -1)
        assert without["extra"]["http"] == http  # type: ignore[index]
        assert "http" not in within.get("extra", {})  # type: ignore[operator]
        assert within["identity_assurance"] == ("gateway" if vouched else "header")
        assert (answer.status == 200) is vouched


def test_what_is_kept_does_not_follow_the_number() -> None:
    """State is kept by the word, so that a stronger place in the order moves nobody's sessions to somebody else."""
    owners = {state_owner(CALLER, each) for each in Assurance}
    assert len(owners) == 4
    assert state_owner(CALLER, Assurance.CERTIFICATE) == CALLER
    assert state_owner(CALLER, Assurance.GATEWAY).startswith("f7c310d53b0c")
    assert state_owner(CALLER, Assurance.HEADER).startswith("218e0e836417")
