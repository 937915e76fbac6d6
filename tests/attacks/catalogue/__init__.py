"""The attacks, a module per topic; each module has a tuple ``ATTACKS`` of :class:`tests.attacks.attack.Attack`."""

from __future__ import annotations

import importlib
import pkgutil

from tests.attacks.attack import Attack


def attacks() -> list[Attack]:
    """All of them, topic by topic."""
    topics = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [attack for topic in topics for attack in importlib.import_module(f"{__name__}.{topic}").ATTACKS]
