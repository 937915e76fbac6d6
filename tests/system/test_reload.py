"""Change without a restart: what is taken, what is refused, and what lives on, at a real host under real calls."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tests.programmes import length
from tests.system.bridging import stdio
from tests.system.hosting import Host, running, until
from tests.system.raw_link import RawLink, client_context, request
from tests.system.reload_host import changing, generation, refused, reload, server, upstreams

ROOM = {"room": "garden", "arrival": "2027-01-01", "departure": "2027-01-02", "guests": 1}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for all; each test leaves it taken, whatever it changed."""
    with running(changing(tmp_path_factory.mktemp("reload"))) as started:
        yield started


def number(link: RawLink) -> int:
    answer = link.ask("FETCH", "/generation", {})
    assert answer.status == 200, answer.body
    told: int = answer.json()["result"]["number"]
    return told


def test_nothing_changed_is_nothing_taken(host: Host) -> None:
    """No record, and exit status 0; what there is stands under ``unchanged``."""
    told = reload(host)
    assert told["taken"] == told["waiting"] == told["problems"] == [] and not told["audit_id"]
    assert {"endpoints", "recipes", "TLS files"} <= set(told["unchanged"])


def test_endpoints_and_their_modules(host: Host) -> None:
    """New code behind an old path, on a connection that stays open; then the endpoint is gone, and there again."""
    folder = host.config.parent
    with RawLink(host) as link:
        assert number(link) == 1
        generation(folder, 2)
        checked = reload(host, "--check")
        assert number(link) == 1, "a check changes nothing"
        told = reload(host)
        assert checked["taken"] == told["taken"] and checked["audit_id"] == "" and told["audit_id"]
        assert any(each.startswith("endpoints (generation.toml") for each in told["taken"])
        assert any(each.startswith("handlers (generation.py, numbering.py") for each in told["taken"])
        assert number(link) == 2
        kept = (folder / "endpoints" / "generation.toml").read_text()
        (folder / "endpoints" / "generation.toml").unlink()
        reload(host)
        assert link.ask("FETCH", "/generation", {}).status in (404, 405, 459)
        (folder / "endpoints" / "generation.toml").write_text(kept.replace('path = "/generation"', 'path = "/other"'))
        reload(host)
        assert link.ask("FETCH", "/other", {}).status == 200
        generation(folder, 2)
        reload(host)
        assert number(link) == 2


def test_a_schema_and_a_scope(host: Host) -> None:
    """What a call needs is another thing from the swap on, for the connection that was there before too."""
    file = host.config.parent / "endpoints" / "rooms.toml"
    good = file.read_text()
    with RawLink(host) as link:
        assert link.ask("BOOK", "/room", {**ROOM, "guests": 3}, Authority_Scope="booking:room").status == 422
        file.write_text(good.replace("maximum = 8", "maximum = 2"))
        reload(host)
        answer = link.ask("BOOK", "/room", {**ROOM, "guests": 3}, Authority_Scope="booking:room")
        assert (answer.status, answer.reason) == (422, "schema-violation") or "guests" in answer.body.decode()
        file.write_text(good.replace('["booking:room"]', '["booking:other"]'))
        reload(host)
        answer = link.ask("BOOK", "/room", ROOM, Authority_Scope="booking:room")
        assert answer.reason in ("scope-required", "scope-claim-invalid")
        file.write_text(good)
        reload(host)
        assert link.ask("BOOK", "/room", ROOM, Authority_Scope="booking:room").status == 200


def test_a_recipe_a_policy_and_a_limit(host: Host) -> None:
    """A recipe answers otherwise, a method is not admitted any more, a rate is another; all on the same connection."""
    recipes, text = host.config.with_name("recipes.toml"), host.config.read_text()
    good = recipes.read_text()
    asked = {"isbn": "9780141439518", "room": "garden", "arrival": "2027-03-01", "departure": "2027-03-02"}
    scopes = {"Authority_Scope": "documents:query, booking:room"}
    with RawLink(host) as link:
        before = link.ask("BOOK", "/reading", asked, **scopes)
        assert before.status == 200, before.body
        recipes.write_text(good.replace('title = "=book.title"', 'title = "=book.author"'))
        assert any(each.startswith("recipes") for each in reload(host)["taken"])
        after = link.ask("BOOK", "/reading", {**asked, "arrival": "2027-03-02", "departure": "2027-03-03"}, **scopes)
        assert after.status == 200, after.body
        assert after.json()["result"]["title"] == before.json()["result"]["author"]
        recipes.write_text(good)
        host.config.write_text(text + '\n[policies.methods]\ndisallow = ["ECHO"]\n')
        try:
            assert link.ask("ECHO", "/text", {"text": "before"}).status == 200
            reload(host)
            assert link.ask("ECHO", "/text", {"text": "after"}).status in (405, 459)
            host.config.write_text(text + "\n[limits]\nrequests_per_minute = 1\n")
            reload(host)
            assert {link.ask("ECHO", "/text", {"text": "again"}).status for _ in range(4)} >= {429}
        finally:
            host.config.write_text(text)
        reload(host)
        assert link.ask("ECHO", "/text", {"text": "as before"}).status == 200


@pytest.mark.release
def test_servers_behind_the_host(host: Host) -> None:
    """A new one is up, a changed one is another, one taken out is gone; what did not change goes on as it was."""
    good = host.config.read_text()
    assert host.agtp("agent", "new", "auditor", "--scope", "inspect:all").returncode == 0
    assert any(each == "agents (auditor)" for each in reload(host)["taken"])
    try:
        host.config.write_text(good + server("steady") + server("second"))
        told = reload(host)
        assert any("[mcp]" in each for each in told["taken"])
        before = upstreams(host)
        assert before["steady"]["state"] == before["second"]["state"] == "up"
        assert host.agtp("tools", "call", "steady.list_files").returncode == 0
        counted = upstreams(host)["steady"]["calls"]["ok"]
        host.config.write_text(good + server("steady") + server("second", "timeout = 7") + server("third"))
        reload(host)
        after = upstreams(host)
        assert set(after) == {"files", "steady", "second", "third"}
        assert after["steady"]["calls"]["ok"] == counted, "it is the same one"
        assert after["steady"]["pid"] == before["steady"]["pid"] != after["second"]["pid"]
        assert after["second"]["pid"] != before["second"]["pid"]
        assert after["steady"]["up_for"] > before["steady"]["up_for"]
        assert after["second"]["up_for"] < after["steady"]["up_for"], "it is another one"
        assert host.agtp("tools", "call", "third.list_files").returncode == 0
    finally:
        host.config.write_text(good)
    reload(host)
    assert set(upstreams(host)) == {"files"}
    assert host.agtp("tools", "call", "steady.list_files").returncode == 1


@pytest.mark.release
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_session_of_an_mcp_client_lives_on(host: Host, mode: str) -> None:
    """The official client at the bridge: the same session calls what was there, and finds what is new."""
    good = host.config.read_text()

    async def story() -> None:
        async with Client(stdio(host, "--as", "demo"), mode=mode) as mcp:
            before = {tool.name for tool in (await mcp.list_tools()).tools}
            host.config.write_text(good + server("later"))
            await anyio.to_thread.run_sync(reload, host)
            # A list may be kept for five seconds, the bridge says.
            after = {tool.name for tool in (await mcp.list_tools(cache_mode="refresh")).tools}
            assert {name for name in after - before if name.startswith("later__")}, (before, after)
            for name in ("files__list_files", "later__list_files"):
                answer = await mcp.call_tool(name, {})
                assert not answer.is_error and "welcome.txt" in str(answer.content), answer

    try:
        anyio.run(story)
    finally:
        host.config.write_text(good)
    reload(host)


def test_a_call_that_runs_ends_by_what_it_began_under(host: Host, tmp_path: Path) -> None:
    """Its endpoint is gone meanwhile, and it ends as if nothing had been."""
    folder, done = host.config.parent, tmp_path / "done"
    file = folder / "endpoints" / "wait.toml"
    kept = file.read_text()
    with RawLink(host) as link:
        link.send(request("FETCH", "/wait", {"begun": str(tmp_path / "begun"), "file": str(done)}))
        until((tmp_path / "begun").exists)
        file.unlink()
        try:
            reload(host)
            with RawLink(host) as other:
                assert other.ask("FETCH", "/wait", {}).status in (404, 405, 459)
            done.touch()
            answer = link.answer()
            assert answer is not None and answer.status == 200 and answer.json()["result"] == {"done": True}
            assert link.ask("FETCH", "/wait", {}).status in (404, 405, 459)
        finally:
            file.write_text(kept)
        reload(host)


def test_what_is_agreed_lives_on(host: Host) -> None:
    """A contract of the connection, proposed before, is called after, in its session; who was stopped is out."""
    proposal = json.loads((host.config.parent / "proposals" / "catalogue.json").read_text())
    with RawLink(host) as link:
        named = {"Authority_Scope": "documents:query", "Session_ID": "before-and-after"}
        agreed = link.ask("PROPOSE", "/", {"parameters": {"endpoint": proposal}}, **named)
        assert agreed.status == 263, agreed.body
        before = link.ask("FIND", "/catalogue/978-0-14-143951-8", {}, **named)
        generation(host.config.parent, 3)
        reload(host)
        after = link.ask("FIND", "/catalogue/978-0-14-143951-8", {}, **named)
        assert (before.status, before.reason) == (after.status, after.reason), (before.body, after.body)
        assert agreed.json()["synthesis_id"] in link.ask("DISCOVER", "/contracts", {}).body.decode()
        assert number(link) == 3
        assert host.agtp("agent", "deactivate", "demo", "--reason", "a test").returncode == 0
        try:
            generation(host.config.parent, 4)
            reload(host)
            assert link.ask("FETCH", "/generation", {}).reason == "agent-suspended"
        finally:
            assert host.agtp("agent", "reinstate", "demo", "--reason", "a test").returncode == 0
    with RawLink(host) as link:
        assert number(link) == 4


BROKEN: dict[str, tuple[str, Callable[[str], str], str]] = {
    "host.toml": ("host.toml", lambda text: text.replace("[policies]", "[policies"), "host.toml"),
    "key": ("host.toml", lambda text: text.replace("python_path", "python_paths"), "host.toml"),
    "endpoint": ("endpoints/rooms.toml", lambda text: text.replace("handlers.rooms.book", "handlers.rooms.b"), "rooms"),
    "schema": ("endpoints/text.toml", lambda text: text.replace('type = "string", m', 'type = "strng", m'), "text"),
    "module": ("handlers/generation.py", lambda text: text + "\nnonsense(\n", "generation.py"),
    "imported": ("handlers/numbering.py", lambda text: text + "\nraise RuntimeError('no')\n", "numbering.py"),
    "recipe": ("recipes.toml", lambda text: text + "\n[nonsense\n", "recipes.toml"),
    "agent": ("agents/librarian.agent.json", lambda text: text[:-3], "librarian.agent.json"),
    "certificate": ("state/server.pem", lambda text: text[:200], "server.pem"),
    "server": ("host.toml", lambda text: text + server("files"), "host.toml"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_candidate_changes_nothing(host: Host, kind: str) -> None:
    """Refused whole, with the file; a sound change beside it is not taken either, and calls go on."""
    folder = host.config.parent
    name, breaking, blamed = BROKEN[kind]
    good, text = (folder / name).read_text(), (folder / "library.txt")
    other = folder / "endpoints" / "library.toml"
    sound = other.read_text()
    assert not text.exists() and breaking(good) != good
    with RawLink(host) as link:
        before = link.ask("FETCH", "/generation", {}).json()["result"]
        (folder / name).write_text(breaking(good))
        other.write_text(sound.replace('description = "', 'description = "Really, ', 1))
        try:
            problems = refused(host, by_signal=name == "host.toml")
        finally:
            (folder / name).write_text(good)
            other.write_text(sound)
        assert any(blamed in each.get("file", "") for each in problems), problems
        if kind not in ("certificate", "module", "agent"):
            assert all(each.get("line") for each in problems if blamed in each.get("file", "")), problems
        assert link.ask("FETCH", "/generation", {}).json()["result"] == before
    reload(host)


@pytest.mark.parametrize("check", [False, True])
def test_a_reload_that_is_not_taken_issues_no_agent(host: Host, check: bool) -> None:
    """The files of the agent stayed, and the next reload admitted it, also without its description."""
    folder = host.config.parent
    described, endpoint = folder / "agents" / "ghost.agent.json", folder / "endpoints" / "library.toml"
    sound = endpoint.read_text()
    described.write_text('{"name": "ghost", "description": "x"}')
    try:
        if not check:
            endpoint.write_text(f"{sound}broken\n")
        done = host.agtp("reload", *(["--check"] if check else []))
        assert done.returncode == (0 if check else 1), done.stdout + done.stderr
    finally:
        described.unlink()
        endpoint.write_text(sound)
    assert not (host.state / "hosted" / "ghost").exists()
    reload(host)
    assert "ghost" not in host.agtp("agent", "ls").stdout


def test_who_asks_is_on_record(host: Host) -> None:
    """Taken and refused ones, in words, and only operators ask."""
    generation(host.config.parent, 6)
    told = reload(host)
    explained = host.agtp("explain", told["audit_id"])
    assert explained.returncode == 0, explained.stderr
    assert f"The configuration was changed: {', '.join(told['taken'])}." in explained.stdout
    assert "asked by operator, by the key" in explained.stdout and told["digest"] in explained.stdout
    assert told["digest"] == _digest(host)
    walked = host.agtp("audit", "walk", "host")
    assert "The new configuration was refused because of" in walked.stdout, walked.stdout + walked.stderr
    assert " 1 problems" not in walked.stdout
    stranger = host.agtp("reload", "--as", "demo")
    assert stranger.returncode == 1 and "operators" in stranger.stderr


def _digest(host: Host) -> str:
    from agtphost.config import load
    from agtphost.host.reload_plan import digest_of, inventory
    from agtphost.protocols import ServerTLS

    config = load(host.config, {})
    modules = [host.config.parent / "handlers" / f"{name}.py" for name in ("__init__", "generation", "numbering")]
    modules += [host.config.parent / "handlers" / f"{name}.py" for name in ("library", "rooms", "text", "waiting")]
    return digest_of(config, inventory(config, ServerTLS.load(config.tls), modules))


class Caller(threading.Thread):
    """Calls without a pause on one connection; each answer has to be of one configuration."""

    def __init__(self, host: Host, pause: float) -> None:
        super().__init__(daemon=True)
        self._link = RawLink(host, context=client_context(host))
        self._pause = pause
        self.over = threading.Event()
        self.seen: list[int] = []
        self.wrong: list[bytes] = []

    def run(self) -> None:
        due = time.monotonic()
        while not self.over.is_set():
            try:
                answer = self._link.ask("FETCH", "/generation", {})
            except (OSError, AssertionError) as error:
                self.wrong.append(repr(error).encode())
                return
            if answer.status == 200:
                self.seen.append(answer.json()["result"]["number"])
            else:
                self.wrong.append(answer.body)
            due = max(due + self._pause, time.monotonic() - 1.0)
            self.over.wait(max(due - time.monotonic(), 0.0))


def rss(host: Host) -> int:
    """Kibibytes."""
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


@pytest.mark.programme
def test_no_call_is_dropped_and_none_is_mixed(tmp_path: Path) -> None:
    """
    Reloads while calls come: each is answered by a handler and a schema of one number, and numbers never go back.

    200 reloads at 500 calls a second as a programme; the chain holds afterwards, and memory is what it was.
    """
    reloads, callers, rate = length((6, 2, 60), (200, 8, 500))
    with running(changing(tmp_path)) as host:
        working = [Caller(host, callers / rate) for _ in range(callers)]
        for each in working:
            each.start()
        size, began = 0, time.monotonic()
        for count in range(2, 2 + reloads):
            generation(host.config.parent, count)
            assert reload(host)["generation"] == count
            if count == max(reloads // 4, 2):
                size = rss(host)
        seconds = time.monotonic() - began
        # Each makes a call under the last one, however busy the machine is.
        until(lambda: all(each.wrong or (each.seen and each.seen[-1] == 1 + reloads) for each in working))
        for each in working:
            each.over.set()
        for each in working:
            each.join(120)
        seen = [each.seen for each in working]
        print(
            f"{sum(map(len, seen)) / seconds:.0f} calls/s, {reloads / seconds:.2f} reloads/s, {size} -> {rss(host)} KiB"
        )
        assert [each.wrong for each in working] == [[]] * callers
        assert all(numbers == sorted(numbers) and numbers[-1] == 1 + reloads for numbers in seen)
        assert rss(host) < size * 1.2 + length(20_000, 5_000)
        verified = host.agtp("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_mixed_call_would_be_noticed(host: Host) -> None:
    """The control: a handler of one number under a declaration of another is no good answer."""
    (host.config.parent / "handlers" / "numbering.py").write_text("NUMBER = 99\n")
    try:
        reload(host)
        with RawLink(host) as link:
            assert link.ask("FETCH", "/generation", {}).status == 500
    finally:
        generation(host.config.parent, 7)
        reload(host)
