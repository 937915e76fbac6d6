"""``[limits]`` rates, ``[delegation]`` and ``[[policies.scope_dimensions]]``."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from agtphost.config import load
from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import load_endpoints
from agtphost.contract.prices import PriceList
from agtphost.errors import ConfigurationError
from agtphost.host.admission import bound_gates
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary.catalog import Catalog
from tests.config.test_load import loaded
from tests.contract.declarations import SOUND


def test_defaults_bound_every_caller_generously(tmp_path: Path) -> None:
    """AGTP-078, AGTP-313: there is always a rate, per agent, per principal and per address."""
    config = loaded(tmp_path)
    limits = config.limits
    assert (limits.requests_per_minute, limits.requests_per_minute_per_principal) == (600_000, 6_000_000)
    assert (limits.anonymous_requests_per_minute, limits.rate_burst) == (6_000, 60.0)
    given = config.delegation
    assert (given.max_depth, given.max_deadline, given.zone_bound) == (5, 300.0, False)
    assert not bound_gates(config, (), PriceList(config.methods.price))


def test_everything_can_be_set(tmp_path: Path) -> None:
    """Keys of governance platforms in the file or beside it; scope dimensions become a gate."""
    key = SigningKey.generate().public
    key.save(tmp_path / "gov.pub")
    config = loaded(
        tmp_path,
        f"""
[limits]
requests_per_minute = 5

[delegation]
max_depth = 2
zone_bound = true
governance = {{ "gov.one" = "{key.text}", "gov.two" = "file:gov.pub" }}

[[policies.scope_dimensions]]
name = "tokens"
method = "SUMMARIZE"
path = "/"
parameter = "max_tokens"
maximum = 500
unless_scope = "documents:large"
""",
    )
    assert dict(config.delegation.governance) == {"gov.one": key, "gov.two": key}
    assert [gate.name for gate in bound_gates(config, (), PriceList(config.methods.price))] == ["scope dimensions"]


RULE = '[[policies.scope_dimensions]]\nname = "t"\nmethod = "QUERY"\nparameter = "n"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[limits]\nrequests_per_minute = 0\n", "requests_per_minute"),
        ("[delegation]\nmax_depth = 6\n", "max_depth"),
        ('[delegation]\ngovernance = { x = "nonsense" }\n', "governance"),
        ('[delegation]\ngovernance = { x = "file:absent.pub" }\n', "governance"),
        (RULE, "maximum and allowed"),
        (RULE + 'maximum = 1\nallowed = ["x"]\n', "maximum and allowed"),
        (RULE + 'maximum = "x"\n', "maximum"),
        (RULE + 'maximum = 1\nunless_scope = "X"\n', "unless_scope"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    """A start error that names the key and its line."""
    path = tmp_path / "host.toml"
    path.write_text('[host]\nserver_id = "h"\nprofile = "development"\n' + text)
    with pytest.raises(ConfigurationError) as caught:
        load(path, {})
    assert any(message in str(problem) and problem.line for problem in caught.value.problems), str(caught.value)


def test_an_endpoint_says_what_it_costs(tmp_path: Path) -> None:
    """AGTP-054, AGTP-321: ``cost`` becomes Cost-Estimate; one in another form keeps the endpoint out."""
    (tmp_path / "a.toml").write_text('cost = "tokens=500, USD=0.02"\n' + SOUND)
    [endpoint], problems = load_endpoints(tmp_path, Rules(catalog=Catalog.load()))
    assert not problems
    binding = endpoint.bind(object())  # type: ignore[arg-type]
    assert binding.cost == {"tokens": Decimal(500), "USD": Decimal("0.02")}
    assert ("Cost-Estimate", "tokens=500, USD=0.02") in binding.headers
    for wrong in ('"tokens=1.5"', '"x"', "5"):
        (tmp_path / "a.toml").write_text(f"cost = {wrong}\n" + SOUND)
        found, [problem] = load_endpoints(tmp_path, Rules(catalog=Catalog.load()))
        assert not found
        assert "cost" in problem.message and problem.line
