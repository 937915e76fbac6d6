"""The attacks, a module per topic; each module has a tuple ``ATTACKS`` of :class:`tests.attacks.attack.Attack`."""
