"""Which of the Makefile's targets runs a test: each test belongs to exactly one.

- ``unit`` (``make test-unit``): in this process, without a service, Java or a network, and quick.
- ``standard`` (``make test`` has it beside ``unit``): each promise once, against real services; and many cases.
- ``night`` (``make test-night``): more of the same kind, and what takes long.
- ``alone`` (``make test-night``, at its end): measures this machine, so that nothing else may run beside it.

What is in no list here is ``standard``. All lists hold beginnings of test ids. Tests of which the parameters tell apart
what is for every day carry the mark ``night`` themselves (``tests/faults``).
"""

from collections.abc import Mapping, Sequence

import pytest

TARGETS = ("unit", "standard", "night", "alone")

UNIT = ("tests/unit/", "tests/bench/", "tests/dev/", "tests/documents/")

# By the reason why they are not for every change.
NIGHT: Mapping[str, Sequence[str]] = {
    # `.ci/run` runs the first of them after `make test`, by its id.
    "builds an image and runs it": ("tests/container/",),
    "hundreds of batches through this sink and through the one that quixstreams ships": ("tests/parity/",),
    "needs a browser": ("tests/integration/test_status_page_states.py",),
    "builds Helm with Go, for minutes; what the chart makes is tested every day": ("tests/integration/test_chart.py",),
    "downloads 159 MB and starts them in half a minute; a small registry is for every day": (
        "tests/e2e/test_schema_registry.py::test_a_real_registry",
    ),
    "reads what tests/e2e/test_iceberg.py reads every day, and downloads a Spark of its own": (
        "tests/integration/test_iceberg_engines.py",
        "tests/integration/test_iceberg_catalogs.py",
    ),
    "other stores and catalogs, dead members, outages, and procedures of the Spark above": (
        "tests/e2e/test_iceberg_servers.py",
        "tests/e2e/test_iceberg.py::test_each_row_is_there_once",
        "tests/e2e/test_iceberg.py::test_a_catalog_of_another_kind_has_tables_in_every_store[gcs",
        "tests/e2e/test_iceberg.py::test_a_catalog_of_another_kind_has_tables_in_every_store[azure",
        "tests/e2e/test_iceberg.py::test_a_catalog_that_is_away",
        "tests/e2e/test_iceberg.py::test_engines_maintain",
        "tests/e2e/test_iceberg.py::test_removing_orphans",
    ),
    "one check of the command; all of them together are for every day": (
        "tests/e2e/test_check.py::test_what_transform_builds",
    ),
    "seconds each, while librdkafka tries again; the right ones are for every day": (
        "tests/integration/test_kafka_logins.py::test_a_wrong_login_names_its_variable",
        "tests/integration/test_kafka_logins.py::test_all_clients_log_in[texts in PEM]",
    ),
    "a minute of a real group that reads its topic's metadata anew": (
        "tests/e2e/test_topics_and_groups.py::test_a_deleted_topic_stays_deleted",
    ),
    "hundreds of megabytes, or minutes of Java": (
        "tests/e2e/test_hostile_topic.py",
        "tests/integration/test_big_records.py",
        "tests/integration/test_dictionaries.py",
        "tests/integration/test_readers.py",
        "tests/integration/test_engines_page.py",
        "tests/integration/test_compact.py::test_on_a_cluster",
    ),
    "a process for each case of a command, of which units test the parts": (
        "tests/integration/test_customise_page.py",
    ),
    "the same promise with another value; one of them is for every day": (
        "tests/e2e/test_no_secret_is_told.py::test_in_trouble[a platform",
        "tests/e2e/test_no_secret_is_told.py::test_in_trouble[passwords",
        "tests/e2e/test_refusals.py::test_a_missing_bucket_is_created_only_if_a_setting_says_so[True]",
    ),
    "thousands of objects": (
        "tests/integration/storage/test_behaviour.py::test_more_objects_than_a_page",
    ),
    "seconds each; others of their kind are for every day": (
        "tests/unit/convert/test_rows_names.py::test_records_with_names_of_their_own_do_not_take_the_square",
        "tests/unit/convert/test_rows_names.py::test_a_list_of_objects_that_has_no_place_is_rescued_whole",
    ),
}  # fmt: skip


def of(item: pytest.Item) -> str:
    if item.get_closest_marker("alone"):
        return "alone"
    if item.get_closest_marker("night") or reason(item.nodeid):
        return "night"
    return "unit" if item.nodeid.startswith(UNIT) else "standard"


def reason(nodeid: str) -> str | None:
    """Why the test is not for every change."""
    return next((why for why, begins in NIGHT.items() if nodeid.startswith(tuple(begins))), None)


def without_tests(nodeids: Sequence[str], folders: Sequence[str]) -> list[str]:
    """What is listed here within these folders and does not begin any id of their tests."""
    listed = [begin for begins in NIGHT.values() for begin in begins if begin.startswith(tuple(folders))]
    return [begin for begin in listed if not any(nodeid.startswith(begin) for nodeid in nodeids)]
