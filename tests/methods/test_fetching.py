"""FETCH of documents about agents, beside DESCRIBE: what GET is by its alias (AGTP-API section 9.2)."""

from __future__ import annotations

import re
from hashlib import sha256

from agtphost.contract.binding import Binding
from agtphost.dispatch.gates import identity
from agtphost.identity import detached
from agtphost.identity.peer import Assurance
from agtphost.wire.events import Response
from tests.identity.issued import CALLER, DESK, SIGNING, of_agent
from tests.memory import body_of
from tests.methods.hosts import MethodHost
from tests.methods.test_headers import RECORDER
from tests.rows import each_row

KEYS = {SIGNING.kid: SIGNING.public}


def own(path: str) -> Binding:
    return Binding(method="FETCH", path=path, handler=RECORDER, tier="B", min_assurance=Assurance.NONE)


def verified_octets(response: Response) -> bytes:
    """The octets of a document, once their signature was found to be that of the host over them."""
    assert response.status == 200, response.body
    signature = response.headers.get(detached.HEADER.lower())
    assert signature is not None and detached.verify(signature, response.body, KEYS) == SIGNING.kid
    return response.body


@each_row("verb", ["FETCH", "GET"])
@each_row("form", ["manifest", "json", "yaml", "html"])
def test_the_octets_are_those_that_were_signed(verb: str, form: str) -> None:
    """AGTP-156: FETCH, and GET by its alias, give what DESCRIBE gives, octet for octet and with its signature."""
    host = MethodHost()
    described = host.ask("DESCRIBE", "/agents/desk", query=f"format={form}")
    fetched = host.ask(verb, "/agents/desk", query=f"format={form}")
    assert verified_octets(fetched) == verified_octets(described)
    assert fetched.headers.get("trust-tier") == described.headers.get("trust-tier") is not None
    assert fetched.headers.get("content-type") == described.headers.get("content-type")


def test_the_others_are_there_too() -> None:
    """The namespace and the status: the same documents, but for the time at which they were written."""
    host = MethodHost()
    for path, time in (("/agents", b"generated_at"), ("/agents/desk/status", b"generated_at")):
        one, other = (
            re.sub(rb'"(%s|signature)":("[^"]*"|\{[^}]*\})' % time, b"", verified_octets(host.ask(verb, path)))
            for verb in ("DESCRIBE", "GET")
        )
        assert one == other


@each_row(("state", "status"), [("active", 200), ("deprecated", 200), ("suspended", 503), ("retired", 410)])
def test_stopped_agents_are_told_of(state: str, status: int) -> None:
    """What DESCRIBE says of an agent in any state, FETCH says: no document of one that is stopped, but its status."""
    host = MethodHost()
    host.put(DESK, state)
    for verb in ("DESCRIBE", "FETCH", "GET"):
        assert host.ask(verb, "/agents/desk").status == status, verb
        assert body_of(host.ask(verb, "/agents/desk/status"))["lifecycle_state"] == state, verb


def test_the_only_agent_hides_nothing() -> None:
    """The namespace is the host's own, whatever becomes of the only agent in it."""
    host = MethodHost(agents=(DESK, CALLER))
    host.put(DESK, "suspended")
    assert body_of(host.ask("GET", "/agents"))["document_type"] == "agtp-namespace"


def test_what_is_not_disclosed_is_not_fetched() -> None:
    """AGTP-API section 8.5 holds for FETCH: 404, word for word as of an agent which does not exist."""
    host = MethodHost({"policies": {"agent_disclosure": "private"}})
    for verb in ("FETCH", "GET"):
        refused, absent = host.ask(verb, "/agents/desk"), host.ask(verb, "/agents/nobody")
        assert refused.status == absent.status == 404
        assert body_of(refused)["explanation"] == body_of(absent)["explanation"]
        assert host.ask(verb, "/agents/desk", certificate=of_agent(CALLER.agent_id)).status == 200


def test_the_operators_own_goes_before_it() -> None:
    """A host with ``FETCH /status`` keeps it, at every agent; what else is below an agent is reached as before."""
    host = MethodHost(endpoints=(own("/status"), own("/notes")))
    for path in ("/agents/desk/status", "/agents/desk/notes"):
        response = host.ask("FETCH", path)
        assert response.status == 200 and b"agtp-status" not in response.body
    assert b"agtp-identity" in host.ask("FETCH", "/agents/desk").body
    # The control: without an endpoint of the operator's there, it is the document.
    assert b"agtp-status" in MethodHost(endpoints=(own("/notes"),)).ask("FETCH", "/agents/desk/status").body


def test_another_alias_is_another_method() -> None:
    """Where the operator has GET mean QUERY, it is no FETCH."""
    host = MethodHost({"policies": {"methods": {"aliases": {"GET": "QUERY"}}}})
    assert b"agtp-identity" not in host.ask("GET", "/agents/desk").body
    assert b"agtp-identity" in host.ask(identity.FETCH, "/agents/desk").body


def test_what_it_was_is_said_for_asking_again() -> None:
    """A document has an ETag: the same while it is the same, another in another form and once the agent has changed."""
    host = MethodHost()

    def tag(form: str) -> str | None:
        found: str | None = host.ask("GET", "/agents/desk", query=f"format={form}").headers.get("etag")
        return found

    first = tag("json")
    assert first and first == tag("json") != tag("html")
    host.put(DESK, "deprecated")
    assert tag("json") != first


def test_the_page_says_of_which_octets_it_is() -> None:
    """The digest on the page is that of the JSON form, and the page says how to verify it."""
    host = MethodHost()
    page = host.ask("GET", "/agents/desk", headers={"Accept": "text/html"}).body.decode()
    whole = host.ask("GET", "/agents/desk", query="format=json").body
    assert sha256(whole).hexdigest() in page
    assert f"agtp resolve agtp://{DESK.agent_id}" in page and "Document-Signature" in page
    first = [page.index(word) for word in ('class="tier', "Lifecycle:", "Who says so", "Scopes", "Validity")]
    assert first == sorted(first) and first[-1] < page.index("What it does")
