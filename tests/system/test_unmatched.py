"""What a name in the configuration protects is checked to exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.sync import Client
from tests import forking
from tests.system.hosting import Host, agtp, free_port, running, sample, until

TYPO = """
[mcp.server.tools.list_fils]
enabled = false
"""

STRANGERS = """
[audit]
operators = ["%s"]
[policies.zones]
"zone:nowhere" = ["zone:elsewhere"]
[policies.methods]
disallow = ["FROBNICATE"]
aliases = { HEAD = "QUERY", POST = "TRANSLATE" }
[[policies.methods.redirects]]
from_method = "FETCH"
to_method = "ECHO"
to_path = "/nowhere"
[[policies.methods.redirects]]
from_method = "FETCH"
from_path = "/text"
to_method = "ECHO"
[policies.oauth]
required_on_methods = ["FROBNICATES"]
[[policies.scope_dimensions]]
name = "one-list"
method = "ECHO"
parameter = "txet"
allowed = ["x"]
[[policies.scope_dimensions]]
name = "no-endpoint"
method = "TRANSLATE"
path = "/nowhere"
parameter = "text"
allowed = ["x"]
[[policies.scope_dimensions]]
name = "of-a-built-in"
method = "QUERY"
path = "/"
parameter = "max_result"
maximum = 5
[notify.people]
usr-cfo = "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"
[notify.groups]
finance = ["librarian", "operator", "demo", "nobody-at-all"]
librarian = ["operator"]
[identity.registrars]
"zone:unseen" = []
[gateway]
listen = "unix:gateway.sock"
""" % ("ab" * 32)

FITTING = """
[policies.methods]
disallow = ["TRANSLATE"]
aliases = { HEAD = "QUERY" }
[[policies.methods.redirects]]
from_method = "FETCH"
from_path = "/books"
to_method = "QUERY"
to_path = "/library/1"
[[policies.scope_dimensions]]
name = "one-list"
method = "ECHO"
parameter = "text"
allowed = ["x"]
[[policies.scope_dimensions]]
name = "of-a-built-in"
method = "QUERY"
path = "/"
parameter = "max_results"
maximum = 5
[[policies.scope_dimensions]]
name = "of-a-tool"
method = "EXECUTE"
parameter = "anything"
maximum = 5
[notify.groups]
finance = ["librarian", "operator"]
"""

STRICT = ("timeout = 30", 'timeout = 30\nunmatched_rules = "off"')


@pytest.mark.parametrize("strict", [False, True])
def test_a_typo_in_a_rule_is_told_and_closes_where_it_has_to(tmp_path: Path, strict: bool) -> None:
    """In the log, in ``upstreams ls``; where rules must match, nothing of the server can be called."""
    config = sample(tmp_path, edit=[STRICT] if strict else [], append=TYPO, eager=True)
    with running(config) as host:
        sentence = "rules for 'list_fils' of files, and no tool there has that name (did you mean 'list_files'?)"
        # That it is up is said after its rules were looked at.
        until(lambda: sentence in host.output and " tools)" in host.output)
        assert ("its tools are off until that is fixed" in host.output) is strict
        assert ("0 tools)" in host.output) is strict
        asked = host.agtp("tools", "call", "files.list_files", "--as", "demo")
        assert ("tool-rules-unmatched" in asked.stdout + asked.stderr) is strict, asked.stdout + asked.stderr


@pytest.mark.parametrize("strict", [False, True])
def test_check_asks_the_servers(tmp_path: Path, strict: bool) -> None:
    """Before a start: a note, or an error with what to do; a rule that fits is neither."""
    config = sample(tmp_path, edit=[STRICT] if strict else [], append=TYPO)
    done = agtp("check", str(config), "--ask")
    assert done.returncode == (2 if strict else 0), done.stderr
    assert "did you mean 'list_files'?" in done.stderr
    config.write_text(config.read_text().replace("list_fils", "list_files"))
    done = agtp("check", str(config), "--ask")
    assert done.returncode == 0, done.stderr
    assert "did you mean" not in done.stderr


def test_a_persons_certificate_may_be_outside_of_the_state(tmp_path: Path) -> None:
    """The host needs the key alone; a note is for a key that no certificate of the deployment has."""
    config = sample(tmp_path)
    people = config.parent / "people"
    people.mkdir()
    authority, cfo = people / "ca.pem", people / "cfo.pem"
    for words in (("authority", "CA", "-o", authority), ("client", "cfo", "--ca", authority, "-o", cfo)):
        issued = agtp("cert", "issue", *map(str, words))
        assert issued.returncode == 0, issued.stderr
    key = json.loads(agtp("cert", "show", str(cfo), "--json").stdout)["key_fingerprint"]
    config.write_text(config.read_text() + f'\n[notify.people]\nusr-cfo = "{key}"\n')
    assert "[notify.people]" not in agtp("check", str(config)).stderr
    cfo.rename(tmp_path / "cfo.pem")
    said = agtp("check", str(config)).stderr
    assert f"[notify.people] usr-cfo has {key}, which is the key of no certificate in {config.parent} and" in said, said
    assert "compare with what `agtp cert show FILE` prints" in said


def test_strangers_are_told(tmp_path: Path) -> None:
    """Zones, methods and operators that nothing here has; without them there is no such note."""
    config = sample(tmp_path)
    assert "the key of no certificate" not in agtp("check", str(config)).stderr
    config.write_text(config.read_text() + STRANGERS)
    said = agtp("check", str(config))
    for pattern in (
        "the key of no certificate",
        "zone:nowhere",
        "zone:elsewhere",
        "disallow: FROBNICATE is not in catalog",
        "required_on_methods names FROBNICATES,",
        r"one-list: ECHO has no parameter 'txet' here \(did you mean 'text'\?\)",
        r"\[gateway\] has no clients, so that each call is answered 401; add \[\[http.client\]\]",
        "aliases: POST leads to TRANSLATE, which nothing here",
        "FETCH leads to ECHO /nowhere, which nothing here",
        "no-endpoint: nothing here is bound to TRANSLATE /nowhere",
        r"of-a-built-in: QUERY has no parameter 'max_result' here \(did you mean 'max_results'\?\)",
        r"\[notify.people\] usr-cfo has cdcd",
        "finance names demo, but names reach only hosted agents: .* write its Agent-ID, [0-9a-f]{64}",
        r"\[notify\] librarian is the name of a hosted agent too",
        "finance names nobody-at-all, which is neither a known agent",
        "zone:unseen: no agent known here",
    ):
        assert re.search(pattern, said.stderr), said.stderr
    assert not re.search("names (librarian|operator),|HEAD|ECHO /text", said.stderr)


def test_rules_that_fit_are_no_strangers(tmp_path: Path) -> None:
    """The control: each kind with names that there are."""
    config = sample(tmp_path)
    agtp("check", str(config))
    before = agtp("check", str(config)).stderr
    config.write_text(config.read_text() + FITTING)
    assert agtp("check", str(config)).stderr == before


FULL = Path(__file__).with_name("offering_server.py")
"""A server on the official SDK with a tool, a prompt, a resource and a template."""

SLIPS = {
    "tool": ('[mcp.server.tools.sendd]\nscopes = ["mail:send"]', "tool 'sendd'", "send"),
    "pin": (f'[mcp.server.pins]\nsedn = "{"0" * 64}"', "tool 'sedn'", "send"),
    "prompt": ('[mcp.server.prompts.summarise]\nscopes = ["mail:read"]', "prompt 'summarise'", "summarize"),
    "resource": ('[mcp.server.resources."note://inbx"]\nenabled = false', "resource 'note://inbx'", "note://inbox"),
    "resources": ('[mcp.server.resources."note:secret/*"]\nenabled = false', "resource 'note:secret/*'", ""),
}
"""A rule with a slip in it; how it is told; and the name that is meant, where one is close."""

SOUND = """
[mcp.server.tools.send]
scopes = ["mail:send"]
[mcp.server.prompts.summarize]
scopes = ["mail:read"]
[mcp.server.resources."note://inbox"]
enabled = false
[mcp.server.resources."note://box/7"]
enabled = false
[mcp.server.resources."note://box/*"]
scopes = ["mail:read"]
"""


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A production host as init makes it, in front of one MCP server; its ``host.toml``."""
    folder = tmp_path_factory.mktemp("strict") / "work"
    server = f"mail={shlex.join(forking.mcp_server(FULL))}"
    words = ("--production", "--server-id", "localhost", "--port", str(free_port()), "--mcp", server)
    done = agtp("init", str(folder), *words)
    assert done.returncode == 0, done.stderr
    done = agtp("agent", "new", "reader", "--scope", "*:*", "--scope", "inspect:all", "--owner", "owner", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "host.toml"


def reach(host: Host) -> dict[str, tuple[int, str]]:
    """Status and reason of using each thing that the server has, by a caller who may use all of it."""
    folder = host.config.parent / "state" / "agents" / "reader"
    found: dict[str, tuple[int, str]] = {}
    with Client(
        trust=host.config.parent / "state" / "ca.pem", cert=folder / "agent.pem", key=folder / "agent.key"
    ) as client:

        def execute(action: str, payload: dict[str, Any]) -> Any:
            given = {"action": action, "payload_type": "application/vnd.mcp.tools+json", "payload": payload}
            return client.call(host.uri, "EXECUTE", "/mcp/mail", given)

        for name, action, payload in (
            ("tool", "mcp.tools.call", {"tool": "send", "arguments": {}}),
            ("prompt", "mcp.prompts.get", {"prompt": "summarize"}),
            ("resource", "mcp.resources.read", {"uri": "note://other"}),
            ("templated", "mcp.resources.read", {"uri": "note://box/8"}),
        ):
            reply = execute(action, payload)
            found[name] = reply.status, "" if reply.status == 200 else reply.json()["reason"]
        for name in ("resources", "prompts"):
            listed = execute(f"mcp.{name}.list", {})
            found[f"{name} listed"] = listed.status, str(len(listed.result["mcp_response"][name]))
    return found


OPEN = {
    # It says nothing of its impact, so that a person approves each call.
    "tool": (202, "approval-required"),
    "prompt": (200, ""),
    "resource": (200, ""),
    "templated": (200, ""),
    "resources listed": (200, "2"),
    "prompts listed": (200, "1"),
}
SHUT = {
    **dict.fromkeys(("tool", "prompt", "resource", "templated"), (503, "tool-rules-unmatched")),
    **{f"{name} listed": (200, "0") for name in ("resources", "prompts")},
}


@pytest.mark.parametrize("kinds", [("tool", "pin", "resource", "resources"), ("prompt",)], ids=" ".join)
def test_production_shuts_a_server_whose_rules_fit_nothing(production: Path, kinds: tuple[str, ...]) -> None:
    """By default, for each kind of rule: told at ``check``, in the log, in ``upstreams ls``; nothing is reached."""
    text = production.read_text()
    slips = [SLIPS[kind] for kind in kinds]
    sentences = [f"rules for {told.removeprefix('tool ')} of mail" for _, told, _ in slips]
    closest = [f"(did you mean '{meant}'?)" for _, _, meant in slips if meant]
    try:
        production.write_text("\n".join([text, *(rule for rule, _, _ in slips), ""]))
        asked = agtp("check", str(production), "--ask")
        assert asked.returncode == 2, asked.stdout + asked.stderr
        assert all(each in asked.stderr for each in (*sentences, *closest)), asked.stderr
        with running(production) as host:
            until(lambda: all(each in host.output for each in (*sentences, *closest)))
            assert reach(host) == SHUT
            listed = agtp("upstreams", "ls", "--as", "reader", cwd=production.parent)
            for _, told, _ in slips:
                assert f"the configuration has rules for {told.replace(chr(39), '')}" in listed.stderr
    finally:
        production.write_text(text)


def test_production_serves_where_rules_fit_or_need_not(production: Path) -> None:
    """The control, and the operator's word: ``unmatched_rules = "warn"`` tells and goes on."""
    text = production.read_text()
    try:
        production.write_text(text + SOUND)
        with running(production) as host:
            until(lambda: "1 tools" in host.output)
            assert reach(host) == {**OPEN, "resources listed": (200, "1")}
            assert "has that name" not in host.output
        slip = SLIPS["prompt"]
        production.write_text(f'{text}\nunmatched_rules = "warn"\n{slip[0]}\n')
        with running(production) as host:
            until(lambda: f"rules for {slip[1]} of mail" in host.output)
            assert reach(host) == OPEN
    finally:
        production.write_text(text)


@pytest.mark.parametrize(
    "said",
    [
        "[approvals]\nirreversible = true\n",
        '[mcp.server.tools.send]\napproval = "required"\n',
        '[[a2a.agent]]\nname = "helper"\nurl = "https://helper.example"\napproval = "required"\n',
    ],
    ids=["by rule", "of a tool", "of an agent"],
)
def test_calls_that_nobody_could_approve_are_told(tmp_path: Path, production: Path, said: str) -> None:
    """Operators approve, and none is listed: ``agtp check`` says so, and no more once a scope decides as well."""
    config = tmp_path / "work" / "host.toml"
    shutil.copytree(production.parent, config.parent)
    text = config.read_text().replace('role = "administrator"', 'role = "viewer"')
    by_rule = said.startswith("[approvals]")
    config.write_text(text if by_rule else text.replace("\nirreversible = true\n", "\n", 1) + f"\n{said}")
    remark = "[[operator]] lists no approver"
    # In development the registrar approves then.
    development = sample(tmp_path / "development", append=f"\n{said.replace('send', 'list_files')}")
    assert remark not in agtp("check", str(development)).stderr
    found = agtp("check", str(config))
    assert found.returncode == 0 and remark in found.stdout + found.stderr
    by = 'by = ["operators", "escalation:confirm"]\n'
    text = config.read_text()
    config.write_text(text.replace("[approvals]\n", f"[approvals]\n{by}", 1))
    found = agtp("check", str(config))
    assert found.returncode == 0 and remark not in found.stdout + found.stderr
