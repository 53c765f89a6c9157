"""What docs/guarantees.md promises under "What happens when", as far as nothing has to be killed for it."""

import shutil
import threading
from dataclasses import replace
from typing import Any

import pytest
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.state import State

from app.errors import ConfigError, RetryableError
from dev.minio import LocalMinio
from tests.e2e.scenario import s3_store
from tests.fakes.journal_store import JournalStore
from tests.fakes.moody_store import MoodyStore
from tests.faults.connector_thread import PATIENCE, Place, Transform
from tests.faults.proxy import Answer, Exchange, FaultProxy, Rule, Say

LATEST = {"AUTO_OFFSET_RESET": "latest"}


def _counted(sdf: StreamingDataFrame) -> StreamingDataFrame:
    """Each record with how many came before it, by its key."""

    def count(value: dict[str, Any], state: State[str, int]) -> dict[str, Any]:
        before = state.get("count", 0)
        state.set("count", before + 1)
        return {**value, "before": before}

    return sdf.apply(count, stateful=True)


def _write(place: Place, count: int, *committed: int, **variables: str) -> None:
    """Produce so many records and let a connector write them, to its good end."""
    connector = place.connector(variables)
    connector.wait_until_consuming()
    place.produce(count)
    place.wait_until_committed(*committed, by=connector)
    connector.stop()


class TestTopicMadeAnew:
    @pytest.mark.parametrize("count", [30, 150], ids=["shorter", "longer"])
    def test_between_two_runs(self, place: Place, caplog: pytest.LogCaptureFixture, count: int) -> None:
        _write(place, 100, 100)
        place.make_anew()
        place.produce(count)

        connector = place.connector(LATEST)
        place.wait_until_committed(count, by=connector)

        connector.stop()
        assert "the topic was recreated since offset 99 was written: going on from its beginning, 0" in caplog.text
        place.assert_whole()

    def test_while_nothing_runs_and_it_is_still_empty(self, place: Place) -> None:
        _write(place, 100, 100)
        place.make_anew()

        _write(place, 30, 30, **LATEST)

        place.assert_whole()


class TestOffsetsMovedByHand:
    def test_back(self, place: Place, caplog: pytest.LogCaptureFixture) -> None:
        _write(place, 100, 100)
        place.commit(40)

        _write(place, 10, 110)

        assert "60 records after the group's committed offset are in the table already" in caplog.text
        assert "set START_FROM=committed for one start" in caplog.text
        place.assert_whole()

    def test_back_and_meant(self, place: Place) -> None:
        _write(place, 100, 100)
        place.commit(40)

        _write(place, 10, 110, START_FROM="committed")
        _write(place, 10, 120)

        place.assert_whole([*range(120), *range(40, 100)])

    def test_forward(self, place: Place) -> None:
        _write(place, 100, 100)
        place.produce(50)
        place.commit(130)

        assert isinstance(place.connector().wait(), ConfigError)
        place.assert_whole(range(100))
        _write(place, 10, 160, START_FROM="journal")
        _write(place, 10, 170)

        place.assert_whole()

    def test_forward_and_meant(self, place: Place) -> None:
        _write(place, 100, 100)
        place.produce(50)
        place.commit(130)

        _write(place, 10, 160, START_FROM="committed")
        _write(place, 10, 170)

        place.assert_whole([*range(100), *range(130, 170)])


class TestExpiredRecords:
    def test_between_two_runs(self, place: Place, caplog: pytest.LogCaptureFixture) -> None:
        _write(place, 100, 100)
        place.produce(100)
        place.expire(150)

        _write(place, 10, 210, **LATEST)

        [error] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert (
            "offsets 100 to 149 (50 records) are not in the table, and Kafka has deleted them: going on from 150"
            in error
        )
        place.assert_whole([*range(100), *range(150, 210)])

    def test_during_a_pause(self, place: Place, caplog: pytest.LogCaptureFixture) -> None:
        place.timings = replace(place.timings, pause_seconds=6.0)  # nothing is fetched meanwhile
        store = MoodyStore(place.store_folder)
        first = place.connector(store=store)
        place.produce(100)
        place.wait_until_committed(100, by=first)
        store.refuse = lambda _: RetryableError("uploading to the lake", "no route to host")
        place.produce(1)
        first.wait_until(lambda: first.is_paused, "back-pressure")
        place.produce(99)
        place.expire(150)
        store.refuse = lambda _: None

        assert isinstance(first.wait(), RetryableError)
        second = place.connector()
        place.wait_until_committed(200, by=second)
        second.stop()

        assert "offsets 101 to 149 (49 records) are not in the table, and Kafka has deleted them" in caplog.text
        place.assert_whole([*range(101), *range(150, 200)])

    def test_what_was_written_before_it_expired_is_no_loss(
        self, place: Place, caplog: pytest.LogCaptureFixture
    ) -> None:
        _write(place, 100, 100)
        place.expire(100)

        _write(place, 10, 110)

        assert not [record for record in caplog.records if record.levelname == "ERROR"]
        place.assert_whole()


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_new_group_at_the_latest_that_dies_before_its_first_commit_skips_nothing(
    place: Place, guarantee: str
) -> None:
    place.produce(10)
    first = place.connector(LATEST, DELIVERY_GUARANTEE=guarantee)
    first.wait_until_consuming()
    first.crash()
    place.produce(20)

    second = place.connector(LATEST, DELIVERY_GUARANTEE=guarantee)
    place.wait_until_committed(30, by=second)

    second.stop()
    place.assert_whole(range(10, 30), states={"done"} if guarantee == "exactly-once" else ())


class TestLogClosedByALateMember:
    @pytest.mark.parametrize("place", [1, 3], indirect=True, ids=["one partition", "three"])
    @pytest.mark.parametrize(
        "transform",
        [lambda sdf: sdf, lambda sdf: sdf.update(lambda value: value.update(seen=True))],
        ids=["batch polling", "record by record"],
    )
    def test_the_owner_goes_on_in_the_same_process(
        self, place: Place, caplog: pytest.LogCaptureFixture, transform: Transform
    ) -> None:
        connector = place.connector(transform=transform)
        for round_ in range(1, 4):
            place.produce(90)
            place.wait_until_committed(*[90 * round_ // place.partitions] * place.partitions, by=connector)
            connector.wait_until(lambda: place.journals()[0]["state"] == "done")
            place.close_log()
        place.produce(90)
        place.wait_until_committed(*[360 // place.partitions] * place.partitions, by=connector)

        connector.stop()

        place.assert_whole()
        assert caplog.text.count("to this one: claiming again") == 3
        assert [record for record in caplog.records if record.levelname == "ERROR"] == []

    @pytest.mark.parametrize("place", [2], indirect=True)
    def test_a_member_stands_still_amid_its_claim_and_then_goes_on(
        self, place: Place, caplog: pytest.LogCaptureFixture
    ) -> None:
        owner = place.connector()
        place.produce(100)
        place.wait_until_committed(50, 50, by=owner)
        claims, claim_on, poll_on = (threading.Event() for _ in range(3))
        store = JournalStore(place.store_folder)

        def stand_still(_: str, key: str) -> None:
            if threading.current_thread().name.startswith("takeover"):
                claims.set()
                claim_on.wait(PATIENCE)

        store.on_small = stand_still
        late = place.connector(store=store)
        late.in_turn = lambda: claims.is_set() and poll_on.wait(PATIENCE)
        late.wait_until(claims.is_set, "the claim of the other member")
        owner.wait_until_consuming(0, 1)  # Kafka takes the other one for dead
        place.produce(100)
        place.wait_until_committed(100, 100, by=owner)
        taken = place.claims()

        claim_on.set()
        late.wait_until(lambda: place.claims() != taken, "the late claim")
        place.produce(100)
        place.wait_until_committed(150, 150, by=owner)
        assert "to this one: claiming again" in caplog.text
        poll_on.set()
        place.produce(100)
        place.wait_until_committed(200, 200, by=owner)

        owner.stop()
        late.stop()
        place.assert_whole()

    def test_with_state_the_next_start_goes_on(self, place: Place) -> None:
        place.timings = replace(place.timings, fenced_seconds=0.5)
        connector = place.connector(transform=_counted)
        place.produce(90)
        place.wait_until_committed(90, by=connector)
        connector.wait_until(lambda: place.journals()[0]["state"] == "done")
        place.close_log()
        place.produce(90)

        error = connector.wait()

        assert isinstance(error, RetryableError)
        assert "was closed by another member of the consumer group" in str(error)
        again = place.connector(transform=_counted)
        place.wait_until_committed(180, by=again)
        again.stop()
        place.assert_whole()


class TestTableDeleted:
    def test_while_it_is_written(self, place: Place, caplog: pytest.LogCaptureFixture) -> None:
        place.timings = replace(place.timings, fenced_seconds=0.5)
        connector = place.connector()
        place.produce(100)
        place.wait_until_committed(100, by=connector)
        shutil.rmtree(place.table())
        place.produce(100)

        error = connector.wait()

        assert isinstance(error, RetryableError)
        assert "the table was deleted" in str(error)
        again = place.connector()
        place.wait_until_committed(200, by=again)
        again.stop()
        place.assert_whole(range(100, 200))

    def test_between_two_runs(self, place: Place) -> None:
        _write(place, 100, 100)
        shutil.rmtree(place.table())

        _write(place, 100, 200)

        place.assert_whole(range(100, 200))


def test_other_hive_columns_are_refused_as_long_as_the_table_has_files(place: Place) -> None:
    _write(place, 100, 100)

    assert isinstance(place.connector(HIVE_COLUMNS="year").wait(), ConfigError)

    _write(place, 10, 110)
    place.assert_whole()


class TestGroups:
    def test_a_changed_group_reads_all_again_and_is_told_of_the_former(
        self, place: Place, caplog: pytest.LogCaptureFixture
    ) -> None:
        former = place.group
        _write(place, 100, 100)
        assert "other consumer groups" not in caplog.text
        place.group = f"{former}-2"

        _write(place, 10, 110)

        assert f"the table was written by other consumer groups too ({former})" in caplog.text
        place.assert_whole([*range(100), *range(110)])

    def test_two_groups_on_one_table_write_their_rows_each(
        self, place: Place, caplog: pytest.LogCaptureFixture
    ) -> None:
        one, other = place.group, f"{place.group}-2"
        connectors = []
        for place.group in (one, other):
            connectors.append(place.connector())
            connectors[-1].wait_until_consuming()
        place.produce(100)
        for place.group, connector in zip((one, other), connectors, strict=True):
            place.wait_until_committed(100, by=connector)
            connector.stop()

        assert f"the table was written by other consumer groups too ({one})" in caplog.text
        place.assert_whole([*range(100), *range(100)])

    def test_two_groups_on_one_table_with_a_topic_each(self, place: Place) -> None:
        _write(place, 100, 100)
        place.topic, place.group = f"{place.topic}-2", f"{place.group}-2"
        place.kafka.create_topic(place.topic)

        _write(place, 100, 100)

        place.assert_whole()

    def test_two_tables_on_one_group_and_topic_are_refused(self, place: Place) -> None:
        first = place.connector()
        first.wait_until_consuming()

        refusal = place.connector(TABLE_NAME="other").wait()

        assert isinstance(refusal, RetryableError)
        assert str(refusal).startswith(f"joining consumer group {place.group}: a member of it")
        assert "Give each table a CONSUMER_GROUP of its own" in str(refusal)
        place.produce(100)
        place.wait_until_committed(100, by=first)
        first.stop()
        place.assert_whole()
        assert place.files("other") == []

    def test_two_tables_on_one_group_with_a_topic_each(self, place: Place) -> None:
        topic = place.topic
        first = place.connector()
        first.wait_until_consuming()
        place.produce(100)
        place.wait_until_committed(100, by=first)
        place.topic = f"{topic}-2"
        place.kafka.create_topic(place.topic)

        _write(place, 50, 50, TABLE_NAME="other")

        place.topic = topic
        place.produce(50)
        place.wait_until_committed(150, by=first)
        first.stop()
        place.assert_whole([*range(100), *range(150, 200)])
        place.assert_whole(range(100, 150), table="other")


def test_at_least_once_in_between(place: Place) -> None:
    _write(place, 100, 100)
    _write(place, 100, 200, DELIVERY_GUARANTEE="at-least-once")
    place.assert_whole(states={"off"})
    _write(place, 100, 300)
    place.assert_whole()


class _Unconditional:
    """A store that ignores the conditions of a request without a word."""

    def __init__(self, server: LocalMinio) -> None:
        self._client = server.client()

    def meet(self, exchange: Exchange) -> None:
        request = exchange._request
        bucket, key = request.path.removeprefix("/").split("/", 1)
        stored = self._client.put_object(Bucket=bucket, Key=key, Body=request.body)
        exchange.answer(Answer(200, headers={"ETag": stored["ETag"]}))


@pytest.mark.parametrize("ignored", [False, True], ids=["refused", "ignored"])
def test_a_store_without_conditional_writes_is_found_out(
    place: Place, s3_server: LocalMinio, bucket: str, caplog: pytest.LogCaptureFixture, ignored: bool
) -> None:
    refused = Say(Answer(501, b"<Error><Code>NotImplemented</Code><Message>no such header</Message></Error>"))
    with FaultProxy(s3_server.endpoint_url) as proxy:
        proxy.add(
            Rule(
                lambda request: (
                    request.method == "PUT" and {"if-match", "if-none-match"} & request.headers.keys() != set()
                ),
                _Unconditional(s3_server) if ignored else refused,
            )
        )
        settings = {**s3_store(s3_server, bucket), "AWS_ENDPOINT_URL": proxy.url, "STORAGE_URL": ""}
        _write(place, 100, 100, **settings)
        _write(place, 100, 200, **settings)

    told = [record.getMessage() for record in caplog.records if "no conditional writes" in record.getMessage()]
    assert len(told) == 2, "once for each start"
    assert "Let one replica write to a table" in told[0]
    _bring_home(s3_server, bucket, place)
    place.assert_whole()


def _bring_home(server: LocalMinio, bucket: str, place: Place) -> None:
    client = server.client()
    for item in client.list_objects_v2(Bucket=bucket)["Contents"]:
        path = place.store_folder / item["Key"]
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(bucket, item["Key"], str(path))
