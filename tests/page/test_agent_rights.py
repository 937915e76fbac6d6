"""Rights of agents on the page: what an agent may call, and the forms that allow and limit."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from agtphost.vocabulary.display_names import NAMES_BELIEVED
from tests.page.browsing import Browser, Site, served


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("page"), more='viewers = ["{demo}"]', eager=True) as site:
        yield site


@pytest.fixture(scope="module")
def browser(site: Site) -> Browser:
    return site.browser()


@pytest.fixture(scope="module")
def path(site: Site) -> str:
    return f"/agents/{json.loads((site.host.state / 'agents/demo/document.json').read_text())['agent_id']}"


def calls(site: Site, tool: str = "files.list_files") -> bool:
    return site.host.agtp("tools", "call", tool).returncode == 0


def test_an_agent_is_limited_allowed_more_and_freed_by_forms(site: Site, browser: Browser, path: str) -> None:
    """Each takes a tick, applies at the agent's next call, and its record names the operator."""
    assert calls(site)
    page = browser.get(path).page
    assert "The agent has no limits: it may call everything that its scopes allow." in page.said
    form = page.form("/do/limit")
    unticked = browser.send(form, ("do", "limit"), things="files.read_file")
    assert unticked.status == 400 and "tick the box" in unticked.text and calls(site)
    limited = browser.send(form, ("do", "limit"), things="files.read_file, files.search_text", confirmed="yes")
    assert limited.status == 200 and "may call only files.read_file, files.search_text now" in limited.text
    assert not calls(site)
    assert ">admin<" in limited.text.partition(">Given by<")[2].partition("</table>")[0], "who gave it"
    assert "limited to files.read_file" in browser.get("/agents").text
    more = limited.page.form("/do/allow")
    allowed = browser.send(more, ("do", "allow"), things="files.list_files", days="7", confirmed="yes")
    assert allowed.status == 200 and calls(site)
    taken = browser.send(allowed.page.form("/do/take-back", thing="files.list_files"), ("do", "take"))
    assert taken.status == 200 and not calls(site)
    freed = browser.send(taken.page.form("/do/lift-limits"), ("do", "lift"), confirmed="yes")
    assert freed.status == 200 and calls(site)
    stale = browser.send(more, ("do", "allow"), things="files.list_files", confirmed="yes")
    assert stale.status == 400 and "is not limited, and may call this already" in stale.text and calls(site)
    found = site.host.agtp_json(
        "audit", "search", "--method", "AUTHORIZE", "path:/grants", "--all", "--as", "registrar"
    )
    assert len(found) == 2
    for each in found:
        shown = site.host.agtp_json(
            *("call", "-", "INSPECT", "/", "target=audit", f"audit_id={each['audit_id']}", "--as", "registrar")
        )
        assert shown["body"]["result"]["payload"]["operator"]["name"]


def test_allow_names_the_command_where_scopes_are_missing(site: Site, browser: Browser) -> None:
    """A right that the agent could not use is not given; limited or not, the page says what gives it."""
    made = site.host.agtp_json("agent", "new", "visitor", "--admit")
    path = f"/agents/{made['agent_id']}"
    for _ in range(2):
        form = browser.get(path).page.form("/do/allow")
        refused = browser.send(form, ("do", "allow"), things="files.read_file, QUERY /books", confirmed="yes")
        assert refused.status == 422, "no endpoint of that name is there"
        refused = browser.send(form, ("do", "allow"), things="files.read_file", confirmed="yes")
        assert refused.status == 409 and "lacks mcp:tools:execute" in refused.text
        assert "agtp agent allow visitor files.read_file" in refused.text
        site.host.agtp("agent", "limit", "visitor", "files.list_files", "--yes")
        assert "files.read_file" not in browser.get(path).text.partition(">Limited to<")[2].partition("</table>")[0]
    command = ("agent", "allow", "visitor", "files.read_file")
    assert site.host.agtp(*command).returncode == 0
    assert site.host.agtp("tools", "call", "files.read_file", "path=welcome.txt", "--as", "visitor").returncode == 0


def test_what_cannot_be_a_right_is_told(browser: Browser, path: str) -> None:
    """Before the host is asked where the form shows it, with close names where the host does."""
    form = browser.get(path).page.form("/do/limit")
    for things, said in ((",,", "Name what it may call"), ("x y z", "Name what it may call"), ("files.*,x" * 400, "")):
        answer = browser.send(form, ("do", "limit"), things=things, confirmed="yes")
        assert answer.status == 400 and said in answer.text
    assert browser.send(form, ("do", "limit"), things="files.*", days="8", confirmed="yes").status == 400
    unknown = browser.send(form, ("do", "limit"), things="files.reed_file", confirmed="yes")
    assert unknown.status == 422 and "files.read_file" in unknown.text
    assert browser.send(form, ("do", "limit"), things="files.*", agent_id="x", confirmed="yes").status == 400


def test_a_viewer_sees_rights_and_changes_none(site: Site, path: str) -> None:
    """There is no form, and the host refuses one that is made up."""
    viewer = site.browser("--as", "demo")
    page = viewer.get(path).page
    assert "Rights" in page.said and not [form for form in page.forms if form.action.startswith("/do/")]
    given = {"csrf": viewer.get("/").page.form("/leave").fields["csrf"], "confirmed": "yes", "things": "files.*"}
    given.update(do="limit", agent_id=path.removeprefix("/agents/"), name="demo")
    answer = viewer.ask("POST", "/do/limit", given)
    assert answer.status == 403 and calls(site)


def test_agents_have_their_calls_over_a_range(site: Site, browser: Browser, path: str) -> None:
    """In the list and in the view of one, with the last call; another range is a link away."""
    assert calls(site)
    site.host.agtp("tools", "call", "files.none")
    page = browser.get("/agents?range=-1h").page
    assert {"Calls", "Refused", "Failed", "Last call", "Rights"} <= set(page.said)
    assert any("last hour" in each for each in page.said)
    assert all(NAMES_BELIEVED in browser.get(each).page.said for each in ("/agents", "/", path))
    one = browser.get(f"{path}?range=-7d").page
    assert "files.list_files" in one.said and any("last 7 days" in each for each in one.said)
    assert browser.get("/agents?range=ever").status == 200
