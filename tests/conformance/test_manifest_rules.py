"""The runner has a case for every rule that ``agtp manifest validate`` knows, and both see every breach of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import agtphost
from agtphost.cli.root import agtp
from agtphost.conformance.cases import every_case
from agtphost.conformance.cases.manifest_rules import case_of
from agtphost.conformance.runner import Outcome
from agtphost.contract.manifest_rules import RULES
from tests.conformance.manifest_defects import BREAKING, CONSEQUENCES
from tests.conformance.test_runner import examine
from tests.rows import each_row
from tests.system.hosting import Host
from tests.test_layering import imports

MAKERS = ("agtphost.contract.manifest", "agtphost.contract.built_in_contracts", "agtphost.host", "agtphost.methods")
"""What makes a host's manifest."""


def test_every_rule_has_a_case_and_a_host_that_breaks_it() -> None:
    """A rule that is added is looked for by the runner, and shown to be."""
    cases = {case.id for case in every_case()}
    assert {rule.id: case_of(rule) for rule in RULES.values() if case_of(rule) not in cases} == {}
    assert set(BREAKING) == set(RULES)
    assert all(rule.says.endswith(".") and rule.section for rule in RULES.values())


def validated(host: Host) -> tuple[int, dict[str, list[str]]]:
    """The exit status of ``agtp manifest validate``, and the rules of its faults and remarks."""
    config = str(host.config)
    words = ["manifest", "validate", f"agtp://127.0.0.1:{host.port}", "--config", config, "--json"]
    done = CliRunner().invoke(agtp, words, prog_name="agtp")
    answer = json.loads(done.stdout)
    return done.exit_code, {part: [found["rule"] for found in answer[part]] for part in ("faults", "remarks")}


@each_row("rule", sorted(BREAKING))
def test_a_breach_fails_its_case_alone_and_is_refused(defective_host: Host, rule: str) -> None:
    """
    Of the cases about manifests, exactly the rule's; ``manifest validate`` names the rule and no other.

    Nothing but the rule shows: the host signs and seals what it serves. What
    the drafts allow is remarked on, and at most unasked.
    """
    (defective_host.state / "defect").write_text(rule)
    results = {result.case.id: result for result in examine(defective_host, "manifest.*")}
    failed = {name for name, result in results.items() if result.outcome is Outcome.FAILED}
    case = case_of(RULES[rule])
    status, told = validated(defective_host)
    if RULES[rule].advice:
        assert told == {"faults": [], "remarks": [rule]} and status in (0, 4)
        assert failed == ({case} if results[case].outcome is Outcome.FAILED else set())
        assert results[case].outcome is not Outcome.PASSED
        return
    assert failed == {case} | CONSEQUENCES.get(rule, frozenset())
    assert set(told["faults"]) == {rule}
    assert status in (1, 4)


def test_a_sound_host_breaks_none(defective_host: Host) -> None:
    """The control: the same host without a defect is sound, without a remark."""
    (defective_host.state / "defect").write_text("none")
    assert validated(defective_host) == (0, {"faults": [], "remarks": []})


def closure(module: str) -> Iterator[str]:
    """A module, and whatever it imports of this project, and so on."""
    root = Path(agtphost.__file__).parent
    waiting, seen = [module], set[str]()
    while waiting:
        name = waiting.pop()
        path = root.joinpath(*name.split(".")[1:])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name in seen or not file.is_file():
            continue
        seen.add(name)
        yield name
        source = file.read_text()
        waiting.extend(imports(source))


@pytest.mark.parametrize("module", ["agtphost.contract.manifest_validation", "agtphost.conformance.cases"])
def test_what_judges_manifests_shares_nothing_with_what_makes_them(module: str) -> None:
    """An error there would pass on both sides."""
    used = set(closure(module))
    assert len(used) > 10
    assert [
        name for name in sorted(used) if (name in MAKERS or name.startswith(tuple(f"{maker}." for maker in MAKERS)))
    ] == []
