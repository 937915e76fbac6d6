"""
What a view costs the host with much behind it.

In the suite 20,000 records, 250 agents and 230 tools; with ``--programmes`` 1,000,000, 1,000 and 500.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN, Draft
from agtphost.audit.writer import GroupWriter, Submission
from agtphost.identity.keys import SigningKey, fastest_signer
from agtphost.identity.provisioning import AgentDescription, issue_agent, registrar_url
from agtphost.page.elements import ROWS
from agtphost.page.views import VIEWS
from agtphost.stores import open_store
from agtphost.vocabulary.quantities import plural
from tests import forking
from tests.audit.drafting import payload
from tests.measuring import measured
from tests.page.browsing import Browser, Site, served
from tests.programmes import length
from tests.system.hosting import until

pytestmark = pytest.mark.programme

RECORDS, LOOKS = length((5_000, 8), (1_000_000, 60))
AGENTS, TOOLS = length((250, 230), (1_000, 500))
SERVER = Path(__file__).with_name("many_tools_server.py")
GROUP = 500
BOUND = length(10.0, 0.05)
"""Seconds at the 95th percentile: measured on a machine that does nothing else."""

CPU = length(0.1, 0.2)
"""Seconds of the host's own processor for one look, on average: what others do on the machine changes it little."""


def filled(config: Path) -> None:
    """Records of the sample agent's calls, of refusals and of the host's own chain, signed by the host's key."""
    state = config.parent / "state"
    caller, agent = (
        json.loads((state / path / "document.json").read_text())["agent_id"]
        for path in ("agents/demo", "hosted/librarian")
    )
    store = open_store(f"sqlite:{state / 'agtphost.sqlite3'}", create=True)
    writer = GroupWriter(
        store, RecordSigner(fastest_signer(SigningKey.load(state / "signing.key"))), server_id="localhost"
    )
    writer.load()
    for begin in range(0, RECORDS, GROUP):
        writer.write([Submission(draft_of(number, caller, agent)) for number in range(begin, begin + GROUP)])
    while store.index_blocks():
        pass
    store.close()
    registrar = SigningKey.load(state / "registrar.key")
    for number in range(AGENTS):
        described = AgentDescription(name=f"agent-{number:04}", description="One of many.", scopes=("docs:read",))
        issue_agent(state / "agents" / described.name, described, registrar, issuer=registrar_url("localhost"))


def draft_of(number: int, caller: str, agent: str) -> Draft:
    refused = number % 10 == 0
    chain = HOST_CHAIN if refused else agent
    said = {"server_id": "localhost", "caller_id": caller, "task_id": f"task-{number % 1_000}"}
    if refused:
        said["reason"] = "scope-insufficient"
    status = 403 if refused else 200
    return Draft(chain=chain, payload=payload(chain, status=status, path=f"/orders/{number % 50}", **said))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    command = json.dumps(forking.mcp_server(SERVER, str(TOOLS)))
    many = f'\n[[mcp.server]]\nname = "many"\ncommand = {command}\nmin_assurance = "header"\n'
    with served(tmp_path_factory.mktemp("page"), prepare=filled, append=many) as site:
        until(lambda: site.host.agtp("tools", "ls").stdout.count("many.work-") >= min(TOOLS, 50))
        yield site


@pytest.fixture(scope="module")
def browser(site: Site) -> Browser:
    return site.browser()


def spent(site: Site) -> float:
    """Seconds of the host's processor so far."""
    fields = Path(f"/proc/{site.host.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@measured
@pytest.mark.parametrize(
    "path",
    [*VIEWS, "/calls?reason=scope-insufficient", "/calls?task_id=task-777", "/calls?method=NEVER"],
)
def test_a_view_is_drawn_in_time(
    path: str, site: Site, browser: Browser, record_property: pytest.RecordProperty
) -> None:
    """On one connection, so that no handshake counts; the newest record is on it, where records are."""
    context = ssl.create_default_context(cafile=str(site.trust))
    connection = HTTPSConnection("127.0.0.1", site.port, timeout=60, context=context)
    took, before = [], spent(site)
    for _ in range(LOOKS):
        begun = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": browser.cookie})
        response = connection.getresponse()
        body = response.read()
        took.append(time.perf_counter() - begun)
        assert response.status == 200, body[:500]
    cpu = (spent(site) - before) / LOOKS
    connection.close()
    p95 = sorted(took)[int(LOOKS * 0.95)]
    record_property("p95_ms", round(p95 * 1000, 2))
    record_property("cpu_ms", round(cpu * 1000, 2))
    print(f"{path}: p95 {p95 * 1000:.1f} ms, {cpu * 1000:.1f} ms of processor, {len(body)} octets, {RECORDS} records")
    assert p95 <= BOUND
    assert cpu <= CPU


def test_there_are_as_many_records(browser: Browser) -> None:
    """The control: the views had all of them to look through."""
    shown = browser.get("/").page.said
    counted = int(shown[shown.index("Records") + 1])
    assert counted >= RECORDS


def paged(browser: Browser, path: str, beginning: str) -> list[str]:
    """What begins so on a list's pages, which lead from one to the next."""
    seen: list[str] = []
    for _ in range(AGENTS // ROWS + 1):
        page = browser.get(path).page
        named = [each for each in page.said if each.startswith(beginning)]
        assert len(named) <= ROWS
        seen += named
        view = path.partition("?")[0]
        path = next((each for each in page.links if each.startswith(f"{view}?") and "more=" in each), "")
        if not path:
            break
    assert path == ""
    return seen


@pytest.mark.parametrize(
    ("path", "beginning", "count"), [("/agents", "agent-", AGENTS), ("/tools", "many.work-", TOOLS)]
)
def test_all_are_there_by_pages_of_two_hundred(browser: Browser, path: str, beginning: str, count: int) -> None:
    """Each once, without a script."""
    seen = paged(browser, path, beginning)
    assert len(seen) == len(set(seen)) == count


def test_tools_are_looked_for(browser: Browser) -> None:
    """By a part of the name, by what they are said to do, by server and by state."""
    page = browser.get("/tools").page
    form = page.form("/tools")
    assert form.fields["upstream"] == form.fields["state"] == ""
    for words, count in (
        ("name=work-10", 10),
        ("name=in+the+way+117.", 1),
        ("upstream=mcp.many&name=work-2", min(TOOLS, 300) - 200),
        ("upstream=mcp.files&name=work-", 0),
        ("state=changed&name=work-", 0),
    ):
        said = browser.get(f"/tools?{words}").page.said
        named = plural(count, "tool")
        assert any(each.startswith((f"{named},", f"{named}:")) for each in said), words


def test_any_agent_can_be_asked_about(browser: Browser) -> None:
    """By its name, or chosen among all that have a part of it in theirs; however many agents there are."""
    last = f"agent-{AGENTS - 1:04}"
    asked = "/can?method=DISCOVER&path=/methods&agent="
    assert "yes" in browser.get(asked + last).page.said
    chosen = paged(browser, asked + "agent-", "agent-")
    assert len(set(chosen)) == AGENTS
    page = browser.get(asked + last[:-1]).page
    choice = [each for each in page.links if each.startswith("/can?") and "more=" not in each]
    assert len(choice) == 10 and "Decision" not in page.said
    assert "Decision" in browser.get(choice[-1]).page.said
    assert "no agent has that in its name" in browser.get(asked + "nobody-of-that-name").text
