"""What is counted, and what of it is remembered."""

from app.model import DataFile, TopicPartition
from app.monitoring.metrics import DeliveredBatch, Metrics
from tests.fakes.clock import Clock

TP, OTHER = TopicPartition("sensors", 0), TopicPartition("sensors", 1)


def batch(number: int = 1, *, rows: int = 10, files: int = 2, **seconds: float) -> DeliveredBatch:
    return DeliveredBatch(
        number=number,
        reason="checkpoint",
        rows=rows,
        files=files,
        size=100 * files,
        dead_letters=1,
        rescued=3,
        dropped=0,
        seconds=seconds or {"convert": 0.2},
        last_files=[DataFile(f"data/t/{number}-{index}.parquet", {}, rows // files, 100) for index in range(files)],
    )


def test_what_was_taken_does_not_change_any_more() -> None:
    metrics = Metrics()
    before = metrics.counts()
    metrics.delivered(batch())
    metrics.begins(TP, 5)
    assert (before.totals.rows, before.positions) == (0, {})


def test_the_last_ten_batches_and_files_are_remembered_newest_first() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    for number in range(1, 13):
        clock.now += 1
        metrics.delivered(batch(number))
    counts = metrics.counts()
    assert [each.number for each in counts.last_batches] == list(range(12, 2, -1))
    assert counts.last_batches[0].at == 1_012.0
    assert [file.key for file in counts.last_files][:3] == [
        "data/t/12-1.parquet",
        "data/t/12-0.parquet",
        "data/t/11-1.parquet",
    ]
    metrics.delivered(batch(13, rows=1_000, files=1_000))
    counts = metrics.counts()
    assert len(counts.last_files) == 10
    assert len(counts.last_batches[0].last_files) == 10, "a batch of many files is not kept as a whole"


def test_the_whole_lag_is_known_when_that_of_each_partition_is_and_never_below_zero() -> None:
    metrics = Metrics()
    metrics.committed({})
    assert metrics.counts().last_commit is None, "an empty commit is none"
    metrics.begins(TP, 0)
    metrics.begins(OTHER, 0)
    metrics.reaches({TP: 10})
    assert metrics.counts().lag is None
    metrics.reaches({OTHER: 5})
    assert metrics.counts().lag == 15
    metrics.committed({TP: 15, OTHER: 5})  # ahead of the last look
    assert metrics.counts().lag == 0


def test_partitions_that_were_given_away_are_forgotten() -> None:
    metrics = Metrics()
    metrics.begins(TP, 0)
    metrics.begins(OTHER, 0)
    metrics.ended([TP, TopicPartition("never", 7)])
    metrics.committed({TP: 5})  # of a commit that was under way
    metrics.reaches({TP: 9})
    assert list(metrics.counts().positions) == [OTHER]


def freshness(metrics: Metrics, oldest: float | None = None) -> float | None:
    counts = metrics.counts()
    return counts.positions[TP].freshness(counts.at, oldest)


def test_the_age_of_what_waits_in_kafka_counts_from_when_it_was_first_seen() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    metrics.begins(TP, 100)
    assert freshness(metrics) is None, "nobody has asked Kafka yet"
    metrics.reaches({TP: 100})
    assert freshness(metrics) == 0
    clock.now += 10
    metrics.reaches({TP: 105})
    assert freshness(metrics) == 0
    clock.now += 10
    metrics.reaches({TP: 200})
    assert freshness(metrics) == 10


def test_a_commit_that_leaves_messages_begins_their_age_anew() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    metrics.begins(TP, 100)
    metrics.reaches({TP: 200})
    clock.now += 60
    metrics.committed({TP: 150})
    assert freshness(metrics) == 0
    clock.now += 5
    assert freshness(metrics) == 5
    metrics.committed({TP: 200})
    clock.now += 5
    assert freshness(metrics) == 0


def test_the_end_of_a_transaction_does_not_wait() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    metrics.begins(TP, 100)
    metrics.reaches({TP: 101})
    clock.now += 3_600
    metrics.reaches({TP: 101})
    assert freshness(metrics) == 0
