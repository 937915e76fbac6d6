"""The manifest as published: signed, and with a version that moves exactly when the content does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agtphost.contract.manifest import verify_manifest
from agtphost.host.materials import Materials, gather
from agtphost.host.publication import HISTORY, Publication
from agtphost.identity.jws import JWSError
from tests.host.hosts import configured, reloaded
from tests.methods.stage import Toolbox


def ticking() -> Callable[[], str]:
    """A clock that never says the same twice."""
    seconds = count()
    return lambda: f"2026-06-01T00:00:{next(seconds):02d}Z"


def published(materials: Materials, box: Toolbox | None = None, now: Callable[[], str] | None = None) -> Publication:
    """A publication as the assembly builds it."""
    return Publication(
        materials.config,
        catalog=materials.catalog,
        policy=materials.policy,
        endpoints=materials.endpoints,
        built_ins=(),
        adapters=() if box is None else (box,),
        directory=materials.directory,
        key=materials.key,
        now=now or ticking(),
    )


@pytest.fixture
def materials(tmp_path: Path) -> Materials:
    return gather(configured(tmp_path))


def version(manifest: Any) -> tuple[str, str, str]:
    """Version, first issue and last change."""
    return manifest["document_version"], manifest["server"]["issued"], manifest["server"]["updated"]


def test_the_manifest_is_signed_by_the_hosts_key(materials: Materials) -> None:
    """The signature verifies with the host's key, covers every member, and fails with another key."""
    manifest = dict(published(materials)(True))
    assert materials.key is not None
    keys = {materials.key.kid: materials.key.public}
    verify_manifest(manifest, keys)
    for changed in ("server", "directory", "policies"):
        with pytest.raises(JWSError):
            verify_manifest({**manifest, changed: {}}, keys)
    with pytest.raises(JWSError):
        verify_manifest(manifest, {})
    assert manifest["server"]["signing_keys"][0]["kid"] == materials.key.kid


def test_the_same_content_keeps_its_version_over_restarts(materials: Materials) -> None:
    """AGTP-API sections 8.3 and 8.11: a restart changes neither version nor times."""
    clock = ticking()
    first = published(materials, now=clock)(True)
    again = published(gather(reloaded(materials.config.file)), now=clock)(True)
    assert version(again) == version(first)
    assert again == first


def test_changed_content_gets_the_next_version(materials: Materials) -> None:
    """A changed endpoint moves ``document_version`` and ``updated``; ``issued`` stays."""
    clock = ticking()
    first = version(published(materials, now=clock)(True))
    (materials.config.file.parent / "endpoints" / "text.toml").unlink()
    second = version(published(gather(reloaded(materials.config.file)), now=clock)(True))
    assert second[0] != first[0]
    assert second[1] == first[1]
    assert second[2] > first[2]


def test_a_version_is_never_used_for_two_contents(materials: Materials) -> None:
    """AGTP-268 in spirit: going back to an earlier content still takes a new version."""
    clock = ticking()
    text = materials.config.file.parent / "endpoints" / "text.toml"
    content = text.read_text()
    seen = [version(published(materials, now=clock)(True))[0]]
    text.unlink()
    seen.append(version(published(gather(reloaded(materials.config.file)), now=clock)(True))[0])
    text.write_text(content)
    seen.append(version(published(gather(reloaded(materials.config.file)), now=clock)(True))[0])
    assert len(set(seen)) == 3


def test_the_two_forms_are_two_documents(materials: Materials) -> None:
    """With and without the hosted agents: different contents never share a version."""
    publication = published(materials)
    open_form, reserved = publication(True), publication(False)
    assert open_form["document_version"] != reserved["document_version"]
    assert "librarian" in str(open_form)
    assert materials.directory.hosted()[0].agent_id not in str(reserved)


def test_the_state_of_an_upstream_is_no_content(materials: Materials) -> None:
    """A tool server that restarts does not move the version: its state of the moment is left out."""
    box = Toolbox()
    publication = published(materials, box)
    first = publication(True)
    box.state = "backoff"
    assert publication(True) is first
    assert "ready" not in str(first["hosted_protocols"])


def test_the_history_is_private_and_replaced_whole(materials: Materials) -> None:
    """What was published when is for the host alone."""
    published(materials)(True)
    history = materials.config.host.state_dir / HISTORY
    assert history.stat().st_mode & 0o077 == 0


def test_an_unsigned_host_publishes_an_unsigned_manifest(tmp_path: Path) -> None:
    """Without a key the member is null, and verification says so."""
    manifest = published(gather(configured(tmp_path, append="\n[audit]\nsigning = false\n")))(True)
    with pytest.raises(JWSError):
        verify_manifest(manifest, {})
