"""Commands that talk to a running host, while its host.toml has a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agtphost.contract.reserved import CONFIGURATION
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer
from tests.programmes import sampled

SOUND = """[host]
server_id = "localhost"
profile = "development"

[listen]
port = {port}

[identity]
trusted_issuers = []

"""

BROKEN = {
    "unknown-key": "[mcp]\nsrever = 1\n",
    "misspelt-key": "[audit]\noperaters = []\n",
    "unknown-section": "[montoring]\nlisten = 9\n",
    "unknown-list": '[[oprator]]\nname = "anna"\n',
    "wrong-type": '[limits]\nconnections = "many"\n',
    "wrong-type-of-section": "metrics = 5\n",
    "text-for-a-list": '[audit]\noperators = "all"\n',
    "out-of-bounds": "[audit]\nrefusal_records_per_agent = 0\n",
    "wrong-choice": '[audit]\nread_acl = "everyone"\n',
    "missing-file": '[catalog]\npath = "no/such/catalog.json"\n[tls]\ncertificate = "absent.pem"\n',
    "missing-secret": '[store]\npassword = "env:NO_SUCH_VARIABLE"\n',
    "missing-member": "[[mcp.server]]\ntimeout = 3\n",
    "contradiction": '[audit]\nread_acl = "operator_only"\n',
    "fault-in-a-list": '[[grant]]\nagent = 5\n[[grant]]\nagent = "x"\n',
    "unclosed-text": '[metrics]\nlisten = "tcp:9090\n',
    "no-value": "[metrics]\nlisten =\n",
    "unclosed-list": '[audit]\nwitnesses = ["agtp://w.example.com"\nsigning = true\n',
    "broken-header": "[metrics\nport = 2\naddress = 'nowhere.example'\n",
    "set-twice": "[metrics]\nurl = 1\nurl = 2\n[metrics]\nx = 1\n",
    "conflict-marks": "<<<<<<< HEAD\n[gateway]\n=======\n[registry]\n>>>>>>> branch\n",
    "garbage": ")))) !!!\n\\\n",
    "open-list": '[audit]\nwitnesses = [\n  "agtp://w.example.com",\n  "agtp://v.example.com"\nsigning = true\n',
    "not-utf-8": '[agis]\ntitle = "caf\udce9"\n',
    "word-processor": "[metrics]\nlisten = \u201ctcp:9090\u201d\n",
}

COMMANDS = {
    "revoke": ("agent", "revoke", "demo", "--reason", "stolen"),
    "deactivate": ("agent", "deactivate", "demo"),
    "status": ("status",),
    "approvals": ("approvals", "ls"),
    "reload": ("reload",),
    "tools": ("tools", "ls"),
    "call": ("call", "-", "QUERY", "/room"),
    "inspect": ("call", "-", "INSPECT", "/", "target=vitals"),
    "walk": ("audit", "walk", "demo"),
    "follow": ("audit", "get", "ab" * 32),
    "page": ("page",),
    "can": ("can", "demo", "QUERY", "/room"),
}


def break_file(server: AgtpServer, kind: str) -> None:
    """Write a host.toml with one fault."""
    text = SOUND.format(port=server.port) + BROKEN[kind]
    if kind == "wrong-type-of-section":
        text = BROKEN[kind] + SOUND.format(port=server.port)
    Path("host.toml").write_bytes(text.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("kind", sampled(BROKEN, 2))
def test_every_command_reaches_the_host_with_a_broken_file(run: Run, server: AgtpServer, kind: str) -> None:
    """Each command sends its request, and warns once with the file and the line of the fault."""
    break_file(server, kind)
    for name, words in COMMANDS.items():
        before = len(server.seen)
        result = run(*words)
        assert len(server.seen) > before, (name, result.output)
        assert result.stderr.count("warning: ") == 1, (name, result.stderr)
        assert "host.toml:" in result.stderr, (name, result.stderr)


@pytest.mark.parametrize("kind", sampled(BROKEN, 4))
def test_every_command_reaches_a_named_host_with_a_broken_file(run: Run, server: AgtpServer, kind: str) -> None:
    """With --uri too: the file's authority and certificates are used for the host of this machine."""
    break_file(server, kind)
    for name in ("revoke", "status", "approvals", "reload", "page"):
        before = len(server.seen)
        result = run(*COMMANDS[name], "--uri", f"agtp://127.0.0.1:{server.port}")
        assert len(server.seen) > before, (name, result.output)
        assert result.stderr.count("warning: ") == 1, (name, result.stderr)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("[listen]\nport = 'x'\n", ["--uri"]),
        ("[listen\nport = 4490\n", ["--uri"]),
        ("[listen]\nprot = 4490\n", ["--uri"]),
        ("[listen]\nport 4490\n", ["--uri"]),
        ("[host]\nstate_dir = 5\n[listen]\nport = PORT\n", ["--cacert", "--cert"]),
        ('[host]\nstate_dir = "elsewhere\n[listen]\nport = PORT\n', ["--cacert", "--cert"]),
        ("[listen]\nport = 4490\nport = 4491\n", ["--uri"]),
        ("= 5\n", ["--uri", "--cacert", "--cert"]),
    ],
)
def test_fault_in_a_needed_key_names_the_options_that_replace_it(
    run: Run, server: AgtpServer, text: str, options: list[str]
) -> None:
    """No default is taken for a key that the file sets wrongly; with the options the command reaches the host."""
    Path("host.toml").write_text(text.replace("PORT", str(server.port)))
    server.answers["INSPECT", "/"] = Answer({"status": 200, "result": {}})
    result = run("status")
    assert result.exit_code == 2 and "warning" not in result.stderr, result.output
    assert not server.seen
    for option in ("--uri", "--cacert", "--cert"):
        assert (f"{option} " in result.stderr) == (option in options), result.stderr
    assert "host.toml:" in result.stderr
    given = {
        "--uri": f"agtp://127.0.0.1:{server.port}",
        "--cacert": "state/ca.pem",
        "--cert": "state/registrar.pem",
    }
    named = run("status", *(word for option in options for word in (option, given[option])))
    assert server.seen, named.output


@pytest.mark.parametrize(
    "text",
    [
        "[listen]\nport = 'x'\n",
        "[listen]\nport = 99999\n",
        "[listen]\nport = 4490\n[listen]\nport = 4491\n",
        "[host]\nstate_dir = 5\n",
        '[tls]\nclient_ca = "absent.pem"\n',
        '[identity]\nknown_agents = "absent"\n',
        "listen:\n  port: 4480\n",
        "",
        '[host]\nserver_id = "localhost"\nprofile = "deve',
        '[host]\nserver_id = "localhost"\n\n[listen]\nport',
    ],
)
def test_fault_in_a_needed_key_leaves_the_host_that_was_read_before(
    run: Run, server: AgtpServer, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a command with the sound file, the address and the files are those; a note says so."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for port in (server.port, 4499, server.port):
        Path("host.toml").write_text(SOUND.format(port=port))
        assert "warning" not in run("reload").stderr
    Path("host.toml").write_text(text)
    for name in ("revoke", "status", "approvals", "reload", "tools", "walk", "can"):
        before = len(server.seen)
        result = run(*COMMANDS[name])
        assert len(server.seen) > before, (name, result.output)
        assert result.stderr.count(f"note: the host is agtp://127.0.0.1:{server.port}, with the files in ") == 1, name


@pytest.mark.parametrize(
    "text",
    [
        "[host]\nstate_dir = 5\n[listen]\nport = 4499\n",
        '[host]\nstate_dir = "other"\n[listen]\nport = "x"\n',
        '[listen]\nport = "x"\naddress = "127.0.0.9"\n',
        '[identity]\nknown_agents = "other"\n[listen]\nport = "x"\n',
    ],
)
def test_file_of_another_host_leads_to_none_that_was_read_before(
    run: Run, server: AgtpServer, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the faulty file says differs from the former host: nothing is sent there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("other").mkdir()
    Path("host.toml").write_text(SOUND.format(port=server.port))
    assert run("reload").stderr.count("warning") == 0
    Path("host.toml").write_text(text)
    before = len(server.seen)
    result = run("agent", "revoke", "ab" * 32, "--reason", "stolen")
    assert len(server.seen) == before and result.exit_code == 2, result.output
    assert "the host is agtp://" not in result.stderr


@pytest.mark.parametrize("moved", ["link", "directory"])
def test_another_file_of_the_same_name_leads_to_no_host_that_was_read_before(
    run: Run, server: AgtpServer, moved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that leads elsewhere now, and a directory that took the place of another, have no former reading."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("a").mkdir()
    sound = f"{SOUND}[tls]\nclient_ca = '{Path('state').absolute()}/ca.pem'\n".format(port=server.port)
    (Path("a") / "host.toml").write_text(sound)
    (Path("a") / "broken.toml").write_text("listen:\n")
    Path("host.toml").unlink()
    file = Path("host.toml")
    if moved == "link":
        file.symlink_to("a/host.toml")
    else:
        file = Path("a/host.toml")
    words = ("reload", "--config", str(file), "--cert", "state/registrar.pem", "--key", "state/registrar.key")
    run(*words)
    assert server.seen
    if moved == "link":
        file.unlink()
        file.symlink_to("a/broken.toml")
    else:
        Path("a").rename("b")
        Path("a").mkdir()
        file.write_text("listen:\n")
    before = len(server.seen)
    result = run(*words)
    assert len(server.seen) == before and "--uri agtp://" in result.stderr, result.output


@pytest.mark.parametrize("more", ["prot = 3\n", "adress = 5\n", "prot = 3\nadress = 5\n"])
def test_unknown_key_hides_no_key_that_is_set(run: Run, server: AgtpServer, more: str) -> None:
    """It cannot have been meant for the port or the address, which the file has as well."""
    text = SOUND.format(port=server.port).replace("[listen]\n", f'[listen]\n{more}address = "127.0.0.1"\n')
    Path("host.toml").write_text(text)
    result = run("reload")
    assert server.seen and result.stderr.count("warning: ") == 1, result.output


@pytest.mark.parametrize(
    "more",
    [
        '[host]\noperator = "x"\n',
        "[listen]\n[identity]\n",
        "[listen]\nport = PORT # as above\n",
        '[host]\nserver_id = "another"\n[host]\ncontact = "x"\n',
    ],
)
def test_table_that_is_there_twice_hides_no_other_key(run: Run, server: AgtpServer, more: str) -> None:
    """Keys that contradict each other are unknown, not their whole table; equal values contradict nothing."""
    Path("host.toml").write_text(f"{SOUND}{more}".replace("PORT", "{port}").format(port=server.port))
    result = run("reload")
    assert server.seen and result.stderr.count("warning: ") == 1, result.output
    Path("host.toml").write_text(f"{SOUND}[listen]\nport = 4499\n".format(port=server.port))
    assert "--uri agtp://" in run("reload").stderr


def test_lines_of_another_system_are_lines(run: Run, server: AgtpServer) -> None:
    """A file with CR LF is as sound as one with LF."""
    text = f"{SOUND}{BROKEN['no-value']}".format(port=server.port)
    Path("host.toml").write_bytes(text.replace("\n", "\r\n").encode())
    result = run("reload")
    assert server.seen and result.stderr.count("warning: ") == 1, result.output


def test_second_broken_header_is_noticed(run: Run, server: AgtpServer) -> None:
    """Its keys are unknown as well: no default takes their place."""
    Path("host.toml").write_text("[host]\nserver_id = 'localhost'\n[metrics\nport = 1\n[listen\nport = 4499\n")
    result = run("status")
    assert result.exit_code == 2 and "--uri agtp://" in result.stderr, result.output


def test_unreadable_file_names_the_options_that_replace_it(run: Run, server: AgtpServer) -> None:
    """A directory in place of the file is not read at all; the options take its place."""
    given = ("--uri", f"agtp://127.0.0.1:{server.port}", "--cacert", "state/ca.pem", "--cert", "state/registrar.pem")
    Path("host.toml").unlink()
    Path("host.toml/host.toml").mkdir(parents=True)
    refused = run("reload", "--config", "host.toml")
    assert refused.exit_code == 2
    result = run("reload", "--config", "host.toml", *given)
    assert server.seen, (result.output, refused.output)


def test_sound_file_warns_of_nothing(run: Run, server: AgtpServer) -> None:
    """No warning where the file has no fault."""
    assert "warning" not in run("reload").stderr
    assert server.seen


def test_keys_below_a_broken_header_do_not_join_the_table_above(run: Run, server: AgtpServer) -> None:
    """A lost table gives its keys to no other."""
    text = SOUND.format(port=server.port).replace("[identity]", "[metrics\naddress = 'nowhere.example'\n[identity]")
    Path("host.toml").write_text(text)
    run("reload")
    assert server.seen


@pytest.mark.parametrize(
    "text",
    [
        '[store]\nur1 = "postgresql://host@db/agtp"\n',
        "[store]\nurl = 5\n",
        "[store\n",
        '[database]\nurl = "postgresql://host@db/agtp"\n',
        '[[operator]]\nname = "anna"\nkey = "state/anna.pem"\nrole = "viewer"\nurl = "sqlite:other.sqlite3"\n',
        '[gateway]\nurl = "postgresql://host@db/agtp"\n',
    ],
)
def test_a_fault_in_the_table_of_the_store_leads_to_no_other_store(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """
    With a misspelt key the file below the state directory was read, which may be one that was left behind.

    The URL of a store tells what its key was meant for, wherever it is.
    """
    monkeypatch.chdir(tmp_path)
    Path("host.toml").write_text(SOUND.format(port=1) + text)
    for words in (("audit", "verify"), ("audit", "search", "--offline"), ("agent", "grants")):
        result = run(*words)
        assert result.exit_code == 2 and "the configuration has " in result.stderr, (words, result.output)
        assert "warning" not in result.stderr, "the command does not go on"


def test_a_server_of_a_database_hides_no_store(run: Run, server: AgtpServer) -> None:
    """Its command and its name have the words of a store's URL; another fault of its entry hides nothing."""
    entry = '[[mcp.server]]\nname = "postgres"\ncommand = ["pg-mcp", "postgresql://localhost/db"]\ntimout = 5\n'
    Path("host.toml").write_text(SOUND.format(port=server.port) + entry)
    result = run("agent", "grants")
    assert result.exit_code == 0 and "warning: " in result.stderr, result.output


@pytest.mark.parametrize("text", ['[listen]\nport = 1\nstate_dir = "elsewhere"\n', "state_dir = 5\n"])
def test_a_key_below_the_wrong_header_leads_to_no_other_store(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The hint names its table, so the commands take no default in its place."""
    monkeypatch.chdir(tmp_path)
    Path("host.toml").write_text(f'{text}[host]\nserver_id = "localhost"\nprofile = "development"\n')
    for words in (("audit", "verify"), ("audit", "search", "--offline"), ("agent", "show", "demo"), ("page",)):
        result = run(*words)
        assert result.exit_code == 2 and "state_dir is unknown" in result.stderr, (words, result.output)
        assert "[host]" in result.stderr.partition("error: ")[2], (words, result.stderr)


HIDDEN = "[identity]\nagents = 5\n"
"""A fault that hides the agents whose files the operator placed."""


def hide_agents(server: AgtpServer) -> None:
    """Write a host.toml that does not say where the operator placed files of agents."""
    Path("host.toml").write_text(SOUND.replace("[identity]\n", HIDDEN).format(port=server.port))


def test_a_name_in_the_state_directory_is_known_where_a_fault_hides_other_agents(run: Run, server: AgtpServer) -> None:
    """The files in the state directory come first in any case, so that no request is needed for the name."""
    hide_agents(server)
    demo = json.loads(Path("state/agents/demo/document.json").read_text())["agent_id"]
    result = run("agent", "deactivate", "demo")
    assert [each.input["agent_id"] for each in server.seen] == [demo], result.output


def test_the_running_host_names_an_agent_whose_files_a_fault_hides(run: Run, server: AgtpServer) -> None:
    """It knows the agents of ``[identity] agents``; a name that two agents have is refused with both."""
    hide_agents(server)
    listed = [{"name": "runner", "agent_id": "ab" * 32}, {"name": "twin", "agent_id": "cd" * 32}]
    listed.append({"name": "twin", "agent_id": "ef" * 32})
    server.answers["INSPECT", "/"] = Answer({"status": 200, "result": {"agents": listed}})
    result = run("agent", "deactivate", "runner")
    assert server.seen[-1].request.method == "DEACTIVATE", result.output
    assert server.seen[-1].input["agent_id"] == "ab" * 32
    assert f"note: runner is {'ab' * 32}" in result.stderr
    shared, absent = run("agent", "deactivate", "twin"), run("agent", "deactivate", "nobody")
    assert server.seen[-1].request.method == "INSPECT"
    assert shared.exit_code == 2 and "cd" * 32 in shared.stderr and "ef" * 32 in shared.stderr, shared.output
    assert absent.exit_code == 2 and "[identity] agents must be text" in absent.stderr, absent.output
    assert "64 hexadecimal digits" in absent.stderr


@pytest.mark.parametrize(
    "text",
    ['dir = "/var/lib/agtp"\n', 'data = "elsewhere"\n', '[paths]\ndata_dir = "elsewhere"\n', 'home = "./elsewhere"\n'],
)
def test_a_path_below_an_unknown_key_leads_to_no_other_evidence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The key resembles none, and yet what it names is likely the state directory: the default one proves nothing."""
    monkeypatch.chdir(tmp_path)
    Path("elsewhere").mkdir()
    head = '[host]\nserver_id = "localhost"\nprofile = "development"\n'
    Path("host.toml").write_text(head + text)
    for words in (("audit", "verify"), ("audit", "search", "--offline"), ("agent", "show", "demo")):
        result = run(*words)
        assert result.exit_code == 2 and "is unknown" in result.stderr.partition("error: ")[2], (words, result.output)
    Path("host.toml").write_text(head + 'state_dir = "here"\n' + text)
    assert "is unknown" not in run("audit", "verify").stderr.partition("error: ")[2]
    Path("host.toml").write_text(head + 'bind = "0.0.0.0"\n')
    assert "is unknown" not in run("audit", "verify").stderr.partition("error: ")[2]


def test_refused_reload_names_a_fault_once(run: Run, server: AgtpServer) -> None:
    """The host's refusal replaces the warning; without an answer of the host, the warning or the error names it."""
    break_file(server, "unknown-key")
    problem = {"message": "[mcp] srever is unknown", "file": "host.toml", "line": 9, "hint": "server"}
    server.answers[CONFIGURATION[0]] = Answer(
        {"status": 422, "reason": "configuration-refused", "explanation": "It is refused.", "problems": [problem]}
    )
    refused = run("reload")
    assert refused.exit_code == 1 and "warning" not in refused.stderr
    assert refused.stderr.count("srever is unknown") == 1
    server.answers[CONFIGURATION[0]] = Answer({"status": 403, "reason": "not-entitled", "explanation": "No."}, 403)
    other = run("reload")
    assert other.exit_code == 1 and other.stderr.count("warning: ") == 1
    Path("host.toml").write_text(SOUND.replace("port = ", "prot = ").format(port=4490))
    unknown = run("reload")
    assert unknown.exit_code == 2 and unknown.stderr.count("prot is unknown") == 1
