"""No text of a foreign exception reaches users, except where the table here says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.foreign_texts import classes_of, places_in

ROOT = Path(__file__).resolve().parents[1] / "agtphost"

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "The exception is caught by its general class, and all that is raised there has a text of ours.": (
        "audit/witness.py:OperatorWitness.saw",
        "cli/failures.py:local_file",
        "cli/upstream/sections.py:_header",
        "client/mcp/endpoints.py:Endpoints.call",
        "config/witness_settings.py:_host_uri",
        "dispatch/decision_records.py:DecisionRecords.require",
        "host/admission.py:_place_operator_gates",
        "host/handler_factory.py:_headers",
        "host/newest_key.py:check_signing_key",
        "identity/envelope.py:from_text",
        "identity/issuance.py:read_statement",
        "identity/provisioning.py:_signing_key",
        "negotiation/contracts.py:ContractTable._bind",
        "negotiation/negotiator.py:Negotiator._issue",
        "negotiation/rcns.py:NegotiationLocks._deliver",
        "registry/card_fetcher.py:CardFetcher.__call__",
        "stores/record_rows.py:check_record",
        "stores/sql_reader.py:_value_of",
    ),
    "It goes into the log alone, where the original belongs.": (
        "adapters/mcp/catalogue.py:ToolCatalogue._list",
        "adapters/mcp/tools.py:_read",
        "audit/ledger.py:Ledger._sign_baseline",
        "audit/ledger.py:Ledger._checkpoint",
        "audit/ledger.py:Ledger._keep_cosignatures",
        "audit/ledger.py:Ledger._tidy",
        "audit/ledger.py:Ledger._forget",
        "audit/space.py:Space.hold_ballast",
        "dispatch/dispatcher.py:Dispatcher._admit",
        "audit/clock_watch.py:ClockWatch._submit",
        "host/file_rotation.py:FileRotation.startService",
        "host/file_rotation.py:FileRotation._follow",
        "host/notice_queue.py:NoticeQueue._finish_attempt",
        "host/oauth.py:IssuerKeys._check",
        "host/publication.py:Publication.find_form",
        "host/publication.py:Publication._count",
        "host/service_manager.py:ServiceManagerNotifier._send",
        "host/trust_anchors.py:AnchorKeys._check",
        "a2a/runs.py:TaskRuns._run",
        "search/vectors.py:VectorStore.keep",
        "upstream/cancellation.py:TaskCancellation._log_failure",
    ),
    "It becomes the original of a problem, or is read to choose a text of ours.": (
        "cli/host_config.py:hold_warnings",
        "contract/openapi/document_text.py:_yaml",
        "http/tls.py:https_options",
        "protocols/listener.py:server_endpoint",
        "protocols/tls.py:_present",
        "vocabulary/tomltext.py:_parse",
        "vocabulary/yamltext.py:decode",
        "client/blocking_connection.py:BlockingConnection.perform",
    ),
    "The exception is one of the operator's own Python code, who needs its text: a plugin, gate or handler.": (
        "adapters/operator_adapter.py:OperatorAdapter._list_tool",
        "adapters/operator_adapter.py:OperatorAdapter._call",
        "adapters/operator_adapter.py:OperatorAdapter._check_resolved",
        "audit/witness.py:OperatorWitness.last",
        "handlers/endpoint.py:hints_of",
        "handlers/function.py:resolve",
        "handlers/function_check.py:_require_call_alone",
        "host/evidence.py:open_configured",
        "host/feature_loading.py:_check",
        "host/feature_loading.py:_make_feature",
        "host/features.py:build_features",
        "host/server_pool.py:_Room.startService",
        "host/standby.py:StandbyHost._read_usable",
        "host/plugin_settings.py:_read_dataclass",
        "host/plugins.py:find_factory",
        "host/plugins.py:make_plugin",
        "methods/overrides.py:Overrides.answer",
    ),
    "What cannot be sent or recorded is a value of a Python program that uses the package, and no setting.": (
        "adapters/mcp/jsonrpc.py:JsonRpcPeer.request",
        "audit/record_references.py:render_body",
        "audit/transaction.py:Group.seal",
        "client/requests.py:_encode",
        "identity/canonical.py:canonical",
        "identity/canonical.py:ascii_escaped",
        "methods/standard/pure/validate.py:_toml",
    ),
    "An answer or a document of another program is examined, and the text says what is wrong in it.": (
        "adapters/mcp/streamable_http.py:HttpLink._take_text",
        "audit/export.py:_record",
        "audit/export.py:keys_of",
        "conformance/runner.py:_outcome",
        "a2a/runs.py:TaskRuns.begin",
    ),
    "It runs between fork and exec, and imports nothing.": ("adapters/mcp/launcher.py:exec_command",),
}
"""By the reason: the functions in which the text of a foreign exception is taken as it is."""


def find_places(folder: Path) -> Counter[str]:
    """Return how often each function of a package takes the text of a foreign exception."""
    own = classes_of(folder)
    found: Counter[str] = Counter()
    for file in sorted(folder.rglob("*.py")):
        for function, count in places_in(file.read_text(encoding="utf-8"), own).items():
            found[f"{file.relative_to(folder).as_posix()}:{function}"] += count
    return found


def test_each_foreign_text_has_a_reason() -> None:
    """A new place uses :func:`agtphost.vocabulary.foreign_errors.explain`, or says here why not."""
    allowed, found = [place for places in ALLOWED.values() for place in places], find_places(ROOT).keys()
    assert len(allowed) == len(set(allowed))
    assert sorted(found - set(allowed)) == [], "explain() these, or say why not"
    assert sorted(set(allowed) - found) == [], "these are gone: remove them"


def test_control_a_foreign_text_is_found() -> None:
    """The text of an error of the system, of SQLite or of Click is found; an explained one and one of ours are not."""
    template = "def read(path):\n    try:\n        pass\n    except {} as error:\n        raise Ours({}) from None\n"
    own = frozenset({"StoreError", "KeyFormatError"})
    for kind in (
        "OSError",
        "sqlite3.Error",
        "SSL.Error",
        "(StoreError, psycopg.Error)",
        "click.UsageError",
        "ValueError",
    ):
        for text in ('f"it fails: {error}"', 'f"it fails: {error!r}"', "str(error)", "error.strerror", "error.msg"):
            assert places_in(template.format(kind, text), own) == {"read": 1}, (kind, text)
        for text in ('f"it fails: {explain(error)}"', "original_of(error)", '"it fails"'):
            assert places_in(template.format(kind, text), own) == {}, (kind, text)
    assert places_in(template.format("(StoreError, KeyFormatError)", "str(error)"), own) == {}
    assert places_in("def fail(failure):\n    say(failure.getErrorMessage())\n", own) == {"fail": 1}
