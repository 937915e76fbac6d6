"""A name that two agents have reaches neither of them: each command lists both by Agent-ID."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agtphost.cli.identities import labels
from agtphost.cli.options import Connection
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer

TWIN = "ab" * 32
COMMANDS = (
    ("agent", "show", "demo"),
    ("agent", "activate", "demo"),
    ("agent", "deactivate", "demo"),
    ("agent", "reinstate", "demo"),
    ("agent", "deprecate", "demo"),
    ("agent", "revoke", "demo", "--reason", "stolen"),
    ("agent", "grants", "demo"),
    ("can", "demo", "QUERY", "/"),
    ("agent", "renew", "demo"),
    ("audit", "walk", "demo"),
    ("audit", "export", "--agent", "demo", "-o", "records.jsonl"),
)
PLACES = ("state/agents/other", "state/hosted/demo")
"""Directories of a second agent: one with the same label in another directory, one with the same directory name."""


def add_twin(place: str, equal: int = 0) -> str:
    """Add an agent with the label and first digits of ``demo``, and return the Agent-ID of ``demo``."""
    shutil.copytree("state/agents/demo", place)
    file = Path(place, "document.json")
    document = json.loads(file.read_text())
    agent_id = str(document["agent_id"])
    other = agent_id[:equal] + ("0" if agent_id[equal] != "0" else "1") + TWIN[equal + 1 :] if equal else TWIN
    file.write_text(json.dumps({**document, "agent_id": other, "name": "demo"}))
    return agent_id


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_a_shared_name_is_refused_with_both_agents(
    words: tuple[str, ...], place: str, server: AgtpServer, run: Run
) -> None:
    """The command names both agents and sends nothing."""
    demo = add_twin(place)
    result = run(*words)
    assert result.exit_code == 2 and "2 agents have the name 'demo'" in result.stderr, result.output
    assert demo in result.stderr and TWIN in result.stderr
    assert server.seen == [] and not Path("records.jsonl").exists()


@pytest.mark.parametrize("place", PLACES)
def test_an_agent_id_means_one_of_two_agents_with_one_name(place: str, server: AgtpServer, run: Run) -> None:
    """The remedy of the refusal works for either agent."""
    for agent_id in (add_twin(place), TWIN):
        result = run("agent", "deactivate", agent_id)
        assert server.seen[-1].input["agent_id"] == agent_id, result.output
        shown = run("agent", "show", agent_id, "--json")
        assert json.loads(shown.stdout)["agent_id"] == agent_id, shown.output


def test_a_copy_of_an_agents_directory_is_the_same_agent(server: AgtpServer, run: Run) -> None:
    """Two directories with one Agent-ID leave no doubt."""
    shutil.copytree("state/agents/demo", "state/agents/demo-copy")
    result = run("agent", "deactivate", "demo")
    assert server.seen[-1].request.method == "DEACTIVATE", result.output


def test_as_takes_the_label_of_an_agent_whose_directory_has_another_name(server: AgtpServer, run: Run) -> None:
    """So do its Agent-ID, the name of the directory, and ``renew``."""
    Path("state/agents/demo").rename("state/agents/other")
    agent_id = json.loads(Path("state/agents/other/document.json").read_text())["agent_id"]
    for name in ("demo", "other", agent_id):
        called = run("call", "-", "QUERY", "/", "--as", name)
        assert server.seen, called.output
        assert server.seen.pop().request.headers.get("agent-id") == agent_id
        renewed = run("agent", "renew", name, "--json")
        assert json.loads(renewed.stdout)["name"] == "other", renewed.output


def test_as_refuses_a_name_that_two_agents_have(server: AgtpServer, run: Run) -> None:
    """A request would be on record as the other agent's; an Agent-ID chooses one."""
    demo = add_twin("state/agents/other")
    refused = run("call", "-", "QUERY", "/", "--as", "demo")
    assert refused.exit_code == 2 and "2 agents have the name 'demo'" in refused.stderr, refused.output
    assert demo in refused.stderr and TWIN in refused.stderr and server.seen == []
    run("call", "-", "QUERY", "/", "--as", demo)
    assert server.seen[-1].request.headers.get("agent-id") == demo


@pytest.mark.parametrize(
    ("words", "member"),
    [
        (("rights", "other"), "agent"),
        (("allow", "other", "files.read_file"), "agent"),
        (("limit", "other", "files.read_file", "--yes"), "subject"),
        (("grant", "other", "files.read_file"), "subject"),
        (("ungrant", "other", "--all"), "subject"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
def test_commands_for_rights_take_the_name_of_a_directory(
    words: tuple[str, ...], member: str, server: AgtpServer, run: Run
) -> None:
    """``agtp agent ls`` lists it; the host knows the label and the Agent-ID alone."""
    Path("state/agents/demo").rename("state/agents/other")
    agent_id = json.loads(Path("state/agents/other/document.json").read_text())["agent_id"]
    result = run("agent", *words)
    assert server.seen, result.output
    assert server.seen[0].input[member] == agent_id
    server.seen.clear()
    run("agent", words[0], "demo", *words[2:])
    assert server.seen[0].input[member] == "demo", "a label goes to the host as it is"


@pytest.mark.parametrize("place", PLACES)
def test_agent_ls_lists_both_agents(place: str, server: AgtpServer, run: Run) -> None:
    """An agent that is not listed cannot be chosen by its Agent-ID."""
    demo = add_twin(place)
    listed = json.loads(run("agent", "ls", "--json").stdout)
    assert {demo, TWIN} <= {entry["agent_id"] for entry in listed}


def test_lists_show_a_shared_name_with_the_beginning_of_the_agent_id(server: AgtpServer, run: Run) -> None:
    """So do all lists of records, and of calls that wait; other names stay as they are."""
    demo = add_twin("state/hosted/demo")
    names = labels(Connection(config=Path("host.toml")))
    assert (names[demo], names[TWIN]) == (f"demo ({demo[:8]}...)", f"demo ({TWIN[:8]}...)")
    assert not any("(" in name for agent_id, name in names.items() if agent_id not in (demo, TWIN))


@pytest.mark.parametrize(("equal", "shown"), [(7, 8), (8, 9), (40, 41)])
def test_lists_show_as_many_digits_as_tell_two_agents_apart(
    equal: int, shown: int, server: AgtpServer, run: Run
) -> None:
    """Who creates an agent can choose its name, and try keys until the first digits are those of another one."""
    demo = add_twin("state/hosted/demo", equal)
    found = [name for name in labels(Connection(config=Path("host.toml"))).values() if name.startswith("demo (")]
    assert len(set(found)) == 2 and f"demo ({demo[:shown]}...)" in found


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_a_name_of_a_list_can_be_given_to_each_command(words: tuple[str, ...], server: AgtpServer, run: Run) -> None:
    """It has been copied from there; digits that two agents share name neither."""
    demo = add_twin("state/hosted/demo", 12)

    def give(name: str) -> str:
        result = run(*(name if word == "demo" else word for word in words), input="y\n")
        return str(result.stdout + result.stderr)

    assert "no agent is named" not in give(f"demo ({demo[:13]}...)")
    assert "2 agents have the name" in give(f"demo ({demo[:12]}...)")


def test_as_takes_a_name_of_a_list(server: AgtpServer, run: Run) -> None:
    """The call is made as that agent and no other."""
    demo = add_twin("state/hosted/demo")
    run("call", "-", "QUERY", "/", "--as", f"demo ({demo[:8]}...)")
    assert server.seen[-1].request.headers.get("agent-id") == demo
    server.seen.clear()
    refused = run("call", "-", "QUERY", "/", "--as", "demo (00000000...)")
    assert refused.exit_code == 2 and server.seen == []
