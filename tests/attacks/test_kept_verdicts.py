"""The attack on verdicts that gates keep notices every way in which one can be kept too long."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.attacks import faulty_host
from tests.attacks.catalogue.kept_verdicts import kept_verdicts, with_surfaces
from tests.attacks.site import copied, made, serving

NOTICED = {
    "unconditional": (
        *("suspended by agtp", "revoked by gateway", "limited by front", "restated by agtp", "expiring by gateway"),
        *("suspended by gateway with a token", "limited by gateway with a token"),
    ),
    "stale": ("stricter by agtp: ECHO gone", "stricter by gateway: ECHO narrow", "stricter by front: RESERVE desk"),
    "unrevoked": ("certified by agtp: ECHO desk", "certified by gateway: ECHO desk", "certified by front: list_files"),
    "trusting": ("token by gateway with a token: ECHO desk", "token by front with a token: list_files"),
    "approving": ("a call that a person approves is not held",),
    "lasting": ("expiring by agtp", "expiring by front", "an ended approval by agtp", "an ended approval by front"),
}
"""What the attack says of a host with each fault, among other things."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("kept"))


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("fault", NOTICED)
def test_a_verdict_that_is_kept_too_long_is_noticed(template: Path, tmp_path: Path, fault: str) -> None:
    """Controls: a host that does not ask again is reported, by the change and the surface."""
    config = copied(template, tmp_path / "site")
    with_surfaces(config.parent)
    prefix = (sys.executable, str(faulty_host.__file__), fault)
    with serving(config, None, prefix) as site, pytest.raises(AssertionError) as found:
        kept_verdicts(site, 1)
    assert [each for each in NOTICED[fault] if each not in str(found.value)] == [], str(found.value)
