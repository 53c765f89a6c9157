"""The metrics of connectors at work, as a scraper sees them."""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from app.monitoring.metrics import OPERATIONS
from tests.e2e.connector import ConnectorProcess
from tests.e2e.records import records
from tests.e2e.scenario import Scenario

Sample = tuple[Mapping[str, str], float]


def scrape(connector: ConnectorProcess) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(connector.page("metrics")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def total(scraped: Mapping[str, list[Sample]], name: str) -> float:
    return sum(value for _, value in scraped[name])


def test_all_that_alerts_need_is_there_before_the_first_commit_and_after_it(scenario: Scenario) -> None:
    connector = scenario.connector()
    connector.wait_for_log("claimed: ")
    scraped = scrape(connector)
    assert {labels["operation"]: value for labels, value in scraped["lake_sink_retries_total"]} == dict.fromkeys(
        OPERATIONS, 0
    )
    [(deployment, _)] = scraped["lake_sink_deployment_info"]
    assert (deployment["topic"], deployment["consumer_group"]) == (scenario.topic, scenario.group)
    began = total(scraped, "lake_sink_last_commit_timestamp_seconds")
    assert began >= total(scraped, "process_start_time_seconds")

    scenario.produce(records(1_000))
    scenario.wait_until_committed(1_000, by=connector)

    def all_is_told() -> bool:
        told = scrape(connector)
        is_known = "lake_sink_end_offset" in told  # Kafka is asked every ten seconds
        return is_known and total(told, "lake_sink_end_offset") == 1_000 and total(told, "lake_sink_lag_messages") == 0

    connector.wait_until(all_is_told, "no lag in the metrics")
    scraped = scrape(connector)
    assert total(scraped, "lake_sink_consumed_records_total") == 1_000
    assert total(scraped, "lake_sink_freshness_seconds") == 0
    assert total(scraped, "lake_sink_last_commit_timestamp_seconds") > began
    assert total(scraped, "lake_sink_kafka_answer_timestamp_seconds") > began
    assert total(scraped, "lake_sink_next_commit_seconds") <= total(scraped, "lake_sink_commit_interval_seconds")
    assert total(scraped, "lake_sink_claiming_partitions") == 0
