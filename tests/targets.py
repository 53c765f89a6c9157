"""Which of the Makefile's targets runs a test: each test belongs to exactly one.

- ``unit`` (``make test-unit``): in this process, without a service, Java or a network.
- ``standard`` (``make test`` has it beside ``unit``): each promise once, against real services.
- ``night`` (``make test-night``): more of the same kind, and what takes long.
- ``alone`` (``make test-night``, at its end): measures this machine, so that nothing else may run beside it.

What is in no list here is ``standard``. All lists hold beginnings of test ids. Tests of which the parameters tell apart
what is for every day carry the mark ``night`` themselves (``tests/faults``).
"""

from collections.abc import Mapping, Sequence

import pytest

TARGETS = ("unit", "standard", "night", "alone")

UNIT = ("tests/unit/", "tests/bench/", "tests/dev/", "tests/documents/", "tests/model/")

# By the reason why they are not for every change.
NIGHT: Mapping[str, Sequence[str]] = {
    # `.ci/run` runs the first of them after `make test`, by its id.
    "builds an image and runs it": ("tests/container/",),
    "hundreds of batches through this sink and through the one that quixstreams ships": ("tests/parity/",),
    "needs a browser": ("tests/integration/test_status_page_states.py",),
    "downloads and runs a peer of the benchmark": ("tests/integration/test_bench_iceberg.py",),
    "downloads 159 MB and starts them in half a minute; a small registry is for every day": (
        "tests/e2e/test_schema_registry.py::test_a_real_registry",
        "tests/e2e/test_schema_registry.py::test_json_schema",
    ),
    "downloads a Spark of its own, and starts it three times; the other engines are for every day": (
        "tests/integration/test_iceberg_engines.py::test_spark",
    ),
    "eight processes that each load pyiceberg; threads in tests/unit/catalog are for every day": (
        "tests/integration/test_iceberg_catalog.py::test_processes",
    ),
    "other stores and catalogs, dead members, outages, and procedures of the Spark above": (
        "tests/e2e/test_iceberg.py::test_each_row_is_there_once",
        "tests/e2e/test_iceberg.py::test_a_catalog_of_another_kind",
        "tests/e2e/test_iceberg.py::test_a_catalog_that_is_away",
        "tests/e2e/test_iceberg.py::test_engines_maintain",
        "tests/e2e/test_iceberg.py::test_removing_orphans",
    ),
    "kills members for minutes": ("tests/faults/test_crash_loop.py",),
    "half a minute each; windows are killed every day": (
        "tests/faults/test_framework_lane.py::test_every_row_is_there_once_after_deaths_at_each_step[expanded]",
        "tests/faults/test_framework_lane.py::test_every_row_is_there_once_after_deaths_at_each_step[failing]",
        "tests/faults/test_framework_lane.py::test_every_row_is_there_once_after_deaths_at_each_step[filtered]",
        "tests/faults/test_framework_lane.py::test_bad_records_between_good_ones_are_there_once_after_deaths",
        "tests/faults/test_framework_lane.py::test_a_member_that_was_frozen",
    ),
    "waits in real time; the store is away every day": (
        "tests/faults/test_real_outages.py::test_what_is_away_is_named_and_waited_for[the catalog]",
        "tests/faults/test_real_outages.py::test_what_is_away_is_named_and_waited_for[Kafka]",
        "tests/faults/test_real_outages.py::test_who_never_answers",
    ),
    "the checks of the command one by one; all of them together are for every day": (
        "tests/e2e/test_check.py::test_in_a_folder",
        "tests/e2e/test_check.py::test_what_transform_builds",
        "tests/e2e/test_check.py::test_nobody_is_there",
        "tests/e2e/test_check.py::test_all_are_there",
        "tests/e2e/test_check.py::test_a_type_that_contradicts",
        "tests/e2e/test_check.py::test_the_table_lies_where",
    ),
    "seconds each, while librdkafka tries again; the right ones are for every day": (
        "tests/integration/test_kafka_logins.py::test_a_wrong_login_names_its_variable",
    ),
    "half a minute of an outage of Kafka": (
        "tests/faults/test_topic_group_and_cluster.py::test_answers_that_come_late_after_an_outage",
    ),
    "a minute of a real group that reads its topic's metadata anew": (
        "tests/e2e/test_topics_and_groups.py::test_a_deleted_topic_stays_deleted",
    ),
    "hundreds of megabytes, or minutes of Java": (
        "tests/e2e/test_hostile_topic.py",
        "tests/e2e/test_schema_in_a_batch.py",
        "tests/integration/test_big_records.py",
        "tests/integration/test_dictionaries.py",
        "tests/faults/test_full_disk.py::test_a_disk_that_fills_up_amid",
        "tests/faults/test_full_disk.py::test_a_disk_that_is_full_when_spark_starts",
        "tests/integration/test_readers.py",
        "tests/integration/test_engines_page.py",
        "tests/integration/test_compact.py::test_on_a_cluster",
        "tests/integration/test_partition_values.py",
        "tests/integration/test_spark.py::test_java_gets_its_objects_back_where_nothing_else_collects",
    ),
    "a process for each case of a command, of which units test the parts": (
        "tests/integration/test_customise_page.py",
        "tests/integration/test_try.py",
        "tests/integration/test_replay.py",
    ),
    "the same promise with another value; one of them is for every day": (
        "tests/e2e/test_no_secret_is_told.py::test_in_trouble[a store that is away]",
        "tests/e2e/test_no_secret_is_told.py::test_in_trouble[an Azure that is away]",
        "tests/e2e/test_no_secret_is_told.py::test_in_trouble[a Google key that is none]",
        "tests/e2e/test_no_secret_is_told.py::test_in_trouble[a platform",
        "tests/e2e/test_no_secret_is_told.py::test_in_trouble[passwords",
        "tests/e2e/test_no_secret_is_told.py::test_refused_by_the_catalog",
        "tests/e2e/test_refusals.py::test_a_missing_bucket_is_created_only_if_a_setting_says_so[True]",
        "tests/faults/test_odd_moments.py::test_rows_of_a_partition_that_another_member_has_by_now_are_forgotten[given",
        "tests/faults/test_kill_points.py::test_java_dies_between_two_steps",  # and tests/e2e/test_outages.py
        "tests/faults/test_silent_keys.py::test_a_store_that_is_away_makes_no_key_silent[one by one]",
        "tests/faults/test_silent_keys.py::test_a_partition_that_waits_for_its_journal_has_no_silent_keys[one",
    ),
    "half a minute each; a killed owner and an expired record are for every day": (
        "tests/faults/test_half_uploaded_batches.py::test_a_record_that_expired_and_gives_no_row",
        "tests/faults/test_half_uploaded_batches.py::test_an_upload_that_comes_after_the_next_owner_has_begun_doubles_nothing[frozen",
        "tests/faults/test_half_uploaded_batches.py::test_an_upload_that_outlasts_a_revocation",
    ),
    "thousands of objects": (
        "tests/integration/storage/test_behaviour.py::test_more_objects_than_a_page",
    ),
    "seconds each; others of their kind are for every day": (
        "tests/unit/convert/test_both_ways_agree.py::test_odd_batches",
        "tests/unit/convert/test_rows_names.py::test_records_with_names_of_their_own_do_not_take_the_square",
    ),
}  # fmt: skip


def of(item: pytest.Item) -> str:
    """The target of a test."""
    if item.get_closest_marker("alone"):
        return "alone"
    if item.get_closest_marker("night") or reason(item.nodeid):
        return "night"
    return "unit" if item.nodeid.startswith(UNIT) else "standard"


def reason(nodeid: str) -> str | None:
    """Why the test is slow."""
    return next((why for why, begins in NIGHT.items() if nodeid.startswith(tuple(begins))), None)


def without_tests(nodeids: Sequence[str]) -> list[str]:
    """What is listed here and does not begin any of these ids: outdated, if they are of all tests."""
    listed = [*UNIT, *(begin for begins in NIGHT.values() for begin in begins)]
    return [begin for begin in listed if not any(nodeid.startswith(begin) for nodeid in nodeids)]
