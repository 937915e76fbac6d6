"""``agtp conformance`` over QUIC: the verdicts are those of TLS, but for cases that need a byte stream of TCP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agtphost.conformance.access import Carrier
from agtphost.conformance.case import Case
from agtphost.conformance.cases import every_case
from agtphost.conformance.runner import CaseResult, Outcome, Plan, run
from agtphost.conformance.target import Target, connect
from agtphost.conformance.verdict import Need
from tests.conformance.conftest import QUIC
from tests.conformance.quic_defects import DEFECTS
from tests.conformance.raw_answers import Answers, differing, run_recorded
from tests.conformance.test_runner import access_to, failures
from tests.rows import each_row
from tests.system.hosting import Host, running, sample

OF_TCP = {
    *("tls.cleartext-refused", "tls.cleartext-http-refused", "tls.serves-after-cleartext"),
    *("tls.version-1-2-refused", "tls.certificate-of-unknown-authority"),
    *("wire.pipelined-in-order", "wire.pipelined-mixed", "wire.not-later", "wire.short-body-is-not-a-request"),
    "wire.answered-before-close",
}
"""The cases that cannot be run over QUIC."""

FEW = ("tls.*", "wire.pipelined-*", "wire.field-many", "wire.length-zero", "wire.three-*", "headers.supported-methods")


def of_carriers(case: Case) -> bool:
    return any(need.is_of_carrier for need in case.needs)


def verdicts(results: Sequence[CaseResult]) -> dict[str, tuple[Outcome, str]]:
    """Outcome and message of each case that both carriers have."""
    return {item.case.id: (item.outcome, item.message) for item in results if not of_carriers(item.case)}


def test_cases_that_need_a_byte_stream_are_listed() -> None:
    """They declare it, and no other case does."""
    assert {case.id for case in every_case() if Need.BYTE_STREAM in case.needs} == OF_TCP


def test_some_cases_pass_over_quic(defective_host: Host) -> None:
    """The command runs them over QUIC; those of TCP are reported as not run, which ``--strict`` does not count."""
    (defective_host.state / "defect").write_text("none")
    only = [word for pattern in FEW for word in ("--only", pattern)]
    found = defective_host.agtp_json("conformance", "--quic", "--strict", *only)
    outcomes = {case["id"]: case["outcome"] for case in found["cases"]}
    assert {name for name, outcome in outcomes.items() if outcome == "not run"} == OF_TCP & set(outcomes)
    assert {"wire.field-many", "wire.three-on-one-connection", "tls.client-certificate"} <= set(outcomes)
    assert set(outcomes.values()) == {"passed", "not run"}
    [told] = {case["message"] for case in found["cases"] if case["outcome"] == "not run"}
    assert "byte stream" in told


def examine_defect(host: Host, name: str, *only: str, timeout: float = 30.0) -> set[str]:
    """
    The cases of QUIC that notice a defect.

    :param timeout: of each wait, and longer where it was too short for a handshake.
    """
    (host.state / "defect").write_text(name)
    with Target(replace(access_to(host, Carrier.QUIC), timeout=timeout)) as target:
        results = run(target, every_case(), Plan(only=only), lambda result: None)
    if any(result.outcome is Outcome.NOT_RUN or "no QUIC to" in result.message for result in results):
        assert timeout < 30, results
        return examine_defect(host, name, *only)
    return {result.case.id.removeprefix("quic.") for result in results if result.outcome is Outcome.FAILED}


def examine_its_cases(host: Host, name: str) -> set[str]:
    """The cases that notice a defect, of those that may; the wait is short: many a defect is that nothing comes."""
    defect = DEFECTS[name]
    only = [f"quic.{case}" for case in (*defect.cases.split(), *defect.sometimes.split())]
    return examine_defect(host, name, *only, timeout=0.4) - {*defect.sometimes.split()}


@each_row("name", DEFECTS)
def test_a_defect_of_quic_fails_its_cases(defective_host: Host, name: str) -> None:
    """Each defect is noticed by the cases that look for it."""
    assert examine_its_cases(defective_host, name) == {*DEFECTS[name].cases.split()}


def test_a_host_without_defect_passes_the_cases_of_quic(defective_host: Host) -> None:
    """The control: every case of QUIC passes, and each has a defect that it notices."""
    assert examine_defect(defective_host, "none", "quic.*") == set()
    noticed = {f"quic.{case}" for defect in DEFECTS.values() for case in defect.cases.split()}
    assert noticed == {case.id for case in every_case() if Need.QUIC in case.needs}


@pytest.mark.release
def test_a_defect_of_quic_fails_no_other_case(defective_host: Host) -> None:
    """Each defect is noticed by no other case of QUIC, however long that takes; the last lets no client in."""
    every = {case.id for case in every_case() if Need.QUIC in case.needs}
    for name, defect in [*DEFECTS.items()][:-1]:
        its = {f"quic.{case}" for case in (*defect.cases.split(), *defect.sometimes.split())}
        assert examine_defect(defective_host, name, *(every - its)) == set(), name


def ask_both(host: Host, *only: str, defect: str = "none") -> dict[Carrier, Answers]:
    """Return the answers of some cases over both carriers; those over QUIC of a host that may have a defect."""
    found = {}
    chosen = [case for case in every_case() if not of_carriers(case) and Plan(only=only).selects(case)]
    for carrier, its in ((Carrier.TLS, "none"), (Carrier.QUIC, defect)):
        (host.state / "defect").write_text(its)
        with connect(access_to(host, carrier)) as target:
            _, found[carrier] = run_recorded(target, chosen, host.port)
    return found


def test_answers_to_malformed_requests_are_those_of_tls(defective_host: Host) -> None:
    """The same octets get the same answer over both carriers, but for identifiers and times."""
    found = ask_both(defective_host, "wire.*", "path.form-*", "path.leak-*")
    assert differing(found[Carrier.TLS], found[Carrier.QUIC]) == {}
    answers = [each for case in found[Carrier.QUIC].values() for each in case]
    assert len(answers) > 150
    assert sum('"result_hash":"<id>"' in each for each in answers) > 150, "what their records say"


def test_another_answer_is_noticed(defective_host: Host) -> None:
    """The control: hosts whose answers over QUIC lack a field, or have another status."""
    for defect, only in (("no-server-id", "headers.server-id-is-one"), ("404-for-459", "catalog.refused-digits")):
        found = ask_both(defective_host, only, defect=defect)
        assert [*differing(found[Carrier.TLS], found[Carrier.QUIC])] == [only]


@pytest.mark.release
def test_verdicts_and_answers_are_those_of_tls(tmp_path: Path) -> None:
    """Every case that does not need the byte stream of TCP passes over both carriers, on a fresh host each."""
    found, answers = {}, {}
    for carrier in Carrier:
        (folder := tmp_path / carrier.value).mkdir()
        with running(sample(folder, eager=True, append=QUIC)) as host, connect(access_to(host, carrier)) as target:
            results, answers[carrier] = run_recorded(target, every_case(), host.port)
        assert failures(results) == []
        found[carrier] = verdicts(results)
    assert found[Carrier.QUIC] == found[Carrier.TLS]
    assert sum(outcome is Outcome.PASSED for outcome, _ in found[Carrier.QUIC].values()) > 700
    for case in every_case():
        if of_carriers(case):
            del answers[Carrier.TLS][case.id], answers[Carrier.QUIC][case.id]
    assert differing(answers[Carrier.TLS], answers[Carrier.QUIC]) == {}
    assert sum(map(len, answers[Carrier.QUIC].values())) > 900
