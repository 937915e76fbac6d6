"""Which metrics and labels alerts and dashboard under ``etc/`` name: enough of PromQL for that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ETC = Path(__file__).resolve().parents[2] / "etc"
ALERTS = ETC / "prometheus" / "alerts.yml"
DASHBOARD = ETC / "grafana" / "agtphost.json"

_TOKEN = re.compile(
    r"\"(?:\\.|[^\"\\])*\"|\$\{?\w+\}?|[0-9]+(?:\.[0-9]+)?(?:ms|[smhdwy])?|[a-zA-Z_:][\w:]*|=~|!~|!=|==|<=|>=|[^\s\w]"
)
_WORDS = {
    "and",
    "or",
    "unless",
    "bool",
    "offset",
    "on",
    "ignoring",
    "by",
    "without",
    "group_left",
    "group_right",
    "inf",
}
_GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}


def named(expression: str) -> tuple[set[str], set[str]]:
    """Metrics and labels that an expression names."""
    metrics: set[str] = set()
    labels: set[str] = set()
    tokens = _TOKEN.findall(expression)
    inside = ""
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if inside == "grouping":
            inside = "" if token == ")" else inside
            if token not in "(),":
                labels.add(token)
        elif inside == "selector":
            inside = "" if token == "}" else inside
            if following in ("=", "=~", "!=", "!~"):
                labels.add(token)
        elif inside == "range":
            inside = "" if token == "]" else inside
        elif token == "{":
            inside = "selector"
        elif token == "[":
            inside = "range"
        elif token in _GROUPING and following == "(":
            inside = "grouping"
        elif re.fullmatch(r"[a-zA-Z_:][\w:]*", token) and token not in _WORDS and not _is_function(tokens, at):
            metrics.add(token)
    return metrics, labels


def _is_function(tokens: list[str], at: int) -> bool:
    """``sum(x)`` or ``sum by (y) (x)``."""
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    return following == "(" or following in ("by", "without")


def wrong(expression: str, known: dict[str, set[str]]) -> Iterator[str]:
    """
    What an expression names that there is not.

    :param known: labels by metric.
    """
    metrics, labels = named(expression)
    for name in sorted(metrics - set(known)):
        yield f"no metric {name}"
    there = {"instance", "job"}.union(*(known.get(name, set()) for name in metrics))
    for name in sorted(labels - there):
        yield f"no label {name}"
    if not metrics:
        yield "no metric at all"


def rules() -> list[dict[str, Any]]:
    """The alerts."""
    (only,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return list(only["rules"])


def panels() -> list[dict[str, Any]]:
    """What the dashboard shows."""
    return list(json.loads(DASHBOARD.read_text())["panels"])


def shown(panel: dict[str, Any]) -> Iterator[str]:
    """The expressions of a panel, with what Grafana puts in."""
    for target in panel["targets"]:
        yield target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")


def expressions() -> Iterator[str]:
    """Those of alerts and dashboard."""
    yield from (rule["expr"] for rule in rules())
    for panel in panels():
        yield from shown(panel)
