"""Tests with many alike cases: `make test` runs some cases of each, `make campaign` all (part
`cases`).

All cases also run with ``pytest --all-cases``, and when a test is named (``-k``, or a path with
``::``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

SAMPLES = {
    "changes/test_audit_log.py::test_several_writers_at_once": 0,
    "cli/commands/test_completion.py::test_zsh_lists": 2,
    "cli/commands/test_demo.py::test_from_a_wheel_in_an_empty_environment": 0,
    "cli/commands/test_demo.py::test_the_demo_is_drawn": 1,
    "cli/test_faults.py::test_an_internal_error_prints_a_sentence_and_restores_the_terminal": 3,
    "cli/test_faults.py::test_no_terminal_input_ends_the_program": 2,
    "cli/test_fix_command.py::test_a_connection_that_is_lost_takes_it_back": 1,
    "cli/test_fix_command.py::test_a_dry_run_changes_nothing": 1,
    "cli/test_fix_command.py::test_over_ssh_a_lost_connection_takes_it_back": 1,
    "cli/test_fix_command.py::test_whatever_is_not_yes_is_no": 1,
    "cli/test_fix_command.py::test_without_a_terminal_to_answer_nothing_is_done": 1,
    "cli/test_main.py::test_a_closed_pipe_is_not_an_error": 1,
    "cli/test_main.py::test_closed_stdout_is_reported": 1,
    "cli/test_main.py::test_show_in_ascii": 1,
    "cli/test_replay_command.py::test_files_that_cannot_be_shown_are_refused": 2,
    "cli/test_setup_command.py::test_wrong_usage": 3,
    "cli/test_show_hosts.py::test_an_invalid_host_is_a_usage_error": 2,
    "cli/test_terminal_gone.py::test_nictop_ends_with_its_terminal_while_it_draws": 2,
    "cli/test_terminal_gone.py::test_the_terminal_is_as_before_after_a_signal": 3,
    "cli/test_traffic_command.py::test_without_the_rights_for_namespaces_it_is_loopback": 1,
    "cli/test_traffic_endings.py::test_a_signal_ends_the_screen_and_nothing_stays": 1,
    "cli/test_traffic_endings.py::test_an_interrupted_run_is_reported_as_stopped": 1,
    "cli/test_traffic_endings.py::test_interrupted_loaded_run_leaves_nothing": 2,
    "cli/test_traffic_endings.py::test_interrupted_run_leaves_nothing": 5,
    "cli/traffic/test_hosts.py::test_both_ends_go_when_nictop_does": 2,
    "hosts/test_connect.py::test_changes_are_allowed_only_if_requested": 2,
    "metrics/test_service.py::test_a_signal_ends_it_and_its_probe": 1,
    "metrics/test_service.py::test_other_addresses_than_loopback_cause_a_warning": 1,
    "model/test_history.py::test_the_history_of_many_series_is_shorter": 1,
    "model/text/test_glyphs.py::test_every_character_of_own_texts_has_an_ascii_form": 9,
    "probe/changes/test_changes.py::test_every_python_applies_and_undoes": 1,
    "probe/changes/test_changes_bridges_bonds.py::test_real_change_is_undone_and_confirmed": 5,
    "probe/changes/test_changes_networkmanager.py::test_undo_without_networkmanager": 2,
    "probe/inventory/configuration/test_collect.py::test_deeply_nested_files": 2,
    "probe/inventory/test_collect.py::test_every_python_takes_the_same_inventory": 2,
    "probe/test_main.py::test_every_python": 2,
    "probe/test_old_pythons.py::test_every_module_can_be_imported": 2,
    "probe/traffic/test_generators.py::test_every_python_runs_traffic_from_memory": 2,
    "recording/file/test_frames.py::test_a_decompression_bomb_is_limited": 1,
    "report/redaction/test_redaction.py::test_the_findings_are_the_same": 120,
    "report/test_in_a_browser.py::test_the_page_uses_the_preferred_colour_scheme": 1,
    "rules/test_no_rule_raises.py::test_healthy_hosts_with_mutations": 1,
    "rules/test_profiles_with_networkmanager.py::test_any_name_of_a_profile_can_be_pasted": 3,
    "rules/test_sources.py::test_a_rule_without_a_source_is_skipped": 90,
    "rules/test_sources.py::test_no_new_findings_while_managers_are_still_being_read": 90,
    "rules/test_without_readings.py::test_what_was_said_before_any_reading_is_no_longer_said_after_it": 90,
    "traffic/path/test_real_causes.py::test_rule_that_refuses": 2,
    "traffic/path/test_real_paths.py::test_discarding_route": 2,
    "traffic/path/test_real_paths.py::test_firewall_of_the_receiver": 3,
    "traffic/run/test_run.py::test_run_between_the_oldest_and_the_newest_python": 1,
    "traffic/run/test_run.py::test_runs_equal_the_json_report_of_the_other_end": 1,
    "traffic/run/test_run.py::test_stopped_run_has_what_was_measured": 1,
    "traffic/test_loaded_runs.py::test_cancelled_run_leaves_nothing": 4,
    "traffic/test_loaded_runs.py::test_path_of_two_machines_is_verified": 1,
    "traffic/test_loaded_runs.py::test_phases_of_a_run": 2,
    "traffic/test_run_firewall.py::test_arp_is_off": 1,
    "traffic/test_run_path.py::test_discarding_route": 2,
    "traffic/test_run_wire.py::test_goodput_equals_the_ceiling_of_the_wire": 0,
    "traffic/test_strange_iperf3.py::test_program_that_is_not_iperf3": 7,
    "tui/screens/changes/test_fix.py::test_hostile_names_and_small_terminals": 3,
    "tui/screens/changes/test_guided.py::test_hostile_names_and_small_terminals": 3,
    "tui/screens/dialogs/test_clicks.py::test_outside_and_on_the_key_that_closes": 3,
    "tui/screens/live/test_after_change.py::test_every_view_says_so_until_the_inventory_is_newer": 5,
    "tui/screens/live/test_connections.py::test_sizes": 2,
    "tui/screens/live/test_esxi.py::test_every_view_can_be_drawn": 8,
    "tui/screens/live/test_screen.py::test_any_size_draws": 3,
    "tui/screens/live/test_screen.py::test_more_below_is_marked": 2,
    "tui/screens/live/test_screen.py::test_no_name_is_obeyed": 2,
    "tui/screens/live/test_screen.py::test_queues_of_the_chosen_nic_and_its_cpus": 2,
    "tui/screens/test_every_key_answers.py::test_every_key_answers_in_every_view": 2,
    "tui/screens/test_findings.py::test_any_size_draws": 3,
    "tui/screens/test_frame.py::test_every_tab_from_every_tab": 2,
    "tui/screens/test_frame.py::test_help_and_quit_are_never_cut_and_hints_are_whole": 2,
    "tui/screens/test_palette.py::test_an_ascii_console_gets_only_ascii": 1,
    "tui/screens/test_palette.py::test_commands_are_found_by_their_text_and_their_help": 2,
    "tui/screens/test_replay.py::test_a_replay_draws_what_was_drawn_live": 1,
    "tui/screens/test_replay.py::test_the_demo_offers_only_what_works_in_a_recording": 1,
    "tui/screens/test_replay.py::test_the_demo_starts_with_traffic_on_the_chosen_nic": 1,
    "tui/screens/test_several_hosts.py::test_a_host_key_is_accepted_by_its_button_and_nothing_else": 3,
    "tui/screens/test_typed_fast.py::test_keys_that_end_it_typed_twice_end_it_once": 4,
    "tui/screens/test_typed_fast.py::test_nothing_is_drawn_on_a_screen_that_was_left": 4,
    "tui/screens/traffic/test_form.py::test_a_latency_test_from_the_form_and_its_recording": 1,
    "tui/screens/traffic/test_form.py::test_a_rate_that_may_lack_its_suffix_is_asked_about_where_it_is_typed": 2,
    "tui/screens/traffic/test_form.py::test_a_run_by_keys_alone_ends_with_its_result_on_the_screen_and_on_disk": 1,
    "tui/screens/traffic/test_form.py::test_quitting_during_a_run_is_confirmed_first": 1,
    "tui/screens/traffic/test_path_dialog.py::test_result_and_again": 1,
    "tui/widgets/devices/test_table.py::test_the_chosen_row_stays_in_sight": 2,
    "wire/esxi/test_probe.py::test_outputs_that_are_not_as_expected": 3,
    "wire/ssh/test_bundle.py::test_byte_code_made_by_another_local_python": 2,
    "wire/ssh/test_bundle.py::test_every_python_runs_the_bundle_from_memory": 2,
    "wire/ssh/test_bundle.py::test_stripping_does_not_change_the_program": 40,
    "wire/ssh/test_source.py::test_every_python_on_the_remote_host": 2,
}
"""Test below tests/ → number of its cases that `make test` runs: the first, the last and others in
between."""


def sampled(number: int, total: int) -> set[int]:
    """`number` of the positions 0 to `total` - 1, at equal distances; the first, and from two on
    the last."""
    if number == 1:
        return {0}
    return {round(step * (total - 1) / (number - 1)) for step in range(number)}


def left_out(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The collected cases that `make test` does not run."""
    cases = defaultdict(list)
    for item in items:
        name = item.nodeid.removeprefix("tests/").partition("[")[0]
        if name in SAMPLES:
            cases[name].append(item)
    return [
        item
        for name, all_cases in cases.items()
        for position, item in enumerate(all_cases)
        if position not in sampled(SAMPLES[name], len(all_cases))
    ]
