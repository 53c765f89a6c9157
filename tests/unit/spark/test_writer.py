"""Jobs of several tables in turn: those that are late, and those that do not end. A test plays Spark."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from py4j.protocol import Py4JError

from app.errors import RetryableError, SparkLostError
from app.model import DataFile, StagedFile
from app.spark.options import SparkOptions
from app.spark.writer import SparkWriter
from tests.support.waiting import PATIENCE, wait_for

SHORT = 0.5


class PlayedSpark(SparkWriter):
    """The job of table ``slow`` lasts until it is cancelled, if it ``heeds`` that, or until ``end`` is set."""

    def __init__(self, scratch: Path, *, heeds: bool) -> None:
        super().__init__(SparkOptions("local", 512, 64, "snappy", 1_000), scratch, SHORT)
        self.heeds = heeds
        self.order: list[str] = []
        self.begun, self.end = Event(), Event()
        self.error: Exception | None = None  # of the slow job
        self._tables = ThreadPoolExecutor(8)

    def write_job(self, staged: StagedFile, numbers: range, out: Path) -> list[DataFile]:
        table = out.parent.name
        self.order.append(table)
        if table == "slow":
            self.begun.set()
            wait_for(self.end, "the end of the slow job")
            if self.error:
                raise self.error
        return [staged.groups[number] for number in numbers]

    def cancel_job(self, out: Path) -> None:
        self.order.append(f"cancel {out.parent.name}")
        if self.heeds:
            self.end.set()

    def brings(self, table: str) -> Future[list[DataFile]]:
        staged = StagedFile(Path("staged"), "group", (DataFile(table, {}, 1),))
        return self._tables.submit(self.write, staged, Path(table))


def written(job: Future[list[DataFile]]) -> list[str]:
    return [file.key for file in job.result(PATIENCE)]


NewSpark = Callable[..., PlayedSpark]


@pytest.fixture
def new_spark(tmp_path: Path) -> Iterator[NewSpark]:
    made: list[PlayedSpark] = []

    def new(*, heeds: bool) -> PlayedSpark:
        made.append(PlayedSpark(tmp_path, heeds=heeds))
        return made[-1]

    yield new
    for each in made:
        each.end.set()


def test_the_time_of_a_job_begins_with_the_job_and_not_while_others_have_their_turn(new_spark: NewSpark) -> None:
    spark = new_spark(heeds=False)
    slow = spark.brings("slow")
    wait_for(spark.begun, "the slow job")
    others = [spark.brings(table) for table in "abc"]
    with pytest.raises(SparkLostError):
        slow.result(PATIENCE)
    assert not any(job.done() for job in others), "they have waited for longer than a job may take"
    spark.end.set()
    assert [written(job) for job in others] == [["a"], ["b"], ["c"]]


def test_a_late_job_is_cancelled_and_is_the_failure_of_its_table_alone(new_spark: NewSpark) -> None:
    spark = new_spark(heeds=True)
    spark.error = Py4JError("cancelled")
    slow = spark.brings("slow")
    wait_for(spark.begun, "the slow job")
    other = spark.brings("other")
    with pytest.raises(RetryableError, match="longer than") as caught:
        slow.result(PATIENCE)
    assert not caught.value.ends_all
    assert written(other) == ["other"]
    assert spark.order == ["slow", "cancel slow", "other"]
    assert not spark.lost.done()


def test_a_late_job_that_ends_well_nevertheless_is_written(new_spark: NewSpark) -> None:
    assert written(new_spark(heeds=True).brings("slow")) == ["slow"]


def test_a_late_job_that_does_not_end_is_the_end_of_java(new_spark: NewSpark) -> None:
    spark = new_spark(heeds=False)
    with pytest.raises(SparkLostError) as caught:
        spark.brings("slow").result(PATIENCE)
    assert spark.lost.result(PATIENCE) is caught.value
    assert caught.value.ends_all
    with pytest.raises(SparkLostError):
        spark.brings("other").result(PATIENCE)
