"""The journal's JSON object: what is stored comes back, and nothing else is taken for one."""

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.journal.entry import RolledBack, claim_key, group_folder, is_log, log_key, logs_folder
from app.journal.journal import CLAIM as CLAIM_DOCUMENT
from app.journal.journal import PartitionClaim
from app.journal.log import AssignmentLog, Intent, Progress, log_form
from app.model import DataFile, Mark, OffsetRange, TopicPartition

parse_claim = CLAIM_DOCUMENT.parse
parse_log = log_form("data/t").parse
FILE = DataFile("data/t/p=a/data_1.parquet", {"p": "a"}, rows=3, size=10)
FIELDS = {"key": FILE.key, "size": 10, "rows": 3, "partition_values": {"p": "a"}}
LOG = AssignmentLog(
    seq=7,
    owner="0a1b2c3d",
    writer="0a1b2c3d",
    batch=2,
    state="pending",
    partitions=(Progress(topic="sensors", partition=3, end=39, to=49, topic_id="Zm9v"),),
    files=(FILE,),
    also={"data/_dead_letter/t/data_1.parquet": 2, "data/t/p=a/.vidx/data_1.parquet": 0},
    revoked=(RolledBack(key="data/t/p=b/data_0.parquet", since=1_700_000_000),),
)
CLAIM = PartitionClaim(seq=7, owner="0a1b2c3d", cluster_id="one")


def stored(entry: PartitionClaim | AssignmentLog, **values: Any) -> bytes:
    return json.dumps({**json.loads(entry.model_dump_json()), **values}).encode()


def without(entry: PartitionClaim | AssignmentLog, field: str) -> bytes:
    fields = json.loads(entry.model_dump_json())
    del fields[field]
    return json.dumps(fields).encode()


# --- what is stored comes back --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"), [("today", ["today"]), ("", []), (["yesterday", "today"], ["yesterday", "today"])]
)
def test_a_text_that_was_followed_is_known_though_it_was_stored_when_there_was_one_alone(
    text: object, found: list[str]
) -> None:
    fields = json.loads(LOG.to_body())
    fields["partitions"][0]["followed"] = text
    assert parse_log(json.dumps(fields).encode()).partitions[0].followed == found


def test_the_stored_log_says_its_version_and_all_that_a_roll_forward_takes() -> None:
    fields = json.loads(LOG.to_body())
    assert (fields["version"], json.loads(CLAIM_DOCUMENT.body(CLAIM))["version"]) == (1, 1)
    assert fields["files"] == [FIELDS]
    assert fields["revoked"] == [{"key": "data/t/p=b/data_0.parquet", "since": 1_700_000_000, "removed": False}]


def test_a_long_list_of_rolled_back_objects_comes_back_and_takes_little_room() -> None:
    """After a loop of crashes; it is what each batch writes."""
    log = LOG.changed(revoked=tuple(RolledBack(key=f"data/t/p=a/{number}", since=1) for number in range(30_000)))
    assert len(log.to_body()) < 200_000
    assert parse_log(log.to_body()) == log


@pytest.mark.parametrize("listed", [1, 1_001])
def test_values_that_are_named_like_the_packed_list_come_back(listed: int) -> None:
    name = "revoked_packed"
    log = LOG.model_copy(
        update={
            "partitions": (Progress(topic=name, partition=0, end=39, to=49),),
            "files": (replace(FILE, partition_values={"p": name, name: "a"}),),
            "revoked": tuple(RolledBack(key=f"data/t/{number}", since=number) for number in range(listed)),
        }
    )
    assert parse_log(log.to_body()) == log


@pytest.mark.parametrize("packed", ["", "junk", "anVuaw==", 7, None, ["x"]])
def test_a_list_that_cannot_be_unpacked_is_refused(packed: object) -> None:
    with pytest.raises(ValueError, match="revoked_packed"):
        parse_log(stored(LOG, revoked_packed=packed))


def test_a_small_list_that_would_fill_the_memory_is_not_unpacked() -> None:
    packed = base64.b64encode(zlib.compress(b'["' + b"a" * (33 << 20) + b'"]')).decode()
    with pytest.raises(ValueError, match="more than 32 MiB"):
        parse_log(stored(LOG, revoked_packed=packed))


def test_a_packed_list_names_the_table_s_objects_only() -> None:
    log = LOG.changed(revoked=tuple(RolledBack(key=f"other/{number}", since=0) for number in range(2_000)))
    with pytest.raises(ValueError, match="it lists other/0"):
        parse_log(log.to_body())


@pytest.mark.parametrize("claim", [CLAIM, CLAIM.model_copy(update={"state": "off", "owner": ""})])
def test_a_claim_comes_back_as_it_was_stored(claim: PartitionClaim) -> None:
    assert parse_claim(CLAIM_DOCUMENT.body(claim)) == claim


# --- what is none ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parse", "body", "words"),
    [
        (parse_claim, b"\x00\x01\xff", "Invalid JSON"),
        (parse_claim, b"null", "should be an object"),
        (parse_claim, stored(CLAIM, version=2), "version"),
        (parse_claim, stored(CLAIM, state="done"), "state"),
        (parse_claim, stored(CLAIM, seq="7"), "seq"),
        (parse_claim, without(CLAIM, "owner"), "owner"),
        (parse_log, LOG.to_body()[:70], "Invalid JSON"),
        (parse_log, stored(LOG, version=2), "version"),
        (parse_log, stored(LOG, comment="by hand"), "comment"),
        (parse_log, without(LOG, "writer"), "writer"),
        (parse_log, stored(LOG, partitions=[{"topic": "t", "partition": 0, "end": -2}]), r"partitions\.0\.end"),
        (parse_log, stored(LOG, files=[{**FIELDS, "size": -1}]), r"files\.0\.size"),
        (parse_log, stored(LOG, files=[{**FIELDS, "hash": "x"}]), r"files\.0\.hash"),
        (parse_log, stored(LOG, state="done", partitions=[]), "a log that is done has files"),
        (parse_log, stored(LOG, state="done", files=[], also={}), "a log that is done has the ends of a batch"),
    ],
)
def test_what_is_neither_claim_nor_log_is_refused_and_the_message_names_what(
    parse: Callable[..., object], body: bytes, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        parse(body)


def test_a_refusal_shows_no_contents() -> None:
    with pytest.raises(ValueError, match="owner") as refused:
        parse_claim(stored(CLAIM, owner={"secret": "hunter2"}))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "key",
    [
        "data/t2/p=a/x.parquet",
        "other/x.parquet",
        "data/_dead_letter/t2/x.parquet",
        "data/t/../u/x.parquet",
        "data/t/p=a/..",
        "",
    ],
)
@pytest.mark.parametrize("where", ["files", "also", "revoked"])
def test_a_key_that_is_not_below_the_table_is_refused_by_its_name(where: str, key: str) -> None:
    values = {"files": [{**FIELDS, "key": key}], "also": {key: 0}, "revoked": [{"key": key, "since": 1}]}
    with pytest.raises(ValueError, match="is not below data/t/ or data/_dead_letter/t/") as refused:
        parse_log(stored(LOG, **{where: values[where]}))
    assert f"it lists {key}, which" in str(refused.value)


@pytest.mark.parametrize("key", ["data/t/p=../x.parquet", "data/t/p=a/..x.parquet", "data/t/x"])
def test_dots_inside_of_a_name_are_just_dots(key: str) -> None:
    assert parse_log(stored(LOG, also={key: 0})).also == {key: 0}


# --- where it lies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "topic", "key"),
    [
        ("group", "sensors", "data/t/_journal/group/sensors/7.json"),
        ("..", ".", "data/t/_journal/%2E%2E/%2E/7.json"),
        ("a%2Fb", "t", "data/t/_journal/a%252Fb/t/7.json"),
        ("schema.json", "t", "data/t/_journal/schema%2Ejson/t/7.json"),
        ("größe", "t", "data/t/_journal/gr%C3%B6%C3%9Fe/t/7.json"),
        ("x" * 150, "t", f"data/t/_journal/{'x' * 150}/t/7.json"),
    ],
)
def test_names_are_percent_encoded(group: str, topic: str, key: str) -> None:
    assert claim_key("data/t", group, TopicPartition(topic, 7)) == key


@pytest.mark.parametrize("name", ["x" * 151, "." * 51, "ü" * 249, "x" * 249, "x" * 10_000])
def test_a_name_that_is_too_long_for_a_folder_is_cut_and_made_unique_by_a_hash(name: str) -> None:
    folder = group_folder("data/t", name).split("/")[-2]
    assert len(folder) < 200
    assert folder != group_folder("data/t", f"{name}x").split("/")[-2]
    assert folder == group_folder("data/t", name).split("/")[-2]


texts = st.one_of(
    st.text(st.sampled_from("aA./%~_-2EF"), min_size=1, max_size=8),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    st.integers(145, 155).map(lambda length: "x" * length),
    st.just("schema.json"),
)


@given(texts, texts, texts, texts)
def test_no_two_groups_or_topics_share_a_journal(group: str, topic: str, other_group: str, other_topic: str) -> None:
    ours = claim_key("data/t", group, TopicPartition(topic, 0))
    theirs = claim_key("data/t", other_group, TopicPartition(other_topic, 0))
    assert (ours == theirs) == ((group, topic) == (other_group, other_topic))


@given(texts, st.one_of(texts, st.just("generations.d")))
def test_a_claim_is_three_levels_below_the_folder_of_journals_whatever_the_names_and_no_log(
    group: str, topic: str
) -> None:
    """So none is the table's schema, which lies in that folder, and none leaves it."""
    key = claim_key("data/t", group, TopicPartition(topic, 0))
    levels = key.removeprefix("data/t/_journal/").split("/")
    assert len(levels) == 3
    assert not {"", ".", ".."}.intersection(levels)
    assert "schema.json" not in levels
    assert is_log(log_key("data/t", group, "0a1b2c3d"))
    assert not is_log(key)


def test_a_folder_of_a_name_cut_is_never_the_one_of_a_whole_name() -> None:
    cut = group_folder("data/t", "x" * 200).split("/")[-2]
    assert group_folder("data/t", cut).split("/")[-2] != cut


# --- where a log lies -----------------------------------------------------------------------------------------------


def test_a_log_lies_beside_the_claims_of_its_group_and_in_no_topics_folder() -> None:
    key = log_key("data/t", "a.b", "0a1b2c3d")
    assert key == "data/t/_journal/a%2Eb/generations.d/0a1b2c3d.json"
    assert key.startswith(logs_folder("data/t", "a.b"))


def test_the_marks_of_a_batch_are_the_same_whoever_registers_it_and_whatever_is_claimed_meanwhile() -> None:
    """A partition that joins the generation may have advanced without a file, so that no catalog knows of it."""
    first, other = Progress(topic="t", partition=0, end=9, series="a"), Progress(topic="t", partition=1, end=5)
    log = AssignmentLog(seq=1, owner="o", writer="o", partitions=(first,))
    ends = {first.tp: 19}
    pending = log.pending(Intent(0, [OffsetRange(first.tp, 10, 15)], [FILE], {}, ends))
    wider = pending.changed(partitions=(*pending.partitions, other))
    kept = wider.kept([FILE])
    assert pending.marks == wider.marks == kept.marks == (Mark(first.tp, "a", 19),)
    assert (kept.done().marks, [each.end for each in kept.done().partitions]) == ((), [19, 5])
