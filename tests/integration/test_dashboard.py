"""The dashboard for Grafana: the connector has each metric in it, and each expression gives a value."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from app.errors import RetryableError
from app.model import TopicPartition
from app.monitoring.metric_families import Exposition
from app.monitoring.metrics import DeliveredBatch, Metrics
from app.monitoring.status import Consumption, Live, Status
from dev.dashboard import DASHBOARD
from tests.integration.test_alerts import promtool_test
from tests.support.environment import load
from tests.support.played_connectors import MINUTE, Partition, Replica, World, selector

PANELS: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
VARIABLES: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["templating"]["list"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel.get("targets", [])]
QUERIES = [variable["query"] for variable in VARIABLES if variable["type"] == "query"]
NAMES = {name for text in (*EXPRESSIONS, *QUERIES) for name in re.findall(r"\b(?:lake_sink|process)_\w+", text)}
END = 20 * MINUTE
# Grafana puts these in place of its variables.
CHOSEN = {"$__rate_interval": "5m", "$job": "connectors", "$table": "s3://lake/.+"}


def replaced(expression: str) -> str:
    for variable, value in CHOSEN.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression
    return expression


def test_the_connector_has_each_metric() -> None:
    metrics = Metrics()
    metrics.begins(TopicPartition("sensors", 0), 0)
    metrics.reaches({TopicPartition("sensors", 0): 1})
    settings = load()
    live = Live(consumption=Consumption(due_in=1.0), java_pid=os.getpid())
    status = Status(settings, settings.location, live, metrics.counts())
    text = Exposition(metrics.registry, lambda: status).text().decode()
    assert set(re.findall(r"^(?:# TYPE )?(\w+)[{ ]", text, re.MULTILINE)) >= NAMES


@pytest.fixture(scope="module")
def series() -> dict[str, str]:
    """What two connectors gave in 20 minutes; their memory is not played."""
    replicas = [Replica(name, {number: Partition()}, is_suspended=True) for number, name in enumerate("ab")]
    metrics = replicas[0].metrics
    metrics.delivered(DeliveredBatch(1, "checkpoint", 10, 1, 10, 0, 0, 0, {}, table="orders"))
    metrics.of_table("orders").waits.failed(RetryableError("uploading x", "503").of("store"))
    found = World(*replicas).series(END, NAMES)
    for name in ("process_resident_memory_bytes", "lake_sink_java_process_resident_memory_bytes"):
        found[name + selector(job="connectors", instance="a")] = f"1000+0x{END // 15}"
    return found


def test_each_expression_gives_a_value(promtool: str, series: dict[str, str], tmp_path: Path) -> None:
    some = [{"labels": "{}", "value": 1}]
    tests = [
        {"expr": f"count({replaced(expression)}) > bool 0", "eval_time": f"{END}s", "exp_samples": some}
        for expression in EXPRESSIONS
    ]
    assert len(tests) > 10
    inputs = [{"series": key, "values": values} for key, values in series.items()]
    trials = {"tests": [{"interval": "15s", "input_series": inputs, "promql_expr_test": tests}]}
    tried = promtool_test(promtool, trials, tmp_path)
    assert tried.returncode == 0, tried.stdout + tried.stderr
