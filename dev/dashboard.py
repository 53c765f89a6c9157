"""Makes the dashboard for Grafana of the connector's metrics. ``python -m dev.dashboard`` writes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import VariableOption, VariableRefresh

from dev.connector import REPO

DASHBOARD: Final = REPO / "deploy" / "grafana" / "dashboard.json"

_WIDTH, _HEIGHT = 8, 7
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_JOB = '{job=~"$job"}'
_BY_DEPLOYMENT = "by (job, consumer_group, topic, table)"
_BY_REPLICA = "by (job, instance)"


@dataclass(frozen=True)
class _Graph:
    """``lines`` has the expression of each legend."""

    title: str
    unit: str
    lines: Mapping[str, str]


def _chosen(expression: str) -> str:
    """The values of replicas of the chosen table; what does not name its table gets it from the replica's info."""
    info = 'lake_sink_deployment_info{job=~"$job", table=~"$table"}'
    return f"{expression} * on (job, instance) group_left (consumer_group, topic, table) {info}"


def _rate(counter: str) -> str:
    return _chosen(f"rate({counter}{_JOB}[$__rate_interval])")


def _of_partitions(function: str, gauge: str) -> str:
    return _chosen(f"{function} {_BY_REPLICA} ({gauge}{_JOB})")


def _sum(counter: str, by: str = _BY_DEPLOYMENT) -> str:
    return f"sum {by} ({_rate(counter)})"


def _increase(counter: str) -> str:
    return f"sum {_BY_DEPLOYMENT} ({_chosen(f'increase({counter}{_JOB}[$__rate_interval])')})"


_LAG = _of_partitions("sum", "lake_sink_lag_messages")
_FRESHNESS = _of_partitions("max", "lake_sink_freshness_seconds")
_ROWS: Mapping[str, tuple[_Graph, ...]] = {
    "Deployments": (
        _Graph("Rows written a second", "rowsps", {"{{table}}": _sum("lake_sink_rows_total")}),
        _Graph("Lag: messages not committed", "short", {"{{table}}": f"sum {_BY_DEPLOYMENT} ({_LAG})"}),
        _Graph("Age of the oldest record not committed", "s", {"{{table}}": f"max {_BY_DEPLOYMENT} ({_FRESHNESS})"}),
        _Graph("Batches committed a minute", "short", {"{{table}}": f"60 * {_sum('lake_sink_batches_total')}"}),
        _Graph(
            "Seconds of each step of a batch",
            "s",
            {
                "{{step}}": f"{_sum('lake_sink_step_seconds_sum', 'by (step)')}"
                f" / {_sum('lake_sink_step_seconds_count', 'by (step)')}"
            },
        ),
        _Graph("Files written a minute", "short", {"{{table}}": f"60 * {_sum('lake_sink_files_total')}"}),
        _Graph(
            "Mean size of a file",
            "bytes",
            {"{{table}}": f"{_sum('lake_sink_bytes_total')} / {_sum('lake_sink_files_total')}"},
        ),
        _Graph(
            "Records not in the table, and values not in their column",
            "short",
            {
                "{{table}}: dead letters": _increase("lake_sink_dead_letters_total"),
                "{{table}}: skipped": _increase("lake_sink_skipped_records_total"),
                "{{table}}: rescued values": _increase("lake_sink_rescued_values_total"),
            },
        ),
    ),
    "Replicas": (
        _Graph("Rows written a second", "rowsps", {"{{instance}}": _rate("lake_sink_rows_total")}),
        _Graph("Lag: messages not committed", "short", {"{{instance}}": _LAG}),
        _Graph("Age of the oldest record not committed", "s", {"{{instance}}": _FRESHNESS}),
        _Graph(
            "Time since the last commit",
            "s",
            {"{{instance}}": _chosen(f"(time() - lake_sink_last_commit_timestamp_seconds{_JOB})")},
        ),
        _Graph("Partitions", "short", {"{{instance}}": _chosen(f"lake_sink_assigned_partitions{_JOB}")}),
        _Graph(
            "Memory",
            "bytes",
            {
                "{{instance}}: Python": _chosen(f"process_resident_memory_bytes{_JOB}"),
                "{{instance}}: Java": _chosen(f"lake_sink_java_process_resident_memory_bytes{_JOB}"),
            },
        ),
    ),
    "Tables of many topics": (
        _Graph(
            "Rows written a second",
            "rowsps",
            {"{{table}}": f"sum by (table) (rate(lake_sink_table_rows_total{_JOB}[$__rate_interval]))"},
        ),
        _Graph(
            "Waits for another system",
            "s",
            {"{{table}}: {{system}}": f"max by (table, system) (lake_sink_table_wait_seconds{_JOB})"},
        ),
        _Graph("Suspended", "short", {"{{table}}": f"max by (table) (lake_sink_table_aside{_JOB})"}),
    ),
}


def dashboard() -> str:
    """Returns the text of ``dashboard.json``."""
    made = (
        builders.Dashboard("Quix TS Datalake Sink")
        .uid("quix-ts-datalake-sink")
        .time("now-3h", "now")
        .refresh("30s")
        .with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_variable("job", "lake_sink_build_info"))
        .with_variable(_variable("table", f"lake_sink_deployment_info{_JOB}"))
    )
    for title, graphs in _ROWS.items():
        made = made.with_row(builders.Row(title))
        for graph in graphs:
            made = made.with_panel(_panel(graph))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _variable(label: str, series: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(label)
        .datasource(_SOURCE)
        .query(f"label_values({series}, {label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )


def _panel(graph: _Graph) -> Panel:
    panel = Panel().title(graph.title).unit(graph.unit).min(0).datasource(_SOURCE).span(_WIDTH).height(_HEIGHT)
    panel = panel.legend(VizLegendOptions().show_legend(True))
    for reference, (legend, expression) in zip("ABC", graph.lines.items(), strict=False):
        panel = panel.with_target(Dataquery().ref_id(reference).expr(expression).legend_format(legend))
    return panel


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard())
