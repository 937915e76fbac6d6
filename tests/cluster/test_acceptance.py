"""
What two hosts on one store promise, line by line: bad input and the test that shows its answer, and each acceptance.

A line without a test, or with one that is gone, fails here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tests.requirements import names_in

POSTGRES = "tests/stores/test_postgres"
CLUSTER = "tests/cluster/test_"

ACCEPTANCE: Mapping[str, Sequence[str]] = {
    "A1: the contract of stores and tests/audit; control: forks allowed": (
        "agtphost/testing/stores.py::test_a_chain_cannot_fork",
        f"{POSTGRES}.py::test_control_a_store_that_allows_forks_fails_the_contract",
        "tests/audit/test_second_writer.py::test_two_writers_make_one_log",
    ),
    "A2: rate and CPU beside SQLite; control: one round trip for each row": (
        f"{POSTGRES}_rate.py::test_a_commit_costs_little_more_than_one_to_a_file",
        f"{POSTGRES}_rate.py::test_control_a_round_trip_for_each_row_costs_more",
        f"{POSTGRES}_messages.py::test_a_group_of_plain_records_takes_one_round_trip",
    ),
    "A3: killed sessions, cut COMMITs, stops of the database; controls: no lock, early answers": (
        f"{POSTGRES}_failures.py::test_killed_sessions_lose_nothing",
        f"{POSTGRES}_failures.py::test_a_lost_answer_to_commit_is_found_out",
        f"{POSTGRES}_failures.py::test_a_commit_that_still_runs_is_waited_for",
        f"{POSTGRES}_failures.py::test_a_commit_that_no_longer_waits_for_its_replica_is_not_acknowledged",
        f"{POSTGRES}_failures.py::test_a_stopped_server_loses_nothing",
        f"{POSTGRES}_failures.py::test_control_a_question_without_the_lock_is_answered_wrong",
        f"{POSTGRES}_failures.py::test_control_an_answer_before_the_commit_loses_records",
    ),
    "A4: a start with a large store; control: heads by a scan": (
        f"{POSTGRES}_start.py::test_a_large_store_is_read_in_three_seconds",
        f"{POSTGRES}_start.py::test_a_start_asks_no_more_of_more_chains",
        f"{POSTGRES}_start.py::test_the_heads_are_found_by_an_index",
        f"{POSTGRES}_start.py::test_control_heads_by_a_scan",
    ),
    "A5: bad stores are refused by name; each with a sound one beside it": (
        f"{POSTGRES}.py::test_a_store_that_is_not_this_hosts_is_refused",
        f"{POSTGRES}_host.py::test_a_host_serves_restarts_and_is_verified",
    ),
    "A6: kill -9 under load; control: takeover before the lease's end": (
        f"{CLUSTER}takeover.py::test_a_killed_host_is_replaced_after_its_lease",
        f"{CLUSTER}takeover.py::test_control_a_host_that_takes_over_early_is_noticed",
    ),
    "A7: SIGTERM under load, and our client; controls: lease kept, calls made once": (
        f"{CLUSTER}takeover.py::test_a_host_that_stops_hands_over",
        f"{CLUSTER}takeover.py::test_control_a_lease_that_is_not_given_up_is_noticed",
        f"{CLUSTER}client_handover.py::test_no_repeatable_call_fails_at_a_hand_over",
        f"{CLUSTER}client_handover.py::test_control_without_seconds_calls_fail",
    ),
    "A8, A9: frozen or cut off, also with a stopped agent; controls: an old beat is trusted": (
        f"{CLUSTER}frozen.py::test_a_frozen_host_runs_no_handler_when_it_wakes",
        f"{CLUSTER}frozen.py::test_control_a_host_that_trusts_an_old_beat_runs_handlers",
        f"{CLUSTER}frozen.py::test_a_host_that_is_cut_off_from_its_store_runs_no_handler",
        f"{CLUSTER}frozen.py::test_control_a_host_that_is_cut_off_and_trusts_an_old_beat_runs_handlers",
    ),
    "A10: one of two standbys; control: UPDATE without WHERE": (
        f"{CLUSTER}takeover.py::test_of_two_standbys_one_takes_over",
        f"{POSTGRES}_lease.py::test_of_several_hosts_one_takes_the_lease",
        f"{POSTGRES}_lease.py::test_control_without_a_condition_several_hosts_take_the_lease",
    ),
    "A11: kept state; control: files alone": (
        f"{CLUSTER}kept_state.py::test_a_takeover_keeps_what_a_host_began",
        f"{CLUSTER}standby_host.py::test_a_host_with_another_signing_key_does_not_take_over",
        "tests/cluster/test_shared_numbers.py::test_no_number_is_used_for_two_contents",
    ),
    "A12: README's story, conformance cases, MCP conformance with takeovers": (
        f"{CLUSTER}readme_takeover.py::test_the_story_is_the_same_with_takeovers_between_its_steps",
        f"{CLUSTER}conformance_takeover.py::test_cases_pass_across_a_takeover_as_they_do_on_one_host",
        f"{CLUSTER}mcp_takeover.py::test_scenarios_pass_with_takeovers_between_them",
        f"{CLUSTER}mcp_takeover.py::test_sessions_of_the_older_revision_end_with_a_takeover",
    ),
    "A13: upgrade under load; control: a standby that is too old": (
        f"{CLUSTER}upgrade.py::test_hosts_are_upgraded_one_after_the_other",
        f"{CLUSTER}upgrade.py::test_a_standby_that_is_too_old_is_refused",
        f"{POSTGRES}_upgrade.py::test_a_running_host_goes_on_with_tables_that_only_grew",
    ),
    "A14: agtp up --hosts, compose, chart, label; control: a probe without standby=ok": (
        f"{CLUSTER}trial_hosts.py::test_the_manual_says_what_one_sees",
        f"{CLUSTER}trial_hosts.py::test_a_host_that_stops_hands_over_to_the_other",
        f"{CLUSTER}pod_label.py::test_the_label_follows_the_lease",
        "tests/supply/test_container.py::test_the_compose_file_is_one",
        "tests/supply/test_chart.py::test_the_deployment_replaces_pods_one_after_the_other",
        "tests/supply/test_chart.py::test_the_objects_are_ones_of_kubernetes",
    ),
}

BAD_INPUT: Mapping[str, Sequence[str]] = {
    "a database without a store, on a host that ran before": (
        f"{POSTGRES}_host.py::test_a_host_serves_restarts_and_is_verified",
    ),
    "a store of another server_id; of a later schema; of one below readable_from": (
        f"{POSTGRES}.py::test_a_store_that_is_not_this_hosts_is_refused",
        f"{CLUSTER}upgrade.py::test_a_standby_that_is_too_old_is_refused",
    ),
    "fsync, full_page_writes, synchronous_commit; SQL_ASCII; a replica; version 13": (
        f"{POSTGRES}.py::test_an_unsafe_setting_is_refused_at_connect",
        f"{POSTGRES}.py::test_an_unsafe_setting_of_the_server_is_refused",
        f"{POSTGRES}.py::test_a_database_of_another_encoding_is_refused",
        f"{POSTGRES}_refusals.py::test_full_page_writes_off_is_refused",
        f"{POSTGRES}_refusals.py::test_a_replica_is_refused_and_a_synchronous_one_is_demanded",
        f"{POSTGRES}_refusals.py::test_a_server_of_an_early_version_or_another_program_is_refused",
    ),
    "a pooler in transaction mode": (f"{POSTGRES}_refusals.py::test_a_pooler_in_transaction_mode_works",),
    "CockroachDB, YugabyteDB": (
        f"{POSTGRES}_refusals.py::test_a_server_of_an_early_version_or_another_program_is_refused",
    ),
    "a password in host.toml": (
        "tests/config/test_broken.py::test_a_wrong_configuration_is_reported_where_it_is_wrong",
        f"{POSTGRES}_refusals.py::test_a_right_password_is_taken_and_shown_nowhere",
        f"{POSTGRES}.py::test_no_message_has_the_password",
    ),
    "TLS: a server without it, a wrong name, expired; a weaker sslmode": (
        f"{POSTGRES}_refusals.py::test_the_certificate_of_the_server_is_verified",
        f"{POSTGRES}.py::test_a_server_without_tls_is_refused_beyond_this_machine",
        f"{POSTGRES}.py::test_a_way_that_others_can_pose_on_is_reported",
    ),
    "a role without rights; read-only; 53100; 53300": (
        f"{POSTGRES}_refusals.py::test_an_outage_is_503_within_a_second_and_is_over_unaided",
    ),
    "one [cluster] name; one state directory; other signing keys; another host.toml": (
        f"{CLUSTER}standby_host.py::test_a_host_with_the_name_of_another_is_refused",
        f"{CLUSTER}standby_host.py::test_a_host_with_another_signing_key_does_not_take_over",
        f"{CLUSTER}standby_host.py::test_cluster_status_compares_the_hosts",
    ),
    "a clock that is wrong by an hour": (
        f"{POSTGRES}_lease.py::test_a_clock_that_differs_is_reported_and_concerns_no_lease",
        f"{POSTGRES}.py::test_the_signed_time_never_goes_back",
        f"{CLUSTER}heartbeat.py::test_a_clock_that_begins_to_differ_is_reported_once",
    ),
    "a database restored to an earlier day while hosts run": (
        f"{CLUSTER}standby_host.py::test_a_database_that_was_restored_is_served_by_no_host",
        f"{POSTGRES}_lease.py::test_a_term_that_two_hosts_have_is_no_right_to_write",
    ),
    'serve = "all"; takeover_after = 0, -1, 1e9, "5"': (
        "tests/config/test_cluster.py::test_a_wrong_value_is_refused",
        "tests/config/test_cluster.py::test_a_right_value_is_taken_with_postgresql_alone",
    ),
    "a row of process, store or published edited by hand": (
        f"{POSTGRES}.py::test_a_row_of_the_store_that_was_edited_is_named_at_a_start",
        f"{POSTGRES}_refusals.py::test_a_row_of_the_store_that_is_edited_while_a_host_runs_is_named",
        f"{POSTGRES}_upgrade.py::test_a_row_of_a_process_that_was_edited_harms_nothing",
        f"{POSTGRES}_index.py::test_a_wrong_index_is_named",
        f"{POSTGRES}_index.py::test_what_no_record_has_signed_is_compared_too",
        "tests/cluster/test_shared_numbers.py::test_a_broken_row_keeps_the_host_from_starting",
    ),
    "beats, and a reactor that hangs": (
        f"{CLUSTER}frozen.py::test_a_host_whose_reactor_hangs_loses_the_lease",
        f"{CLUSTER}frozen.py::test_control_a_host_that_sends_beats_by_itself_keeps_it",
        "tests/system/test_systemd.py::test_a_host_that_hangs_is_not_alive",
    ),
    "a network that is cut for 1, 4, 6 and 60 s; 30 % loss; 200 ms delay": (
        f"{POSTGRES}_network.py::test_a_network_that_is_cut",
        f"{POSTGRES}_network.py::test_a_network_that_is_bad",
        f"{POSTGRES}_network.py::test_control_a_silent_network_is_waited_for_without_the_question",
    ),
}


def find_missing_tests(named: Iterable[str]) -> list[str]:
    """Return those that no file has."""
    return [test for test in named if test.partition("::")[2] not in names_in(test.partition("::")[0])]


def test_every_line_names_tests_that_are_there() -> None:
    """The control is a name that no test has."""
    named = [test for lines in (ACCEPTANCE, BAD_INPUT) for tests in lines.values() for test in tests]
    assert all([*ACCEPTANCE.values(), *BAD_INPUT.values()])
    assert find_missing_tests(named) == []
    absent = f"{named[0]}_of_old"
    assert find_missing_tests([absent]) == [absent]
