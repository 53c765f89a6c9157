"""The connector in each of its states, as the status page gets to see it."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from app.errors import FatalError, RetryableError, SparkLostError
from app.model import TopicPartition
from app.monitoring.history import History, Sample
from app.monitoring.metrics import STEPS, Counts, DeliveredBatch, DeliveredFile, Identity, Live, Metrics
from app.monitoring.recent_warnings import Warned
from app.monitoring.status_page import View
from app.monitoring.waits import Trouble

NOW = 1_700_000_000.0
MONOTONIC = 5_000.0
TOPIC = "sensor-data"
TABLE = "s3://my-lake/data/sensor-data"

IDENTITY = Identity(
    topic=TOPIC,
    group="sensor-data-to-lake",
    table=TABLE,
    root="data/sensor-data",
    versions={"version": "1.0.0", "spark": "4.0.1", "quixstreams": "3.28.1", "python": "3.11.9"},
    commit_interval=30.0,
    is_found=True,
    replica="lake-sink / lake-sink-7d9f5c-2",
    dead_letter="s3://my-lake/data/_dead_letter/sensor-data",
    has_catalog=True,
    settings=(
        ("table", TABLE),
        ("store", "S3Target(bucket='my-lake', region='eu-central-1', endpoint_url=None, may_create=False)"),
        ("KAFKA_BOOTSTRAP_SERVERS", '"kafka-1:9092,kafka-2:9092"'),
        ("KAFKA_SASL_PASSWORD", "set"),
        ("CONSUMER_GROUP", '"sensor-data-to-lake"'),
        ("HIVE_COLUMNS", '["year", "month", "day"]'),
        ("COMMIT_INTERVAL", "30.0"),
        ("SPARK_MASTER", '"local[*]"'),
    ),
)

KAFKA_AWAY = Trouble.of(
    RetryableError("asking Kafka for the ends of the partitions", "Local: Broker transport failure").of("Kafka"), 125
)
TOPIC_GONE = Trouble.of(
    RetryableError("asking Kafka for the ends of the partitions", "topic sensor-data does not exist").of("topic"), 12
)
STORE_AWAY = Trouble.of(
    RetryableError(
        "uploading s3://my-lake/data/sensor-data/year=2023/data_sensor-data-3_17.parquet",
        "<botocore.awsrequest.AWSHTTPSConnection object at 0x7f2c11d0>: Failed to establish a new connection: "
        "[Errno 111] Connection refused",
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
                last_files=[DeliveredFile(path, 120_000, size // files)],
            )
        )
        metrics.committed(dict.fromkeys(tps, 10_000 + 500 * number))
    metrics.reaches({tp: 16_000 + behind * (1 + 7 * tp.partition % 5) for tp in tps})
    if lost:
        metrics.lost(lost)
    return metrics.counts()


def history(lag: Callable[[float], float], rate: float = 7_500.0) -> History:
    """Ten minutes of samples; ``lag`` by seconds ago."""
    history = History()
    for ago in range(600, -1, -5):
        rows = int((600 - ago) * rate)
        history.add(Sample(MONOTONIC - ago, rows, max(0, int(lag(ago))), rows * 24))
    return history


def _live(**changed: object) -> Live:
    usual = Live(
        state="consuming",
        buffered=31_000_000,
        buffer_limit=256 * 2**20,
        under_way=2,
        consumed=1_500_000,
        oldest={TopicPartition(TOPIC, 3): NOW - 21, TopicPartition(TOPIC, 5): NOW - 12},
        commit_due_in=18.0,
        java_pid=17,
        spark="running",
    )
    return replace(usual, **changed)  # type: ignore[arg-type]


def running() -> View:
    """All is well: the lag is what came since the last commit."""
    return View(
        identity=IDENTITY,
        live=_live(),
        counts=_metrics(),
        history=history(lambda ago: 900 + 8 * (ago % 30)),
        warned=(),
        now=NOW,
        monotonic=MONOTONIC,
        uptime=11_520.0,
        seconds=11_400.0,
        python_bytes=310 * 2**20,
        java_bytes=742 * 2**20,
    )


def _changed(view: View, *, seconds: float = 95.0, **live: object) -> View:
    return replace(view, live=_live(**live), seconds=seconds)


def _starting() -> View:
    return replace(
        running(),
        identity=replace(IDENTITY, is_found=False),
        live=Live(java_pid=17),
        counts=Metrics(lambda: NOW - 4).counts(),
        history=History(),
        uptime=4.0,
        seconds=4.0,
    )


def _starting_without_kafka() -> View:
    kafka = replace(
        KAFKA_AWAY,
        doing="connecting to Kafka at kafka-1:9092",
        cause="sasl_ssl://kafka-1:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed: Connection refused",
        hint="Check KAFKA_BOOTSTRAP_SERVERS, the network and that the broker is up",
        seconds=32,
    )
    view = _starting()
    return replace(view, identity=IDENTITY, live=Live(java_pid=17, waits=(kafka,)), uptime=38.0, seconds=38.0)


def _away(trouble: Trouble, state: str) -> View:
    view = replace(running(), history=history(lambda ago: 900 + max(0.0, trouble.seconds - ago) * 700))
    log = (Warned(NOW - trouble.seconds, "WARNING", f"{trouble.doing}: {trouble.cause}. Trying again until it works"),)
    oldest = {TopicPartition(TOPIC, number): NOW - trouble.seconds - number for number in range(24)}
    view = replace(view, warned=log)
    return _changed(view, state=state, waits=(trouble,), oldest=oldest, commit_due_in=-40.0)


def _failing(error: FatalError | SparkLostError) -> View:
    return _changed(running(), seconds=2.0, state="failing", failure=Trouble.of(error), spark="gone")


def _fenced() -> View:
    reason = "s3://my-lake/data/_journal/3.json was taken over by another member of the consumer group"
    fenced = {TopicPartition(TOPIC, number): reason for number in (3, 4, 5, 9)}
    return _changed(running(), seconds=6.0, state="waiting", fenced=fenced)


def _catching_up() -> View:
    oldest = {TopicPartition(TOPIC, number): NOW - 3_600 - 60 * number for number in range(24)}
    view = _changed(running(), seconds=900.0, oldest=oldest)
    return replace(view, counts=_metrics(behind=40_000), history=history(lambda ago: 2.3e6 + 3_100 * ago))


def _falling_behind() -> View:
    view = replace(_catching_up(), history=history(lambda ago: 2.3e6 - 900 * ago))
    return replace(view, live=replace(view.live, detail="the buffer is full: consuming waits for room"))


def _dead_letters() -> View:
    view = running()
    counts = replace(view.counts, dead_letters=1_204, rescued=77)
    log = (
        Warned(
            NOW - 30, "WARNING", "sensor-data[3] offset 17: the value is no JSON; the record goes to the dead letter"
        ),
        Warned(NOW - 700, "WARNING", 'KafkaError{code=_TRANSPORT,val=-195,str="Local: Broker transport failure"}'),
    )
    return replace(view, counts=counts, warned=log)


def _many_partitions() -> View:
    view = replace(running(), counts=_metrics(500))
    oldest = {TopicPartition(TOPIC, number): NOW - 40 - number % 7 for number in range(500)}
    oldest[TopicPartition(TOPIC, 417)] = NOW - 7_300
    return _changed(view, seconds=900.0, oldest=oldest)


def _joining() -> View:
    view = _starting()
    live = Live(state="waiting", detail="no partitions assigned yet", spark="starting", java_pid=17)
    return replace(view, identity=IDENTITY, live=live, seconds=3.0)


def _taking_over() -> View:
    unclaimed = frozenset(TopicPartition(TOPIC, number) for number in (*range(10), 12))
    view = replace(_joining(), counts=_metrics(0))
    live = Live(state="waiting", detail="partitions wait until they are claimed", spark="running", unclaimed=unclaimed)
    return replace(view, live=live)


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
    "hangs": lambda: _changed(
        running(),
        state="failing",
        failure=Trouble(None, "consuming", "the consumer's loop has not turned for 412 s"),
    ),
    "fenced": _fenced,
    "catching up": _catching_up,
    "falling behind": _falling_behind,
    "dead letters": _dead_letters,
    "records missing": lambda: replace(
        running(),
        counts=_metrics(lost="sensor-data[7]: 1,204 records from offset 9,000 on have expired: going on from 10,204"),
    ),
    "small files": lambda: replace(running(), counts=_metrics(size=4_000_000, files=120)),
    "500 partitions": _many_partitions,
    "stopping": lambda: _changed(
        running(), seconds=3.0, state="stopping", detail="what was consumed is brought into the lake"
    ),
}
