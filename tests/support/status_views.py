"""The connector in each of its states, as the status page gets to see it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from app.errors import FatalError, RetryableError, SparkLostError
from app.logs import Warned
from app.model import DataFile, TopicPartition
from app.monitoring.metrics import STEPS, Counts, DeliveredBatch, Metrics, Totals
from app.monitoring.monitor import Monitor
from app.monitoring.status import Consumption, Health, Live, Probe, Suspended
from app.parts.console.history import History, Sample
from app.parts.console.shown_status import ShownStatus
from app.parts.console.status_page import View
from app.retries import Trouble
from dev.server import free_ports
from tests.support.environment import load

NOW = 1_700_000_000.0
MONOTONIC = 5_000.0
TOPIC = "sensor-data"

SETTINGS = load(
    input=TOPIC,
    CONSUMER_GROUP="sensor-data-to-lake",
    S3_BUCKET="my-lake",
    AWS_REGION="eu-central-1",
    KAFKA_BOOTSTRAP_SERVERS="kafka:9092",
    CATALOG_URL="https://catalog.example.com",
    HIVE_COLUMNS="year,month,day",
    Quix__Deployment__Name="lake-sink",
    Quix__Deployment__ReplicaName="lake-sink-7d9f5c-2",
)

KAFKA_AWAY = Trouble.of(
    RetryableError("asking Kafka for the ends of the partitions", "no answer within 10 s").of("Kafka"), 125
)
TOPIC_GONE = Trouble.of(
    RetryableError("asking Kafka for the ends of the partitions", "topic sensor-data does not exist").of("topic"), 12
)
STORE_AWAY = Trouble.of(
    RetryableError(
        "uploading s3://my-lake/data/sensor-data/year=2023/data_sensor-data-3_17.parquet",
        "Connection refused",
        "Check that the store is up and AWS_ENDPOINT_URL",
    ).of("store"),
    95,
)
CATALOG_AWAY = Trouble.of(
    RetryableError("adding 3 files to the catalog", "503 Service Unavailable", "").of("catalog"), 1_260
)


def _metrics(
    partitions: int = 24, *, behind: int = 40, size: int = 9_000_000, files: int = 3, lost: str = ""
) -> Counts:
    now = NOW - 200.0
    metrics = Metrics(lambda: now)
    tps = [TopicPartition(TOPIC, number) for number in range(partitions)]
    for tp in tps:
        metrics.begins(tp, 10_000)
    for number in range(1, 13):
        now = NOW - 200 + 16 * number
        path = f"data/sensor-data/year=2023/month=11/day=14/data_{TOPIC}-{number}_00000000{number}.parquet"
        metrics.delivered(
            DeliveredBatch(
                number=number,
                reason="checkpoint",
                rows=120_000,
                files=files,
                size=size,
                dead_letters=0,
                rescued=0,
                dropped=0,
                seconds=dict(zip(STEPS, (0.31, 0.12, 0.94, 0.04, 1.8, 0.09, 0.03), strict=True)),
                last_files=[DataFile(path, {}, 120_000, size // files)],
            )
        )
        metrics.committed(dict.fromkeys(tps, 10_000 + 500 * number))
    metrics.reaches({tp: 16_000 + behind * (1 + 7 * tp.partition % 5) for tp in tps})
    if lost:
        metrics.lost(lost)
    return replace(metrics.counts(), at=NOW)


def history(lag: Callable[[float], float], rate: float = 7_500.0, away: float = -1.0) -> History:
    """Ten minutes of samples with a commit every 30 s; ``lag`` by seconds ago; nothing since ``away`` seconds ago."""
    history = History()
    for ago in range(600, -1, -5):
        rows = int((600 - max(ago, away)) // 30 * 30 * rate)
        waiting = max(0, int(lag(ago)))
        is_away = ago <= away
        history.add(Sample(MONOTONIC - ago, rows, waiting, rows * 24, is_away, age=ago % 30 + waiting / rate))
    return history


def changed(view: View, **changes: Any) -> View:
    def replaced(part: Any, **inner: Any) -> Any:
        ours = {field.name: changes.pop(field.name) for field in fields(part) if field.name in changes}
        return replace(part, **inner | ours)

    status = view.status
    live = changes.pop("live", status.live)
    live = replaced(live, consumption=replaced(live.consumption))
    found: View = replaced(view, status=replaced(status, live=live))
    return found


def running() -> View:
    """All is well: the lag is what came since the last commit."""
    consumption = Consumption(
        oldest={TopicPartition(TOPIC, 3): NOW - 21, TopicPartition(TOPIC, 5): NOW - 12},
        consumed=1_500_000,
        due_in=18.0,
        held_bytes=31_000_000,
    )
    live = Live(
        "consuming",
        Probe(ok=True, detail="consuming"),
        consumption,
        buffer_limit=256 * 2**20,
        under_way=2,
        java_pid=17,
        spark="running",
    )
    samples = history(lambda ago: 900 + 8 * (ago % 30))
    return View(
        ShownStatus(SETTINGS, SETTINGS.location, live, _metrics(), samples, MONOTONIC),
        warned=(),
        uptime=11_520.0,
        seconds=11_400.0,
        python_bytes=310 * 2**20,
        java_bytes=742 * 2**20,
    )


def _starting() -> View:
    counts = replace(Metrics(lambda: NOW - 4).counts(), at=NOW)
    status = ShownStatus(SETTINGS, None, Live(java_pid=17), counts, History(), MONOTONIC)
    return replace(running(), status=status, uptime=4.0, seconds=4.0)


def _starting_without_kafka() -> View:
    kafka = replace(
        KAFKA_AWAY,
        doing="connecting to Kafka at kafka-1:9092",
        cause="kafka-1:9092: Connect to 10.0.0.1:9092 failed: Connection refused",
        hint="Check KAFKA_BOOTSTRAP_SERVERS, the network and that the broker is up",
        seconds=32,
    )
    return changed(_starting(), located=SETTINGS.location, waits=(kafka,), uptime=38.0, seconds=38.0)


def _away(trouble: Trouble, state: str) -> View:
    return changed(
        running(),
        state=state,
        history=history(lambda ago: 900 + max(0.0, trouble.seconds - ago) * 700, away=trouble.seconds),
        waits=(trouble,),
        oldest={TopicPartition(TOPIC, number): NOW - trouble.seconds - number for number in range(24)},
        due_in=-40.0,
        warned=(
            Warned(NOW - trouble.seconds, "WARNING", f"{trouble.doing}: {trouble.cause}. Retrying until it works"),
        ),
        seconds=95.0,
    )


def _failing(error: FatalError | SparkLostError) -> View:
    return changed(running(), seconds=2.0, state="failing", failure=Trouble.of(error), spark="gone")


def _fenced() -> View:
    reason = "s3://my-lake/data/_journal/3.json was taken over by another member of the consumer group"
    fenced = {TopicPartition(TOPIC, number): reason for number in (3, 4, 5, 9)}
    return changed(running(), seconds=6.0, state="waiting", fenced=fenced)


def _catching_up() -> View:
    return changed(
        running(),
        seconds=900.0,
        oldest={TopicPartition(TOPIC, number): NOW - 3_600 - 60 * number for number in range(24)},
        counts=_metrics(behind=40_000),
        history=history(lambda ago: 2.3e6 + 3_100 * ago),
    )


def _falling_behind() -> View:
    return changed(_catching_up(), history=history(lambda ago: 2.3e6 - 900 * ago), is_full=True)


def _dead_letters() -> View:
    log = (
        Warned(
            NOW - 30, "WARNING", "sensor-data[3] offset 17: the value is no JSON; the record goes to the dead letter"
        ),
        Warned(NOW - 700, "WARNING", "asking Kafka for the ends of the partitions: no answer within 10 s"),
    )
    view = running()
    return changed(view, counts=replace(view.status.counts, totals=Totals(dead_letters=1_204, rescued=77)), warned=log)


def _many_partitions() -> View:
    oldest = {TopicPartition(TOPIC, number): NOW - 40 - number % 7 for number in range(500)}
    oldest[TopicPartition(TOPIC, 417)] = NOW - 7_300
    return changed(running(), counts=_metrics(500), seconds=900.0, oldest=oldest)


def _joining() -> View:
    ready = Probe(ok=False, detail="no partitions assigned yet")
    return changed(_starting(), located=SETTINGS.location, state="waiting", ready=ready, seconds=3.0)


def _taking_over() -> View:
    unclaimed = frozenset(TopicPartition(TOPIC, number) for number in (*range(10), 12))
    return changed(_joining(), counts=_metrics(0), spark="running", unclaimed=unclaimed)


def several(tables: int) -> View:
    """Each of the tables has a topic of two partitions; one is suspended, one waits for the catalog, one is behind."""
    now = NOW - 20.0
    metrics = Metrics(lambda: now)
    topics = [f"db.public.table_{number:03}" for number in range(tables)]
    tps = [TopicPartition(topic, number) for topic in topics for number in range(2)]
    suspended, waiting, late = f"db.public.table_{tables // 2:03}", topics[0], TopicPartition(topics[-1], 1)
    for tp in tps:
        if tp.topic != suspended:
            metrics.begins(tp, 1_000)
    for number, topic in enumerate(topics):
        if topic != suspended:
            file = DataFile(f"data/raw_{topic}/year=2023/data_{topic}_{number:09}.parquet", {}, 4_000, 90_000)
            seconds = dict(zip(STEPS, (0.01, 0.01, 0.2, 0.01, 0.1, 0.02, 0.01), strict=True))
            batch = DeliveredBatch(1, "checkpoint", 4_000, 1, 90_000, number % 3, 0, 0, seconds, [file])
            metrics.delivered(replace(batch, table=f"raw_{topic}"))
    metrics.committed(dict.fromkeys(tps, 5_000))
    metrics.reaches({tp: 5_040 + 9 * tp.partition for tp in tps})
    refused = FatalError("opening the table", "speed is a double in COLUMN_TYPES and text in the table", "Correct it")
    consumption = Consumption(
        assigned=len(tps),
        tps=tps,
        suspended={suspended: Suspended(Trouble.of(refused), NOW - 900, NOW + 240, 3)},
        oldest={tp: NOW - 20 for tp in tps if tp.topic != suspended} | {late: NOW - 400},
        due_in=10.0,
    )
    settings = SETTINGS.model_copy(update={"input_topic": "^db[.]public[.].*", "table_name": "raw_{topic}"})
    counts = replace(metrics.counts(), at=NOW)
    waits = (replace(CATALOG_AWAY, seconds=95.0, table=f"raw_{waiting}"),)
    status = {"settings": settings, "found": settings.location, "counts": counts}
    return changed(running(), consumption=consumption, state="waiting", waits=waits, **status)


VIEWS: Mapping[str, Callable[[], View]] = {
    "starting": _starting,
    "starting without Kafka": _starting_without_kafka,
    "joining": _joining,
    "taking over": _taking_over,
    "running": running,
    "Kafka away": lambda: _away(KAFKA_AWAY, "waiting"),
    "topic gone": lambda: _away(TOPIC_GONE, "waiting"),
    "store away": lambda: _away(STORE_AWAY, "paused"),
    "catalog away": lambda: _away(CATALOG_AWAY, "paused"),
    "Spark lost": lambda: _failing(
        SparkLostError("writing a batch with Spark", "the Java process ended with code 137", "The process ends")
    ),
    "refused": lambda: _failing(
        FatalError("uploading s3://my-lake/x", "403 AccessDenied", "Allow s3:PutObject").of("store")
    ),
    "hangs": lambda: changed(
        running(), state="failing", failure=Trouble(None, "consuming", "the consumer's loop has not turned for 412 s")
    ),
    "fenced": _fenced,
    "catching up": _catching_up,
    "falling behind": _falling_behind,
    "dead letters": _dead_letters,
    "records missing": lambda: changed(
        running(),
        counts=_metrics(lost="sensor-data[7]: 1,204 records from offset 9,000 on have expired: going on from 10,204"),
    ),
    "small files": lambda: changed(running(), counts=_metrics(size=4_000_000, files=120)),
    "500 partitions": _many_partitions,
    "3 tables": lambda: several(3),
    "60 tables": lambda: several(60),
    "stopping": lambda: changed(running(), seconds=3.0, state="stopping"),
}


def served() -> str:
    """The address at which a connector that starts serves its pages, until the process ends."""
    [port] = free_ports(1)
    settings = SETTINGS.model_copy(update={"input_topic": "^db[.]public[.].*", "table_name": None})
    Monitor(settings, Metrics(), Health(loop_seconds=60.0, clock=time.monotonic), Live).serve("127.0.0.1", port, [])
    return f"http://127.0.0.1:{port}/"
