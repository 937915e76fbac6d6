"""init and check: from nothing to a configuration that a host starts with."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from cryptography import x509

from agtphost.cli.config_edit import ConfigEdit
from agtphost.config import load
from agtphost.config.search import EXTRAS
from agtphost.identity.agent_files import load_agents
from agtphost.identity.keys import SigningKey
from agtphost.identity.trust import issuer_keys
from agtphost.vocabulary.tomltext import string_text
from tests.cli.conftest import Run
from tests.rows import each_row
from tests.system.hosting import free_port

ETC = Path(__file__).resolve().parents[2] / "etc"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to work in, in a process that knows no handlers of another."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in list(sys.modules) if name.partition(".")[0] == "handlers"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delenv("AGTPHOST_STATE_DIR", raising=False)
    return tmp_path


def a_port() -> tuple[str, str]:
    """The words for a port that nobody has: ``agtp check`` looks whether the host can listen."""
    return "--port", str(free_port())


def test_init_development(run: Run, here: Path) -> None:
    """A directory that checks, with every server that was named."""
    result = run("init", "work", "--mcp", f"one={sys.executable} -m 'a b'", "--mcp", "two=https://mcp.example/x")
    assert result.exit_code == 0, result.output
    assert "twistd -n agtp --config host.toml" in result.stdout
    config = load(here / "work" / "host.toml", {"PATH": "/usr/bin"})
    assert config.host.development
    assert [(server.name, server.command, server.url) for server in config.mcp.server] == [
        ("one", (sys.executable, "-m", "a b"), None),
        ("two", None, "https://mcp.example/x"),
    ]
    assert not (here / "work" / "state").exists()
    assert run("check", "work/host.toml").exit_code == 0


def test_init_production(run: Run, here: Path) -> None:
    """Everything that production needs is made, for its owner alone, and the configuration is sound."""
    result = run("init", "work", "--production", "--server-id", "agents.example.com", "--json", *a_port())
    assert result.exit_code == 0, result.output
    written = json.loads(result.stdout)["written"]
    state = here / "work" / "state"
    assert str(state / "registrar.pem") in written
    for name in ("signing.key", "ca.key", "server.key", "registrar.key"):
        assert (state / name).stat().st_mode & 0o777 == 0o600
    config = load(here / "work" / "host.toml", {})
    assert not config.host.development
    assert run("check", "work/host.toml").exit_code == 0
    agents, problems = load_agents(
        here / "work" / "agents",
        hosted=True,
        production=True,
        trusted_issuers=issuer_keys(config.identity.trusted_issuers, config.folder),
    )
    assert ([agent.name for agent in agents], problems) == (["assistant"], [])
    assert config.audit.read_acl == "agent_only"
    # What is irreversible waits for a person, and there is one who decides.
    assert config.approvals.irreversible
    registrar = SigningKey.load(state / "registrar.key").public.fingerprint
    assert [(each.name, each.key, each.role) for each in config.operator] == [("admin", registrar, "administrator")]


def test_a_production_host_is_named_as_it_is_reached(run: Run, here: Path) -> None:
    """Its authority is no development CA, and its certificate names the host and not localhost."""
    for address, others in (("0.0.0.0", ["127.0.0.1", "::1"]), ("192.0.2.7", ["192.0.2.7"])):
        words = ("--production", "--server-id", "agents.example.com", "--address", address)
        assert run("init", address, *words).exit_code == 0
        authority = x509.load_pem_x509_certificate((here / address / "state" / "ca.pem").read_bytes())
        assert "development" not in authority.subject.rfc4514_string()
        assert "agents.example.com CA" in authority.subject.rfc4514_string()
        server = x509.load_pem_x509_certificate((here / address / "state" / "server.pem").read_bytes())
        names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["agents.example.com"]
        assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == others


@pytest.mark.parametrize("profile", [(), ("--production",)])
def test_init_says_who_runs_the_host(run: Run, here: Path, profile: tuple[str, ...]) -> None:
    """The manifest's operator and contact come from options, or follow from the host's name."""
    name = ("--server-id", "agents.example.com")
    said = ("--operator", "Example Ltd", "--contact", "ops@example.com")
    assert run("init", "told", *profile, *name, *said).exit_code == 0
    assert run("init", "left", *profile, *name).exit_code == 0
    told, left = load(here / "told" / "host.toml").host, load(here / "left" / "host.toml").host
    assert (told.operator, told.contact) == ("Example Ltd", "ops@example.com")
    assert (left.operator, left.contact) == ("agents.example.com", "postmaster@agents.example.com")


def test_a_production_host_admits_a_caller(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``agtp agent new`` there issues what production accepts."""
    run("init", "work", "--production", "--server-id", "agents.example.com", *a_port())
    monkeypatch.chdir(here / "work")
    result = run("agent", "new", "buyer", "--scope", "mcp:tools:execute", "--owner", "Example", "--owner-id", "ex")
    assert result.exit_code == 0, result.output
    assert run("check").exit_code == 0
    config = load("host.toml", {})
    agents, problems = load_agents(
        config.identity.known_agents,
        hosted=False,
        production=True,
        trusted_issuers=issuer_keys(config.identity.trusted_issuers, config.folder),
    )
    assert ([agent.name for agent in agents], problems) == (["buyer"], [])


def test_an_agent_without_an_owner_belongs_to_the_production_host(run: Run, here: Path) -> None:
    run("init", "work", "--production", "--server-id", "agents.example.com", *a_port())
    issued = json.loads(run("agent", "new", "buyer", "--config", "work", "--json").stdout)
    assert issued["owner_id"] == "agents.example.com"
    document = json.loads((Path(issued["directory"]) / "document.json").read_bytes())
    assert (document["principal"], document["governance_zone"]) == ("agents.example.com", "zone:production")
    certificate = x509.load_pem_x509_certificate(Path(issued["certificate"]).read_bytes())
    assert "development" not in certificate.subject.rfc4514_string()


@each_row("words", [(), ("--production", "--server-id", "agents.example.com"), ("--sample",)])
def test_a_new_host_searches_by_meaning_where_that_is_installed(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """``agtp init`` names the engine where all that it needs can be imported, and says nothing of it where not."""
    folder = here / f"as{len(words)}"
    assert run("init", str(folder / "with"), *words).exit_code == 0
    assert load(folder / "with" / "host.toml").search.engine == "static"
    for number, package in enumerate(EXTRAS["static"]):
        with monkeypatch.context() as hidden:
            hidden.setitem(sys.modules, package, None)
            assert run("init", str(folder / f"without-{number}"), *words).exit_code == 0
            config = folder / f"without-{number}" / "host.toml"
            assert "search" not in tomllib.loads(config.read_text()), package
            assert load(config).search.engine == "bm25"


def test_init_production_can_be_repeated(run: Run, here: Path) -> None:
    """A run that was cut short is finished by the next; keys are kept."""
    words = ("init", "work", "--production", "--server-id", "agents.example.com")
    assert run(*words).exit_code == 0
    key = (here / "work/state/signing.key").read_bytes()
    (here / "work/host.toml").unlink()
    (here / "work/state/server.pem").unlink()
    (here / "work/state/server.key").unlink()
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert (here / "work/state/signing.key").read_bytes() == key


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--production",), "--production needs --server-id"),
        (("--mcp", "x"), "is not NAME=COMMAND"),
        (("--mcp", "x= "), "is not NAME=COMMAND"),
        (("--mcp", "a=x", "--mcp", "a=y"), "names 'a' twice"),
        (("--mcp", "a='x"), "cannot be read"),
        (("--mcp", "a=no-such-program-4480"), "names a program that cannot be run"),
        (("--mcp", "a=http://mcp.example/"), "must be https"),
        (("--mcp", "A B=x"), "name must be 1 to 32"),
        (("--server-id", "two words"), "server_id must be"),
        (("--address", "localhost"), "must be an IP address"),
        (("--port", "0"), "--port"),
    ],
    ids=" ".join,
)
def test_init_with_wrong_options(run: Run, here: Path, words: tuple[str, ...], message: str) -> None:
    """Status 2, the reason, and no host.toml that would not start."""
    result = run("init", "work", *words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not (here / "work" / "host.toml").exists()


def test_init_overwrites_nothing(run: Run, here: Path) -> None:
    """A directory that has a host.toml is left alone."""
    assert run("init", "work").exit_code == 0
    before = (here / "work" / "host.toml").read_bytes()
    assert run("init", "work", "--port", "5000").exit_code == 2
    assert (here / "work" / "host.toml").read_bytes() == before


@each_row("text", ["plain", 'quo"te', "back\\slash", "tab\t", "nul\0", "del\x7f", "Ä€😀", "line\nend"])
def test_what_init_writes_is_read_back(text: str) -> None:
    """Any text survives as a TOML string."""
    assert tomllib.loads(f"a = {string_text(text)}")["a"] == text


def test_check_reports_everything(run: Run, here: Path) -> None:
    """Mistakes of the file all at once, with file, line and hint; exit status 2."""
    (here / "host.toml").write_text("[host]\nservr_id = 'x'\nprofile = 'development'\n[listen]\nport = 70000\n")
    result = run("check", "host.toml")
    assert result.exit_code == 2
    assert f'{here}/host.toml:2: [host] servr_id is unknown (did you mean "server_id"?)' in result.stderr
    assert f"{here}/host.toml:5: [listen] port must be at most 65535, not 70000" in result.stderr
    assert "2 problems" in result.stderr
    problems = json.loads(run("check", "host.toml", "--json").stdout)["problems"]
    assert [problem["line"] for problem in problems] == [2, 5]


def test_check_looks_into_agents_and_endpoints(run: Run, here: Path) -> None:
    """What the configuration names is checked too: a malformed agent, a malformed endpoint, a policy."""
    assert run("init", "work").exit_code == 0
    work = here / "work"
    (work / "agents" / "bad.agent.json").write_text('{"name": 5}')
    (work / "endpoints" / "bad.toml").write_text("[[endpoint]]\nmethod = 5\n")
    with (work / "host.toml").open("a") as stream:
        stream.write("[policies.methods.aliases]\nBOOK = 'FETCH'\n")
    problems = json.loads(run("check", "work/host.toml", "--json").stdout)["problems"]
    files = {Path(problem["file"]).name for problem in problems}
    assert files == {"bad.agent.json", "bad.toml", "host.toml"}


def test_check_finds_the_file_by_itself(run: Run, here: Path) -> None:
    """In the deployment's directory no argument is needed; elsewhere it says so."""
    assert run("check").exit_code == 2
    assert run("init", ".").exit_code == 0
    result = run("check")
    assert result.exit_code == 0
    assert ": sound (" in result.stdout


def test_the_sample_deployment_is_sound(run: Run, here: Path) -> None:
    """``etc/host.toml`` as it is shipped: development, port 4480, the files server, one hosted agent."""
    shutil.copytree(ETC, here / "etc", ignore=shutil.ignore_patterns("state", "__pycache__"))
    config = load(here / "etc" / "host.toml")
    assert (config.listen.address, config.listen.port, config.host.profile) == (
        "127.0.0.1",
        4480,
        "development",
    )
    assert [server.name for server in config.mcp.server] == ["files"]
    assert config.mcp.server[0].command[0] == sys.executable
    assert config.host.state_dir == here / "etc" / "state"
    # Whether it can listen is looked at too, and that port may be somebody's.
    file = here / "etc" / "host.toml"
    file.write_text(file.read_text().replace("port = 4480", "port = 0"))
    result = run("check", "etc/host.toml")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("before", "end"), [("[host]\na = 1", "\n"), ("[host]\r\na = 1\r\n", "\r\n")])
def test_a_change_of_the_configuration_is_shown_line_by_line(before: str, end: str) -> None:
    """Without an end of the last line two lines were one, and the ends of another system were written out."""
    after = f"{before.rstrip()}{end}b = 2{end}"
    edit = ConfigEdit(file=Path("/host.toml"), before=before, after=after)
    assert edit.diff == "--- host.toml\n+++ host.toml\n@@ -2 +2,2 @@\n a = 1\n+b = 2\n"
