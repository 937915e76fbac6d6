"""``agtp manifest validate``: files and hosts, structure and signature, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agtphost.contract.manifest import sign_manifest
from agtphost.identity.keys import SigningKey
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer
from tests.contract.test_manifest_validation import endpoint, sound


def signed(state: Path, **members: Any) -> dict[str, Any]:
    return sign_manifest({**sound(), **members}, SigningKey.load(state / "signing.key"))


def published(manifest: Any, **headers: str) -> Answer:
    """An answer to DISCOVER / as a host gives it."""
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Answer(manifest, kind="application/vnd.agtp.manifest+json", headers=fields)


def test_a_sound_file_is_exit_0(run: Run, folder: Path) -> None:
    """Structure alone where no key is given (API-151)."""
    Path("m.json").write_text(json.dumps(sound()))
    done = run("manifest", "validate", "m.json")
    assert done.exit_code == 0, done.output
    assert "not checked: no key is known" in done.stdout
    assert run("manifest", "validate", "-", "--json", input=json.dumps(sound())).exit_code == 0


def test_every_fault_is_listed_with_its_pointer(run: Run, folder: Path) -> None:
    """Exit 1, all faults at once (API-151)."""
    broken = sound()
    del broken["policies"]
    broken["server"]["operator"] = 1
    Path("m.json").write_text(json.dumps(broken))
    done = run("manifest", "validate", "m.json", "--json")
    assert done.exit_code == 1
    faults = [(fault["rule"], fault["pointer"]) for fault in json.loads(done.stdout)["faults"]]
    assert faults == [("server-block.operator", "/server/operator"), ("policies-block.object", "/policies")]
    assert "policies-block.object: /policies is missing (AGTP-API section 8.7)" in done.stderr


def test_a_signature_is_checked_with_a_key(run: Run, folder: Path) -> None:
    """Good is 0; tampered with, unsigned, or signed by another key is 4 (API-081)."""
    state = folder / "state"
    good = signed(state)
    other = sign_manifest(sound(), SigningKey.generate())
    key = str(state / "signing.pub")
    cases = [(good, 0), ({**good, "document_version": "v3"}, 4), ({**good, "manifest_signature": None}, 4), (other, 4)]
    for manifest, status in cases:
        Path("m.json").write_text(json.dumps(manifest))
        done = run("manifest", "validate", "m.json", "--issuer", key, "--json")
        assert done.exit_code == status, done.output
        answer = json.loads(done.stdout)
        assert answer["valid"] is True
        assert answer["signature"]["verified"] is (status == 0)


def test_an_unsigned_manifest_is_not_rejected_for_that(run: Run, folder: Path) -> None:
    """A remark, exit 0 (API-082)."""
    Path("m.json").write_text(json.dumps({**sound(), "manifest_signature": None}))
    done = run("manifest", "validate", "m.json")
    assert done.exit_code == 0
    assert "the manifest is not signed" in done.stderr


def test_a_host_is_asked_and_its_key_is_at_hand(run: Run, server: AgtpServer) -> None:
    """With --config the host's own key verifies what it publishes, a thousand endpoints too."""
    many = [endpoint(path=f"/room-{number}") for number in range(1_000)]
    server.answers["DISCOVER", "/"] = published(signed(server.state, endpoints=many))
    done = run("manifest", "validate", server.uri, "--config", "host.toml")
    assert done.exit_code == 0, done.output
    assert "signature  verified" in done.stdout
    forged = {**signed(server.state, endpoints=many), "document_version": "forged"}
    resigned = sign_manifest({**sound(), "endpoints": many}, SigningKey.generate())
    for manifest in (forged, resigned):
        server.answers["DISCOVER", "/"] = published(manifest)
        assert run("manifest", "validate", server.uri, "--config", "host.toml").exit_code == 4
    server.answers["DISCOVER", "/"] = published({**signed(server.state), "document_version": "forged"})
    assert run("manifest", "validate", server.uri, "--config", "host.toml").exit_code == 4


def test_local_input_that_cannot_be_read_is_exit_2(run: Run, folder: Path) -> None:
    """No file, no JSON, no key."""
    Path("m.json").write_text("{")
    assert run("manifest", "validate", "absent.json").exit_code == 2
    assert run("manifest", "validate", "m.json").exit_code == 2
    assert run("manifest", "validate", "m.json", "--issuer", "absent.pub").exit_code == 2
    assert run("manifest", "validate", "agtp://127.0.0.1:1", "--cacert", "state/ca.pem").exit_code == 3


def test_what_it_came_with_is_checked_too(run: Run, server: AgtpServer) -> None:
    """API-084, API-085, AGTP-269: the type is a fault, missing validators and versions are remarks."""
    manifest = signed(server.state)
    server.answers["DISCOVER", "/"] = Answer(manifest)
    done = run("manifest", "validate", server.uri, "--config", "host.toml", "--json")
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert [fault["rule"] for fault in answer["faults"]] == ["manifest-retrieval.media-type"]
    assert [remark["rule"].partition(".")[0] for remark in answer["remarks"]].count("manifest-caching") == 3
    server.answers["DISCOVER", "/"] = published(manifest, ETag='"1"', Cache_Control="max-age=5", AGTP_API_Version="1")
    done = run("manifest", "validate", server.uri, "--config", "host.toml", "--json")
    assert done.exit_code == 0, done.output
    assert "manifest-caching" not in done.stdout
    server.answers["DISCOVER", "/"] = Answer(manifest, kind="application/json")
    assert run("manifest", "validate", server.uri, "--config", "host.toml").exit_code == 0


def test_a_manifest_is_shown(run: Run, server: AgtpServer) -> None:
    """Who, which versions, what can be called; the whole of it with --json."""
    manifest = signed(server.state, endpoints=[endpoint(path="/room")])
    server.answers["DISCOVER", "/"] = published(manifest, AGTP_API_Version="7", Cache_Control="max-age=5")
    done = run("manifest", "show", server.uri, "--config", "host.toml")
    assert done.exit_code == 0, done.output
    for words in ("agents.acme.com", "api version", "7", "verified", "/room"):
        assert words in done.stdout
    shown = json.loads(run("manifest", "show", server.uri, "--config", "host.toml", "--json").stdout)
    whole = run("manifest", "show", server.uri, "--config", "host.toml", "--document")
    assert json.loads(whole.stdout) == manifest
    assert shown == {"manifest": manifest, "etag": None, "api_version": "7", "signature": "verified", "warning": ""}


def test_showing_warns_and_goes_on(run: Run, server: AgtpServer) -> None:
    """API-081, API-082: an unsigned and a tampered manifest are shown with a warning; exit status 0."""
    for manifest, word in (
        ({**sound(), "manifest_signature": None}, "absent"),
        ({**signed(server.state), "document_version": "forged"}, "invalid"),
    ):
        server.answers["DISCOVER", "/"] = published(manifest)
        done = run("manifest", "show", server.uri, "--config", "host.toml")
        assert done.exit_code == 0, done.output
        assert word in done.stdout
        assert "warning:" in done.stderr


def test_showing_what_is_no_manifest_fails(run: Run, server: AgtpServer) -> None:
    """A refusal is exit 1; an answer that is none is exit 4."""
    refusal = {"status": 262, "reason": "anonymous-discovery-disabled", "explanation": "No."}
    server.answers["DISCOVER", "/"] = Answer(refusal, 262)
    assert run("manifest", "show", server.uri, "--config", "host.toml").exit_code == 1
    server.answers["DISCOVER", "/"] = Answer({"result": 1})
    assert run("manifest", "show", server.uri, "--config", "host.toml").exit_code == 4


def test_a_manifest_in_parts_is_read_whole(run: Run, server: AgtpServer) -> None:
    """Every part is asked for and checked; one that is forged or missing makes the whole fail."""

    def part(number: int, **changes: Any) -> dict[str, Any]:
        about = {"number": number, "of": 2, "endpoints": 3, "next": "second" if number == 1 else None}
        listed = [endpoint(path=f"/room-{number}-{each}") for each in range(3 - number)]
        return {**signed(server.state, endpoints=listed, parts=about), **changes}

    answers = {None: published(part(1)), "second": published(part(2))}
    server.answers["DISCOVER", "/"] = lambda exchange: answers[(exchange.input or {}).get("part")]
    done = run("manifest", "validate", server.uri, "--config", "host.toml")
    assert done.exit_code == 0, done.output
    assert "signature  verified" in done.stdout and "endpoints  3" in done.stdout
    shown = run("manifest", "show", server.uri, "--config", "host.toml", "--json")
    found = json.loads(shown.stdout)
    assert found["signature"] == "verified" and len(found["manifest"]["endpoints"]) == 3
    exported = run("openapi", "export", server.uri, "--config", "host.toml")
    assert exported.exit_code == 0 and "3 operations" in exported.stderr
    answers["second"] = published(part(2, agent_disclosure="private"))
    assert run("manifest", "validate", server.uri, "--config", "host.toml").exit_code == 4
    assert (
        json.loads(run("manifest", "show", server.uri, "--config", "host.toml", "--json").stdout)["signature"]
        == "invalid"
    )
    answers["second"] = published({**part(2), "document_version": "other"})
    assert run("manifest", "show", server.uri, "--config", "host.toml").exit_code != 0
