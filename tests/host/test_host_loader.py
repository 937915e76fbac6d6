"""What a host is made of is read and checked before anything starts; everything that is wrong is said at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from twisted.logger import capturedLogs, formatEvent

from agtphost.contract.reserved import LIFECYCLE as METHODS
from agtphost.errors import ConfigurationError
from agtphost.host.host_loader import RESERVED, load_host
from agtphost.host.reload_plan import inventory
from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import provision_development
from tests.host.hosts import configured, reloaded
from tests.identity.samples import place_agent
from tests.system.hosting import sample


def problems(directory: Path, **options: object) -> list[str]:
    """Every reason why a host does not start."""
    with pytest.raises(ConfigurationError) as caught:
        load_host(configured(directory, **options))  # type: ignore[arg-type]
    return [str(problem) for problem in caught.value.problems]


def test_the_sample_deployment_is_sound(tmp_path: Path) -> None:
    """The samples under ``etc/`` make a host: one hosted agent, the caller demo, three endpoints, TLS and a key."""
    loaded = load_host(configured(tmp_path))
    assert [agent.name for agent in loaded.directory.list_hosted()] == ["librarian"]
    demo = json.loads((tmp_path / "etc/state/agents/demo/document.json").read_text())
    known = loaded.directory.by_id(demo["agent_id"])
    assert known is not None and not known.hosted
    assert len(loaded.endpoints) == len(loaded.bound) == 4
    assert loaded.key is not None


def test_what_was_made_once_is_kept(tmp_path: Path) -> None:
    """A second start makes no new identities."""
    first = load_host(configured(tmp_path))
    second = load_host(reloaded(first.config.file))
    assert first.key is not None and second.key is not None
    assert first.key.kid == second.key.kid
    assert [a.agent_id for a in first.directory.list_hosted()] == [a.agent_id for a in second.directory.list_hosted()]


def test_everything_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    """A broken endpoint, function, agent, policy, key and catalog: six problems, each with its file, in one go."""
    more = '\n[catalog]\npath = "methods.json"\n[policies.methods.aliases]\nQUOTE = "QUERY"\n'
    file = sample(tmp_path, append=more)
    (file.parent / "methods.json").write_text("{}")
    config = reloaded(file)
    provision_development(config.host.state_dir, server_id="localhost", hosted=[])
    etc = tmp_path / "etc"
    (etc / "endpoints" / "text.toml").write_text('method = "QUERY"\n')
    library = etc / "endpoints" / "library.toml"
    library.write_text(library.read_text().replace("handlers.library.look_up", "handlers.library.look_down"))
    demo = etc / "state" / "agents" / "demo" / "document.json"
    demo.write_text(demo.read_text().replace('"active"', '"asleep"'))
    (etc / "state" / "signing.key").chmod(0o644)
    with pytest.raises(ConfigurationError) as caught:
        load_host(config)
    said = [str(problem) for problem in caught.value.problems]
    for part in ("text.toml", "look_down", "demo/document.json", "chmod 600", "methods.json", "the floor method QUERY"):
        assert any(part in line for line in said), (part, said)
    line = next(problem for problem in caught.value.problems if "look_down" in problem.message)
    assert line.file == str(library) and line.line > 0


def test_endpoints_can_be_left_out_instead(tmp_path: Path) -> None:
    """``on_error = "skip"`` starts without the broken endpoint, and with all the others."""
    config = configured(tmp_path, edit=(('python_path = ["."]', 'python_path = ["."]\non_error = "skip"'),))
    library = tmp_path / "etc" / "endpoints" / "library.toml"
    library.write_text(library.read_text().replace("handlers.library.look_up", "handlers.library.look_down"))
    loaded = load_host(config)
    assert len(loaded.endpoints) == len(loaded.bound) == 2
    # The composition that would have called it goes with it.
    assert {endpoint.path for endpoint in loaded.endpoints} == {"/room", "/text"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("DISCOVER", "/methods"), ("DESCRIBE", "/agents/{name}"), ("EXECUTE", "/mcp/{server}"), ("REVOKE", "/")],
)
def test_no_endpoint_takes_the_place_of_a_built_in(method: str, path: str, tmp_path: Path) -> None:
    """An operator's endpoint on a path of the protocol's own is an error: it could answer in the protocol's name."""
    config = configured(tmp_path)
    text = tmp_path / "etc" / "endpoints" / "text.toml"
    lines = text.read_text()
    first = lines.index("method = ")
    old_method = lines[first:].split("\n", 1)[0]
    old_path = lines[lines.index("path = ") :].split("\n", 1)[0]
    text.write_text(lines.replace(old_method, f'method = "{method}"', 1).replace(old_path, f'path = "{path}"', 1))
    with pytest.raises(ConfigurationError) as caught:
        load_host(config)
    assert any("text.toml" in problem.file for problem in caught.value.problems)


def test_every_lifecycle_method_is_reserved() -> None:
    """The table of reserved places has all of them."""
    assert {(method, "/") for method in METHODS} <= set(RESERVED)


def test_an_agent_that_an_endpoint_names_must_be_hosted(tmp_path: Path) -> None:
    """An endpoint for an agent that is not here is an error with file and line."""
    config = configured(tmp_path)
    library = tmp_path / "etc" / "endpoints" / "library.toml"
    library.write_text('agents = ["nobody"]\n' + library.read_text())
    with pytest.raises(ConfigurationError, match="no hosted agent is named nobody"):
        load_host(config)


def test_production_makes_nothing(tmp_path: Path) -> None:
    """Interface section 1: a missing key is an error that names the command to run, and no file appears."""
    said = problems(
        tmp_path,
        edit=(('profile = "development"', 'profile = "production"'), ('python_path = ["."]', 'python_path = ["."]')),
    )
    assert any("agtp init --production" in line for line in said), said
    assert not (tmp_path / "etc" / "state" / "signing.key").exists()


def test_a_signing_key_that_is_none_is_reported(tmp_path: Path) -> None:
    """A damaged key is a problem with its path, never a traceback."""
    config = configured(tmp_path)
    load_host(config)
    config.audit.key.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(ConfigurationError, match=r"signing\.key"):
        load_host(config)


def test_an_unsigned_host_needs_no_key(tmp_path: Path) -> None:
    """``[audit] signing = false`` has no key, even where there is a file."""
    loaded = load_host(configured(tmp_path, append="\n[audit]\nsigning = false\n"))
    assert loaded.key is None


def test_a_second_agent_of_one_name_is_reported(tmp_path: Path) -> None:
    """T-LC-80: a name or Agent-ID stands for one agent; a collision keeps the host from starting."""
    config = configured(tmp_path)
    load_host(config)
    state = tmp_path / "etc" / "state" / "hosted"
    place_agent(state.parent / "other", SigningKey.generate(), name="librarian", signed=True)
    (state.parent / "other" / "librarian").rename(state / "librarian-two")
    with pytest.raises(ConfigurationError, match="librarian"):
        load_host(config)


def test_what_an_operator_should_know_of_agents_is_logged(tmp_path: Path) -> None:
    """AGTP-145, AGTP-149: an unknown role, and an issuer that nobody trusts, in the development profile too."""
    stranger = SigningKey.generate()
    trusted = SigningKey.generate().public.text
    config = configured(tmp_path, edit=(("[identity]\n", f'[identity]\ntrusted_issuers = ["{trusted}"]\n'),))
    load_host(config)
    place_agent(config.host.state_dir / "agents", stranger, role="wizard")
    with capturedLogs() as events:
        load_host(reloaded(config.file))
    said = [(event["log_level"].name, formatEvent(event)) for event in events if "note" in event]
    told = [text for level, text in said if level == "warn" and text.startswith("agent desk: ")]
    assert any("role 'wizard' is unknown and treated as agent" in text for text in told)
    assert any(f"untrusted issuer: {stranger.kid} issued the Genesis" in text for text in told)
    assert all("document.json" in text for text in told)


def test_what_is_to_be_published_conforms_or_the_host_does_not_start(tmp_path: Path) -> None:
    """AGIS-073: with ``publish`` a rule that an endpoint breaks is told with its file; without, the log has it."""
    assert load_host(configured(tmp_path / "sound", append="[agis]\npublish = true\n")).endpoints
    for publish in ("true", "false"):
        here = tmp_path / publish
        config = configured(here, append=f'[agis]\nservice = "Shelf"\npublish = {publish}\n')
        library = here / "etc" / "endpoints" / "library.toml"
        library.write_text(library.read_text().replace("Look up a book by its ISBN.", "Look up a book. Return it."))
        said, line = "AGIS-P5-sentence", library.read_text().splitlines().index("[semantic]") + 1
        if publish == "true":
            with pytest.raises(ConfigurationError) as caught:
                load_host(config)
            (problem,) = [each for each in caught.value.problems if said in each.message]
            assert (problem.file, problem.line) == (str(library), line) and "QUERY /library/{isbn}" in problem.message
            assert problem.hint
        else:
            with capturedLogs() as logs:
                assert load_host(config).endpoints
            told = [formatEvent(event) or "" for event in logs]
            assert any(said in text and "left out of AGIS documents" in text for text in told)
            assert any("AGIS-P7-domain" in text for text in told), "what conforms and should be looked at is told too"


def test_an_intent_that_contradicts_its_method_never_keeps_the_host_from_starting(tmp_path: Path) -> None:
    """AGIS-076: with ``publish`` the endpoint is logged and left out of AGIS documents, and the host serves it."""
    for publish in ("true", "false"):
        here = tmp_path / publish
        config = configured(here, append=f'[agis]\nservice = "Shelf"\npublish = {publish}\n')
        library = here / "etc" / "endpoints" / "library.toml"
        library.write_text(library.read_text().replace("Look up a book by its ISBN.", "Delete a book by its ISBN."))
        with capturedLogs() as logs:
            assert len(load_host(config).endpoints) == 4
        told = [formatEvent(event) or "" for event in logs]
        assert any("AGIS-P6-contradiction" in text and "left out of AGIS documents" in text for text in told)


def test_a_folder_that_cannot_be_looked_at_has_no_files_that_change(tmp_path: Path) -> None:
    """Such as one on a machine that is away: a standby that compares its files goes on."""
    loaded = load_host(configured(tmp_path))
    assert inventory(loaded.config, loaded.tls)["endpoints"]
    away = loaded.config.endpoints.model_copy(update={"directory": tmp_path / ("x" * 300)})
    assert inventory(loaded.config.model_copy(update={"endpoints": away}), loaded.tls)["endpoints"] == {}
