"""Packages: nothing is read from one before its hash is right (core v08 sections 6.1 and 6.3)."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agtphost.errors import Problem
from agtphost.identity.agent_files import load_agents
from agtphost.identity.agents import Agent
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import SigningKey
from agtphost.identity.packages import PackageError, open_package
from tests.identity.samples import document, genesis_octets, key_of, pack

KEY = key_of("packages key")


def manifest(**changes: Any) -> dict[str, Any]:
    """A package's manifest: a document without agent_id."""
    members = document(trust_tier=2, verification_path="org-asserted", **changes)
    return {name: value for name, value in members.items() if name != "agent_id"}


def place(folder: Path, suffix: str = ".agent", **changes: Any) -> Path:
    """A packaged agent's files; the package."""
    path = folder / f"desk{suffix}"
    reference = pack(path, manifest(**changes))
    origin = genesis_octets(KEY, members={"org_label": "desk", "package_ref": reference})
    (folder / "desk.genesis.json").write_bytes(origin)
    return path


def load(folder: Path, *, trusted: bool = True) -> tuple[list[Agent], list[Problem]]:
    """The agents of a production host."""
    keys = [KEY.public] if trusted else [SigningKey.generate().public]
    return load_agents(folder, hosted=True, production=True, trusted_issuers=keys)


@pytest.mark.parametrize(("suffix", "name"), [(".agent", "agent"), (".nomo", "nomo")])
def test_a_packaged_agent_is_admitted(tmp_path: Path, suffix: str, name: str) -> None:
    """AGTP-154: its document is the manifest of the package, with the Agent-ID of its Genesis."""
    place(tmp_path, suffix)
    agents, problems = load(tmp_path)
    assert not problems
    assert agents[0].agent_id == Genesis.load((tmp_path / "desk.genesis.json").read_bytes()).agent_id
    assert agents[0].document["package_format"] == name
    assert agents[0].package is not None


def test_every_flipped_octet_is_noticed(tmp_path: Path) -> None:
    """AGTP-120: no octet of a package can be changed; the agent is not admitted, and the reason is the code."""
    path = place(tmp_path)
    good = path.read_bytes()
    origin = Genesis.load((tmp_path / "desk.genesis.json").read_bytes())
    for at in range(0, len(good), max(1, len(good) // 60)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(PackageError, match="SHA-256"):
            open_package(path, origin)
    agents, problems = load(tmp_path)
    assert not agents and "package-integrity-failure" in problems[0].message
    path.write_bytes(good)
    assert open_package(path, origin)[1]["name"] == "desk"


def test_the_hash_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    """AGTP-120: what is no ZIP file at all fails by its hash, not by what a reader makes of it."""
    path = place(tmp_path)
    path.write_bytes(b"PK\x03\x04 not a ZIP file")
    with pytest.raises(PackageError, match="SHA-256"):
        open_package(path, Genesis.load((tmp_path / "desk.genesis.json").read_bytes()))


def test_the_issuer_of_the_genesis_is_judged(tmp_path: Path) -> None:
    """AGTP-149: a package is as trusted as whoever signed its hash."""
    place(tmp_path)
    agents, problems = load(tmp_path, trusted=False)
    assert not agents and "untrusted issuer" in problems[0].message


def archive(**entries: bytes) -> bytes:
    """A ZIP file."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as found:
        for name, content in entries.items():
            found.writestr(name.replace("_", "."), content)
    return held.getvalue()


def twice() -> bytes:
    """Two manifests, of which readers would take different ones."""
    held = io.BytesIO()
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(held, "w") as found:
        found.writestr("manifest.json", json.dumps(manifest()))
        found.writestr("manifest.json", json.dumps(manifest(description="another")))
    return held.getvalue()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a readable ZIP"),
        (b"no ZIP", "not a readable ZIP"),
        (archive(other_json=b"{}"), "exactly one"),
        (archive(manifest_json=b"{"), "not a document"),
        (archive(manifest_json=b"[]"), "not a document"),
        (archive(manifest_json=b" " * 300_000), "not a document"),
        (archive(manifest_json=b'{"agent_id": "' + b"a" * 64 + b'"}'), "another agent"),
    ],
)
def test_packages_without_a_usable_manifest(tmp_path: Path, content: bytes, why: str) -> None:
    """A right hash over a wrong content is refused as well."""
    assert_refused(tmp_path, content, why)


def test_two_manifests_are_refused(tmp_path: Path) -> None:
    """A package says one thing."""
    assert_refused(tmp_path, twice(), "exactly one")


def assert_refused(folder: Path, content: bytes, why: str) -> None:
    import hashlib

    path = folder / "desk.agent"
    path.write_bytes(content)
    reference = f"sha256:{hashlib.sha256(content).hexdigest()}"
    origin = Genesis.load(genesis_octets(KEY, members={"package_ref": reference}))
    with pytest.raises(PackageError, match=why):
        open_package(path, origin)


@pytest.mark.parametrize("reference", [None, "desk.agent", "sha256:" + "A" * 64, "md5:" + "a" * 64])
def test_a_genesis_has_to_name_the_hash(tmp_path: Path, reference: str | None) -> None:
    """Without a hash in the signed Genesis there is nothing to verify a package by."""
    path = place(tmp_path)
    members = {"org_label": "desk"} if reference is None else {"package_ref": reference}
    with pytest.raises(PackageError, match="package_ref"):
        open_package(path, Genesis.load(genesis_octets(KEY, members=members)))


def test_an_unchanged_package_is_not_hashed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verification costs one look at the file's state; a file written anew is read."""
    path = place(tmp_path)
    agent = load(tmp_path)[0][0]
    assert agent.package is not None
    reads: list[Path] = []
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (reads.append(self), original(self))[1])
    agent.package.verify()
    assert reads == []
    path.write_bytes(original(path))
    agent.package.verify()
    assert reads == [path]
