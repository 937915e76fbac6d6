"""``agtp conformance`` against hosts that are as they should be, and against such that are not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from xml.etree import ElementTree

import pytest

from agtphost.client.local_identities import certified_agent
from agtphost.conformance.access import Access, Carrier, Role
from agtphost.conformance.case import Case
from agtphost.conformance.cases import every_case
from agtphost.conformance.link import Credentials, Endpoint, Unreachable
from agtphost.conformance.runner import CaseResult, Outcome, Plan, run
from agtphost.conformance.target import Target, connect
from agtphost.conformance.verdict import Failure
from agtphost.identity import genesis, manifest_signature
from agtphost.identity.keys import VerifyingKey
from tests.conformance.defects import DEFECTS, misordered
from tests.conformance.expected import EXPECTED
from tests.conformance.generated import generate
from tests.requirements import Row, table
from tests.rows import each_row
from tests.system.hosting import Host, agtp, sample

SAMPLE = "tests/conformance/test_runner.py::test_the_sample_host_passes"
GENERATED = "tests/conformance/test_runner.py::test_a_host_of_a_thousand_endpoints_passes"
WHOLE = frozenset({"API-139", "API-145"})
"""Requirements that a server meets all of the others, and that there is a runner."""


def access_to(host: Host, carrier: Carrier = Carrier.TLS) -> Access:
    """A host, as its demo agent and its registrar."""
    demo = host.state / "agents" / "demo"
    return Access(
        where=Endpoint(host="127.0.0.1", port=host.port),
        trust=host.state / "ca.pem",
        credentials={
            Role.AGENT: Credentials(
                cert=demo / "agent.pem", key=demo / "agent.key", agent_id=certified_agent(demo / "agent.pem")
            ),
            Role.REGISTRAR: Credentials(cert=host.state / "registrar.pem", key=host.state / "registrar.key"),
        },
        timeout=5,
        carrier=carrier,
    )


def examine(host: Host, *only: str, carrier: Carrier = Carrier.TLS) -> list[CaseResult]:
    """Run cases against a host."""
    with connect(access_to(host, carrier)) as target:
        return run(target, every_case(), Plan(only=only), lambda result: None)


def failed(results: Sequence[CaseResult]) -> set[str]:
    return {result.case.id for result in results if result.outcome is Outcome.FAILED}


def failures(results: Sequence[CaseResult]) -> list[str]:
    return [f"{item.case.id}: {item.message}" for item in results if item.outcome is Outcome.FAILED]


def test_the_sample_host_passes(sample_host: Host) -> None:
    """Every case that ran passes on the sample host, but for those of requirements still open."""
    results = examine(sample_host)
    assert failures(results) == []
    assert sum(result.outcome is Outcome.PASSED for result in results) >= 500
    assert unshown(results, relying_on(SAMPLE)) == []


def relying_on(test: str) -> list[Row]:
    """Rows of the requirements' table, but for those that the run as a whole shows."""
    return [row for row in table() if test in row.tests and row.id not in WHOLE]


def unshown(results: Sequence[CaseResult], rows: Sequence[Row]) -> list[str]:
    """What is wrong with rows of the requirements' table that rely on the cases of a run."""
    found = []
    for row in rows:
        citing = [result for result in results if row.id in result.case.requirements]
        waiting = [
            result.case.id for result in citing if result.outcome is Outcome.NOT_RUN and not is_of_carrier(result)
        ]
        if not citing or waiting:
            found.append(f"{row.id}: {', '.join(waiting) or 'no case cites it'}")
    return found


def is_of_carrier(result: CaseResult) -> bool:
    """Whether only a run over the other carrier can have the case."""
    return any(need.is_of_carrier for need in result.case.needs)


def test_a_row_that_relies_on_a_case_which_did_not_run_is_noticed(sample_host: Host) -> None:
    """The control: one row whose cases passed, one whose case was not run, one that no case cites."""
    results = examine(sample_host, "tls.*")
    ran = next(result for result in results if result.outcome is Outcome.PASSED and not result.case.needs)
    cited = ran.case.requirements[0]
    rows = [Row(id=name, strength="MUST", text="It is so.", shown=SAMPLE) for name in (cited, "NONE-999")]
    assert unshown([ran], rows) == ["NONE-999: no case cites it"]
    waiting = replace(ran, outcome=Outcome.NOT_RUN)
    assert unshown([ran, waiting], rows[:1]) == [f"{cited}: {ran.case.id}"]


def test_a_host_of_a_thousand_endpoints_passes(generated_host: Host) -> None:
    """The cases choose among a thousand generated endpoints, and all that ran pass."""
    results = examine(generated_host)
    assert failures(results) == []
    ran = {result.case.id for result in results if result.outcome is Outcome.PASSED}
    chosen = {"endpoint.schema-enum", "endpoint.schema-pattern", "endpoint.schema-bound", "status.262-scope-required"}
    assert chosen <= ran
    assert unshown(results, relying_on(GENERATED)) == []


@pytest.mark.release
def test_a_defective_host_without_defect_is_like_any_other(defective_host: Host) -> None:
    """The control: what spoils answers changes nothing by itself."""
    (defective_host.state / "defect").write_text("none")
    assert failures(examine(defective_host)) == []


@each_row("name", [name for name in DEFECTS if name != "none"])
def test_a_defect_fails_the_cases_that_it_must(defective_host: Host, name: str) -> None:
    """Each defect is noticed by exactly the cases that look for it."""
    patterns, fails = EXPECTED[name]
    (defective_host.state / "defect").write_text(name)
    results = examine(defective_host, *patterns)
    assert failed(results) == set(fails.split())


def test_an_error_in_the_code_of_both_sides_is_noticed(defective_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-081, AGTP-162: where the host's canonical form is wrong its own code agrees with itself; the cases do not."""
    errors = {
        "manifest-signed-out-of-order": "manifest.signature-verifies",
        "genesis-hashed-out-of-order": "identity.genesis-signature",
    }
    monkeypatch.setattr(manifest_signature, "canonical", misordered)
    monkeypatch.setattr(manifest_signature, "canonical_pieces", lambda members: [misordered(members)])
    monkeypatch.setitem(genesis.FORMS, "canonical", misordered)
    for defect, case in errors.items():
        (defective_host.state / "defect").write_text(defect)
        with connect(access_to(defective_host)) as target:
            keys = {kid: VerifyingKey.from_public_key(key) for kid, key in target.keys.items()}
            if defect.startswith("manifest"):
                manifest_signature.verify_manifest(target.manifest or {}, keys)
            else:
                genesis.Genesis.load(target.ask("DISCOVER", target.agent_path("genesis")).body)
        assert failed(examine(defective_host, case)) == {case}


def test_a_case_that_cannot_read_an_answer_fails() -> None:
    """API-145: of whatever kind; the run goes on, and what a case says by itself is its message."""

    def bad(error: Exception) -> Case:
        def check(target: Target) -> None:
            raise error

        return Case(id=f"own.{type(error).__name__}", requirements=("API-145",), title="It fails.", check=check)

    errors = (Failure("it is wrong"), Unreachable("it is gone"), KeyError("status"), TypeError(), ValueError())
    target = cast("Target", SimpleNamespace(last=None))
    results = run(target, [*map(bad, errors)], Plan(), lambda result: None)
    assert [result.outcome for result in results] == [Outcome.FAILED] * len(errors)
    assert results[0].message == "it is wrong" and "status" in results[2].message


def test_every_case_cites_requirements() -> None:
    """Ids are unique, titles are sentences, and every case cites a requirement; there are at least 250."""
    cases = every_case()
    assert len({case.id for case in cases}) == len(cases) >= 250
    for case in cases:
        assert case.requirements and all(item.partition("-")[2].isdigit() for item in case.requirements), case.id
        assert case.title.endswith(".") and "\n" not in case.title, case.id


def test_list_prints_every_case() -> None:
    """``--list`` needs no host, and shows id, requirements, title and needs."""
    listed = json.loads(agtp("conformance", "--list", "--json").stdout)
    assert [entry["id"] for entry in listed] == [case.id for case in every_case()]
    assert set(listed[0]) == {"id", "requirements", "title", "needs", "options"}
    plain = agtp("conformance", "--list", "--only", "AGTP-046").stdout.splitlines()
    assert plain and all("AGTP-046" in line for line in plain[:-1])


def test_command_reports_and_writes_junit(sample_host: Host, tmp_path: Path) -> None:
    """In a host's directory the command finds address and keys; the JUnit report has a suite for each area."""
    report = tmp_path / "report.xml"
    done = sample_host.agtp("conformance", "--only", "tls.*", "--only", "audit.*", "--junit", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith("0 failed, 0 not run")
    suites = ElementTree.parse(report).getroot().findall("testsuite")
    assert [suite.get("name") for suite in suites] == ["tls", "audit"]


def test_json_and_unmet_needs(sample_host: Host) -> None:
    """Without a certificate, cases that need one are reported as not run; ``--strict`` fails them."""
    words = ("conformance", "--no-cert", "--only", "tls.*")
    told = sample_host.agtp_json(*words)
    missing = [case for case in told["cases"] if case["outcome"] == "not run"]
    assert told["not_run"] == len(missing) == 2
    assert all("--cert" in case["message"] for case in missing)
    assert sample_host.agtp(*words, "--strict").returncode == 1


def test_exit_statuses(sample_host: Host) -> None:
    """Wrong usage is 2, no connection 3."""
    authority = str(sample_host.state / "ca.pem")
    assert agtp("conformance", "agtp://127.0.0.1:1", "--cacert", authority).returncode == 3
    assert sample_host.agtp("conformance", "--only", "nothing.*").returncode == 2
    assert sample_host.agtp("conformance", "--destructive").returncode == 2


def test_fail_fast_ends_the_run(defective_host: Host) -> None:
    """``--fail-fast`` ends with the first failure, which is exit status 1."""
    (defective_host.state / "defect").write_text("wrong-audit-id")
    done = defective_host.agtp("conformance", "--only", "audit.*", "--fail-fast")
    assert done.returncode == 1
    assert sum(line.startswith("FAILED") for line in done.stdout.splitlines()) == 1


def test_generated_endpoints_are_sound(tmp_path: Path) -> None:
    """What is generated passes ``agtp check``."""
    config = sample(tmp_path)
    generate(config, 60)
    done = agtp("check", str(config))
    assert done.returncode == 0, done.stdout
