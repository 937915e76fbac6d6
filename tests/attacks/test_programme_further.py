"""The programme, shortened, on hosts that are configured for their attacks: see ``test_programme.py``."""

from __future__ import annotations

import pytest

from tests.attacks.attack import Attack
from tests.attacks.shared_hosts import FURTHER, Hosts, as_parameters, withstands
from tests.attacks.shared_hosts import hosts as hosts


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.parametrize("attack", as_parameters(FURTHER))
def test_the_host_withstands(hosts: Hosts, attack: Attack) -> None:
    """Its bounds of memory and disk hold, its answers are right, and no honest call fails."""
    withstands(hosts, attack)
