"""key, genesis, document, cert and agent new: real files, as their owners make them."""

from __future__ import annotations

import json
import shutil
import ssl
import stat
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from agtphost.audit.drafts import HOST_CHAIN, Draft
from agtphost.audit.lifecycle import LifecycleStatus
from agtphost.audit.retention import retention_changes
from agtphost.identity.agent_files import load_agents
from agtphost.identity.genesis import Genesis
from agtphost.identity.issuance import read_statement
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.stores import open_store
from tests.adapters.peers import python
from tests.audit.drafting import group_writer, sealed
from tests.cli.conftest import Run
from tests.identity.issued import agent
from tests.identity.samples import document, pack
from tests.identity.test_issuance import ROOT, nomo, pem

DNS = Path(__file__).with_name("dns_server.py")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(run: Run, *words: str) -> None:
    """Run a command that has to succeed."""
    result = run(*words)
    assert result.exit_code == 0, result.output


# Keys


def test_a_new_key_is_its_owners_alone(run: Run, here: Path) -> None:
    """T-KY: 0600 for the private half; --json names kid and fingerprint."""
    result = run("key", "new", "signing.key", "--json")
    assert result.exit_code == 0
    fields = json.loads(result.stdout)
    key = SigningKey.load(here / "signing.key")
    assert (fields["kid"], fields["fingerprint"]) == (key.kid, key.public.fingerprint)
    assert stat.S_IMODE((here / "signing.key").stat().st_mode) == 0o600
    assert VerifyingKey.load(here / "signing.pub") == key.public


def test_a_key_is_never_overwritten(run: Run, here: Path) -> None:
    """Neither the private nor the public file."""
    make(run, "key", "new", "a.key")
    before = (here / "a.key").read_bytes()
    result = run("key", "new", "a.key")
    assert result.exit_code == 2
    assert "a.key exists" in result.stderr
    assert (here / "a.key").read_bytes() == before
    (here / "a.key").unlink()
    assert run("key", "new", "a.key").exit_code == 2
    assert not (here / "a.key").exists()


def test_showing_a_key_shows_no_private_half(run: Run, here: Path) -> None:
    """Private and public files give the same answer."""
    make(run, "key", "new", "a.key")
    private, public = run("key", "show", "a.key"), run("key", "show", "a.pub")
    assert private.stdout == public.stdout
    assert "PRIVATE" not in private.stdout
    seed = SigningKey.load(here / "a.key").seed.hex()
    assert seed not in private.stdout


@pytest.mark.parametrize("content", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_file_that_is_no_key(run: Run, here: Path, content: bytes) -> None:
    """Local input errors are status 2, without a traceback."""
    (here / "x.key").write_bytes(content)
    result = run("key", "show", "x.key")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


# Genesis


def issue_genesis(run: Run, here: Path, *more: str) -> Genesis:
    make(run, "key", "new", "registrar.key")
    make(
        run,
        "genesis",
        "issue",
        "--key",
        "registrar.key",
        "--owner",
        "Example Ltd",
        "-o",
        "genesis.json",
        *more,
    )
    return Genesis.load((here / "genesis.json").read_bytes())


def test_a_genesis_round_trip(run: Run, here: Path) -> None:
    """Issued, verified against its issuer; the Agent-ID is the same everywhere."""
    genesis = issue_genesis(run, here, "--scope", "documents:query", "--archetype", "analyst", "--zone", "zone:x")
    result = run("genesis", "verify", "genesis.json", "--issuer", "registrar.pub", "--json")
    assert result.exit_code == 0
    fields = json.loads(result.stdout)
    assert (fields["verified"], fields["agent_id"]) == (True, genesis.agent_id)
    assert fields["scope"] == ["documents:query"]
    assert fields["archetype"] == "analyst"
    assert fields["issuer_fingerprint"] == SigningKey.load(here / "registrar.key").public.fingerprint


def test_a_genesis_to_standard_output_and_back(run: Run, here: Path) -> None:
    """The octets that went out are those that verify: nothing is added to them."""
    make(run, "key", "new", "registrar.key")
    issued = run("genesis", "issue", "--key", "registrar.key", "--owner", "Example Ltd")
    assert issued.exit_code == 0
    assert run("genesis", "verify", "-", input=issued.stdout_bytes).exit_code == 0
    agent_id = Genesis.load(issued.stdout_bytes).agent_id
    assert agent_id in issued.stderr


def test_a_changed_genesis_is_status_4(run: Run, here: Path) -> None:
    """T-GN: a document that is not what was signed fails verification, in words and in JSON."""
    issue_genesis(run, here)
    text = (here / "genesis.json").read_text()
    (here / "genesis.json").write_text(text.replace("Example", "Exemple"))
    result = run("genesis", "verify", "genesis.json", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["verified"] is False
    assert "does not verify" in result.stderr


def test_another_issuer_is_status_4(run: Run, here: Path) -> None:
    """A good signature of the wrong key is not what --issuer asked for."""
    issue_genesis(run, here)
    make(run, "key", "new", "other.key")
    result = run("genesis", "verify", "genesis.json", "--issuer", "other.pub")
    assert result.exit_code == 4
    assert "issued by another key" in result.stderr


@pytest.mark.parametrize("more", [("--scope", "Bad"), ("--path", "dns-anchored")])
def test_a_genesis_that_would_be_wrong_is_not_issued(run: Run, here: Path, more: tuple[str, ...]) -> None:
    """What could not be verified is refused before it is signed."""
    make(run, "key", "new", "registrar.key")
    result = run("genesis", "issue", "--key", "registrar.key", "--owner", "E", "-o", "g.json", *more)
    assert result.exit_code == 2
    assert not (here / "g.json").exists()


TIER_1 = ("--tier", "1", "--path", "dns-anchored", "--org-domain", "Acme.tld", "--zone", "zone:acme")


def domain_said(run: Run, here: Path) -> str:
    """What the owner of a domain publishes for the key ``registrar.key``, which is made."""
    make(run, "key", "new", "registrar.key")
    return f"agtp-zone=zone:acme; cert={VerifyingKey.load(here / 'registrar.pub').fingerprint}"


def test_tier_1_is_issued_where_the_domain_says_so(run: Run, here: Path) -> None:
    """AGTP-327, core v08 section 10.7: a real resolver is asked, and the signed Genesis has what it answered."""
    said = domain_said(run, here)
    with python(DNS, "_agtp.acme.tld=v=spf1 -all", f"_agtp.acme.tld={said}") as port:
        words = ("--key", "registrar.key", "--owner", "Acme", *TIER_1, "--resolver", f"127.0.0.1:{port}")
        make(run, "genesis", "issue", *words, "-o", "g.json")
    genesis = Genesis.load((here / "g.json").read_bytes())
    assert (genesis.trust_tier, genesis.notes) == (1, ())
    evidence = genesis.members["verification_evidence"]
    assert (evidence["method"], evidence["record"], evidence["value"]) == ("dns", "_agtp.acme.tld", said)
    assert evidence["checked_at"] == genesis.issued_at


@pytest.mark.parametrize("many", [0, 60])
def test_tier_1_is_not_issued_where_the_domain_is_silent(run: Run, here: Path, many: int) -> None:
    """Another key's, another zone's and half a record are none; an answer too long for UDP is read by TCP."""
    said = domain_said(run, here)
    wrong = [
        said.replace("zone:acme", "zone:other"),
        said[:-1],
        said.partition(";")[0],
        f"{said}; cert={'0' * 64}",
        *(f"note={'x' * 200}{number}" for number in range(many)),
    ]
    records = [f"_agtp.acme.tld={text}" for text in wrong]
    words = ("genesis", "issue", "--key", "registrar.key", "--owner", "Acme", *TIER_1, "-o", "g.json")
    with python(DNS, *records, f"_agtp.other.tld={said}") as port:
        result = run(*words, "--resolver", f"127.0.0.1:{port}")
        absent = run(*(word if word != "Acme.tld" else "none.tld" for word in words), "--resolver", f"127.0.0.1:{port}")
    assert (result.exit_code, absent.exit_code) == (4, 4)
    assert said in result.stderr
    assert "none.tld" in absent.stderr
    # Nobody listens there any more: what cannot be looked at was not looked at.
    assert run(*words, "--resolver", f"127.0.0.1:{port}").exit_code == 4
    assert not (here / "g.json").exists()


@pytest.mark.parametrize("path", ["log-anchored", "hybrid", "org-asserted"])
def test_tier_1_rests_on_what_can_be_looked_at(run: Run, here: Path, path: str) -> None:
    """Nothing here can look at a log or a blockchain, so nothing is signed that says that somebody did."""
    said = domain_said(run, here)
    with python(DNS, f"_agtp.acme.tld={said}") as port:
        words = ("--key", "registrar.key", "--owner", "Acme", *TIER_1, "--resolver", f"127.0.0.1:{port}")
        result = run("genesis", "issue", *words, "--path", path, "-o", "g.json")
    assert result.exit_code == 4
    assert not (here / "g.json").exists()


def test_a_claim_that_was_not_checked_says_so(run: Run, here: Path) -> None:
    """AGTP-327: of tier 2 the domain is asserted, and the Genesis says that nobody looked."""
    genesis = issue_genesis(run, here, "--org-domain", "acme.tld")
    assert genesis.members["verification_evidence"] == {"method": "none", "unchecked": ["org_domain"]}
    shown = json.loads(run("genesis", "verify", "genesis.json", "--json").stdout)
    assert shown["verification_evidence"] == {"method": "none", "unchecked": ["org_domain"]}


# Documents


def test_a_document_round_trip(run: Run, folder: Path) -> None:
    """The development agent's document, signed again by its registrar, verifies against key and Genesis."""
    agent = folder / "state" / "agents" / "demo"
    words = ("--key", "state/registrar.key", "--issuer", "registrar.localhost", "-o", "signed.json")
    make(run, "document", "sign", str(agent / "document.json"), *words)
    make(run, "key", "show", "state/registrar.key")
    result = run("document", "verify", "signed.json", "--genesis", str(agent / "genesis.json"),
                 "--issuer", "state/registrar.key", "--json")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["name"] == "demo"


def test_a_document_that_is_not_to_be_believed(run: Run, folder: Path) -> None:
    """Changed, unsigned, of another signer, of another Genesis: each is status 4 and says why."""
    agent = folder / "state" / "agents" / "demo"
    document = json.loads((agent / "document.json").read_text())

    def verdict(changed: dict[str, object], *more: str) -> tuple[int, str]:
        (folder / "d.json").write_text(json.dumps(changed))
        result = run("document", "verify", "d.json", *more)
        return result.exit_code, result.stderr

    assert verdict(document)[0] == 0
    assert verdict({**document, "description": "other"}) == (
        4,
        "error: the document does not verify:\n  manifest_signature: it does not match the document\n",
    )
    unsigned = {name: value for name, value in document.items() if name != "manifest_signature"}
    assert "not signed" in verdict(unsigned)[1]
    assert "signed by another key" in verdict(document, "--issuer", "state/signing.pub")[1]
    librarian = folder / "state" / "hosted" / "librarian" / "genesis.json"
    assert ", and its Genesis is that of " in verdict(document, "--genesis", str(librarian))[1]
    del document["name"]
    assert "name" in verdict(document)[1]


def test_a_wrong_document_is_not_signed(run: Run, folder: Path) -> None:
    """Every fault is listed at once."""
    (folder / "d.json").write_text("{}")
    result = run("document", "sign", "d.json", "--key", "state/registrar.key", "--issuer", "r")
    assert result.exit_code == 2
    assert result.stderr.count("\n") > 10


# Certificates


def test_certificates_of_every_kind(run: Run, here: Path) -> None:
    """Authority, server, registrar and agent: TLS accepts the chain, and show reads them back."""
    genesis = issue_genesis(run, here, "--scope", "documents:query", "--scope", "booking:*")
    make(run, "cert", "issue", "authority", "Example", "-o", "ca.pem")
    make(run, "cert", "issue", "server", "agents.example.com", "--ca", "ca.pem", "-o", "server.pem")
    make(run, "cert", "issue", "client", "registrar", "--ca", "ca.pem", "--public-key", "registrar.pub",
         "-o", "registrar.pem")  # fmt: skip
    origin = ("--genesis", "genesis.json", "--scope", "documents:query", "--activation", "a5" * 32)
    make(run, "cert", "issue", "agent", "demo", "--ca", "ca.pem", *origin, "-o", "agent.pem")
    shown = json.loads(run("cert", "show", "agent.pem", "--json").stdout)
    assert (shown["agent_id"], shown["commitment"]) == (genesis.agent_id, ["documents:query"])
    assert shown["refused_critical_extensions"] == []
    assert shown["activation_certificate_id"] == "a5" * 32
    registrar = json.loads(run("cert", "show", "registrar.pem", "--json").stdout)
    assert registrar["key_fingerprint"] == genesis.issuer_fingerprint
    assert registrar["agent_id"] is None
    assert not (here / "registrar.key.1").exists()
    for name in ("ca", "server", "agent"):
        assert stat.S_IMODE((here / f"{name}.key").stat().st_mode) == 0o600
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("server.pem", "server.key")
    context.load_cert_chain("agent.pem", "agent.key")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("agent", "demo"), "--ca is missing"),
        (("server", "x"), "--ca is missing"),
        (("server", "x", "--public-key", "registrar.pub"), "--public-key does not apply to server"),
        (("agent", "demo", "--ca", "none.pem", "--genesis", "genesis.json"), "none.pem cannot be read"),
        (("client", "x", "--ca", "genesis.json", "--ca-key", "registrar.key"), "cannot be issued"),
        (("agent", "x", "--ca", "ca.pem", "--scope", "payments:purchase"), "does not grant payments:purchase"),
        (("agent", "x", "--ca", "ca.pem", "--scope", "*:*"), "does not grant *:*"),
        (("agent", "x", "--ca", "ca.pem", "--activation", "A5" * 32), "cannot be issued"),
    ],
)
def test_certificates_that_cannot_be_issued(run: Run, here: Path, words: tuple[str, ...], message: str) -> None:
    """Status 2, the reason, and no file."""
    issue_genesis(run, here)
    make(run, "cert", "issue", "authority", "Example", "-o", "ca.pem")
    if "--genesis" not in words and words[0] == "agent":
        words = (*words, "--genesis", "genesis.json")
    result = run("cert", "issue", *words, "-o", "out.pem")
    assert (result.exit_code, message in result.stderr) == (2, True), result.output
    assert not (here / "out.pem").exists()


def test_a_certificate_is_never_overwritten(run: Run, here: Path) -> None:
    """Nor the key beside it."""
    make(run, "cert", "issue", "authority", "Example", "-o", "ca.pem")
    (here / "ca.pem").rename(here / "old.pem")
    result = run("cert", "issue", "authority", "Example", "-o", "ca.pem")
    assert result.exit_code == 2
    assert "ca.key exists" in result.stderr


def test_showing_what_is_no_certificate(run: Run, here: Path) -> None:
    """Status 2."""
    (here / "x.pem").write_text("x")
    assert run("cert", "show", "x.pem").exit_code == 2
    assert run("cert", "show", "none.pem").exit_code == 2


# Agents


def test_a_new_agent_is_complete(run: Run, folder: Path) -> None:
    """Genesis, document, key and certificate of one Agent-ID, issued by the host's registrar."""
    result = run("agent", "new", "buyer", "--scope", "booking:*", "--owner", "Example", "--json")
    assert result.exit_code == 0, result.output
    agent_id = json.loads(result.stdout)["agent_id"]
    directory = folder / "state" / "agents" / "buyer"
    genesis = Genesis.load((directory / "genesis.json").read_bytes())
    registrar = SigningKey.load(folder / "state" / "registrar.key")
    assert (genesis.agent_id, genesis.issuer_key) == (agent_id, registrar.public)
    assert json.loads(run("cert", "show", str(directory / "agent.pem"), "--json").stdout)["agent_id"] == agent_id
    assert run("document", "verify", str(directory / "document.json")).exit_code == 0
    listed = {agent["name"]: agent for agent in json.loads(run("agent", "ls", "--json").stdout)}
    assert listed["buyer"]["kind"] == "caller"
    assert listed["buyer"]["scopes"] == ["booking:*"]
    assert listed["librarian"]["kind"] == "hosted"
    shown = json.loads(run("agent", "show", "buyer", "--json").stdout)
    assert shown["issuer_fingerprint"] == registrar.public.fingerprint


def test_a_misspelt_agent_is_shown_what_was_meant(run: Run, folder: Path) -> None:
    """As other commands about an agent do."""
    refused = run("agent", "show", "dmeo")
    assert refused.exit_code == 2 and "Did you mean demo?" in refused.stderr, refused.stderr


@pytest.mark.parametrize(
    ("words", "owner_id"),
    [
        (("--owner", "Example Ltd"), "example-ltd"),
        (("--owner", "acme.example"), "acme.example"),
        (("--owner", "Example Ltd", "--owner-id", "did:web:example.com"), "did:web:example.com"),
    ],
)
def test_the_owner_of_a_new_agent(run: Run, folder: Path, words: tuple[str, ...], owner_id: str) -> None:
    """The identifier is given, or the name itself, or made of it, and in Genesis and document as it is said."""
    result = run("agent", "new", "buyer", *words, "--json")
    assert result.exit_code == 0, result.output
    directory = Path(json.loads(result.stdout)["directory"])
    found = [json.loads((directory / name).read_bytes()) for name in ("genesis.json", "document.json")]
    assert [member["owner_id"] for member in (json.loads(result.stdout), *found)] == [owner_id] * 3
    assert found[1]["principal"] == words[1]
    result = run("agent", "new", "other", "--owner", "\N{SNOWMAN}")
    assert (result.exit_code, "--owner-id" in result.stderr) == (2, True)


def test_an_agent_is_never_issued_again(run: Run, folder: Path) -> None:
    """Core v08 section 6.5: a Genesis is not reissued."""
    result = run("agent", "new", "demo")
    assert result.exit_code == 2
    assert "exists" in result.stderr


@pytest.mark.parametrize("words", [("bad name",), ("x", "--scope", "Bad"), ("../x",)])
def test_an_agent_that_cannot_be_issued(run: Run, folder: Path, words: tuple[str, ...]) -> None:
    """Status 2 and the member that is wrong."""
    result = run("agent", "new", *words)
    assert result.exit_code == 2
    assert "cannot be issued" in result.stderr


def test_tables_are_whole_where_no_terminal_limits_them(run: Run, folder: Path) -> None:
    """No colour, no folding, no cut identifiers in a pipe."""
    result = run("agent", "ls")
    document = json.loads((folder / "state/agents/demo/document.json").read_text())
    row = next(line for line in result.stdout.splitlines() if line.startswith("demo"))
    assert document["agent_id"] in row
    assert "\x1b" not in result.stdout
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())


def packed(folder: Path, **changes: object) -> Path:
    """A package of an agent named desk."""
    members = document(name="desk", trust_tier=2, verification_path="org-asserted", **changes)
    path = folder / "desk.agent"
    pack(path, {name: value for name, value in members.items() if name != "agent_id"})
    return path


def test_a_packaged_agent_is_issued(run: Run, folder: Path) -> None:
    """AGTP-170: the Genesis names the package's hash, the statement says so, and the host's loader takes it."""
    path = packed(folder)
    result = run("agent", "new", "desk", "--package", str(path), "--json")
    assert result.exit_code == 0, result.output
    directory = folder / "state" / "agents" / "desk"
    genesis = Genesis.load((directory / "genesis.json").read_bytes())
    reference = f"sha256:{sha256(path.read_bytes()).hexdigest()}"
    assert genesis.members["package_ref"] == reference
    statement = read_statement((directory / "issue.jws").read_bytes(), genesis)
    assert statement["package"]["integrity_hash"] == reference == json.loads(result.stdout)["package"]["integrity_hash"]
    agents, problems = load_agents(directory.parent, hosted=False, production=False, trusted_issuers=())
    [desk] = [agent for agent in agents if agent.name == "desk"]
    assert not problems and desk.package is not None and desk.issue == statement
    (directory / "desk.agent").write_bytes(path.read_bytes()[:-1])
    assert load_agents(directory.parent, hosted=False, production=False, trusted_issuers=())[1], "the control"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("desk", "--package-hash", "sha256:" + "0" * 64), "is not the one given"),
        (("chair",), "for an agent named 'desk'"),
        (("desk", "--scope", "booking:*"), "excludes --scopes"),
    ],
)
def test_a_package_that_is_not_issued(run: Run, folder: Path, words: tuple[str, ...], why: str) -> None:
    """AGTP-170: status 2, and not one file stays."""
    result = run("agent", "new", *words, "--package", str(packed(folder)))
    assert result.exit_code == 2 and why in result.stderr
    assert [path.name for path in (folder / "state" / "agents").iterdir()] == ["demo"]


def test_a_nomo_package_needs_its_chain(run: Run, folder: Path) -> None:
    """AGTP-170: a .nomo without certificates, or with one of nobody known, is refused."""
    path = packed(folder).rename(folder / "desk.nomo")
    result = run("agent", "new", "desk", "--package", str(path))
    assert result.exit_code == 2 and "package-integrity-failure" in result.stderr and "chain.pem" in result.stderr
    path = nomo(folder)
    result = run("agent", "new", "desk", "--package", str(path))
    assert result.exit_code == 2 and "trusted authority" in result.stderr
    (folder / "authors.pem").write_bytes(pem(ROOT))
    words = ("agent", "new", "desk", "--hosted", "--package", str(path), "--package-ca", "authors.pem", "--json")
    (folder / "hosted").mkdir()
    (folder / "host.toml").write_text((folder / "host.toml").read_text() + '[identity]\nagents = "hosted"\n')
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["package"]["author"] == "CN=author"


def test_a_label_of_an_agent_that_ended(run: Run, folder: Path) -> None:
    """AGTP-171: within 90 days the label is refused; afterwards another Agent-ID has it."""
    store = open_store(f"sqlite:{folder / 'state' / 'agtphost.sqlite3'}", create=True)
    writer = group_writer(store)
    demo = json.loads((folder / "state" / "agents" / "demo" / "document.json").read_bytes())
    first = json.loads(run("agent", "new", "desk", "--json").stdout)["agent_id"]
    shutil.rmtree(folder / "state" / "agents" / "desk")
    who = replace(agent("desk", hosted=True), agent_id=first)
    for version, days in enumerate((1, 91)):
        ended = time.time() - days * 86_400
        [change] = retention_changes(who, LifecycleStatus.RETIRED, {}, ended)
        sealed(writer, Draft(chain=HOST_CHAIN, payload={}, changes=(replace(change, expected=version),)))
        result = run("agent", "new", "desk", "--json")
        if days < 90:
            assert result.exit_code == 2 and "label of an agent that ended" in result.stderr
        else:
            assert result.exit_code == 0 and json.loads(result.stdout)["agent_id"] not in (first, demo["agent_id"])
    store.close()
