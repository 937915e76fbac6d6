"""Alerts and dashboard under ``etc/`` ask for nothing that a host does not tell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agtphost.metrics.call_counts import CallCounts
from tests.metrics.promql import ALERTS, named, panels, rules, shown, wrong
from tests.metrics.samples import METHODS, group, record, scraped, vitals
from tests.rows import each_row

ROOT = Path(__file__).resolve().parents[2]
PROMTOOL = shutil.which("promtool")


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Labels by metric, of a host that has something of everything; and what Prometheus adds itself."""
    counts = CallCounts(METHODS, agents=True)
    counts.count_group(group(record(caller="desk")))
    found: dict[str, set[str]] = {"up": {"job", "instance"}}
    for name, labels in scraped(counts, vitals(open_items={"escalation": 1, "approval": 1})):
        found.setdefault(name, set()).update(label for label, _ in labels)
    return found


@each_row("rule", rules, ids=lambda rule: str(rule["alert"]))
def test_an_alert_asks_for_what_there_is(rule: dict[str, Any], known: dict[str, set[str]]) -> None:
    """And says how grave it is, and of which host."""
    assert list(wrong(rule["expr"], known)) == []
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert "{{ $labels.instance }}" in rule["annotations"]["summary"]
    assert "instance" not in named(rule["expr"])[1] or "by (instance" in rule["expr"]


@each_row("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_asks_for_what_there_is(panel: dict[str, Any], known: dict[str, set[str]]) -> None:
    """In each of its expressions; it has a place, and a number of its own."""
    for expression in shown(panel):
        assert list(wrong(expression, known)) == [], expression
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    assert len({each["id"] for each in panels()}) == len(panels())


def test_every_alert_that_operators_need_is_there() -> None:
    """One for each thing that can go wrong; all of them have names of their own."""
    names = [rule["alert"].removeprefix("AGTP") for rule in rules()]
    assert len(set(names)) == len(names)
    assert set(names) >= {
        *("HostDown", "HostNotReady", "LedgerFailing", "RefusalsHigh", "CallsSlow", "UpstreamDown"),
        *(
            "CertificateExpiring",
            "ExpiringSoon",
            "CheckpointOld",
            "WitnessOld",
            "DiskLow",
            "ApprovalsWaiting",
            "SpansLost",
        ),
    }


@each_row(
    ("expression", "found"),
    [
        ("agtphost_gone == 0", ["no metric agtphost_gone"]),
        ("sum by (tool) (rate(agtphost_calls_total[5m]))", ["no label tool"]),
        ('rate(agtphost_calls_total{cause!=""}[5m])', ["no label cause"]),
        (
            "histogram_quantile(0.99, sum by (le) (rate(agtphost_call_second_bucket[5m])))",
            ["no metric agtphost_call_second_bucket", "no label le"],
        ),
        ("agtphost_calls[5m] or up", ["no metric agtphost_calls"]),
        ("1 + 1", ["no metric at all"]),
        ('sum by (method, status) (rate(agtphost_calls_total{reason=~"a|b"}[5m])) > 0.5 and up == 1', []),
    ],
)
def test_control_a_wrong_expression_is_noticed(expression: str, found: list[str], known: dict[str, set[str]]) -> None:
    """A metric that was renamed, a label that there never was."""
    assert list(wrong(expression, known)) == found


needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *words], capture_output=True, text=True, timeout=120, check=False)


@needs_promtool
def test_prometheus_itself_takes_the_alerts(tmp_path: Path) -> None:
    """And the page's configuration with them; what is broken it does not take."""
    page = (ROOT / "docs" / "metrics.rst").read_text()
    block = page[page.index("    scrape_configs:") :].split("\n\n")[0]
    config = tmp_path / "prometheus.yml"
    config.write_text("\n".join(line[4:] for line in block.splitlines()) + "\n")
    shutil.copy(ALERTS, tmp_path)
    done = promtool("check", "config", str(config))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules())} rules found" in done.stdout
    broken = tmp_path / "broken.yml"
    broken.write_text(ALERTS.read_text().replace("agtphost_ready == 0", "agtphost_ready == = 0"))
    assert promtool("check", "rules", str(broken)).returncode != 0


FIRING = (Path(__file__).parent / "firing.yml").read_text()


@needs_promtool
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """On hosts that refuse half of their calls, lack an upstream and are slow; and not on one that is well."""
    shutil.copy(ALERTS, tmp_path)
    cases = tmp_path / "cases.yml"
    cases.write_text(FIRING)
    done = promtool("test", "rules", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr
    quiet = FIRING.replace('values: "2x30"', 'values: "0x30"')
    assert quiet != FIRING
    cases.write_text(quiet)
    assert promtool("test", "rules", str(cases)).returncode != 0, "the control"
