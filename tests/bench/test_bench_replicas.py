"""Figures of groups of replicas follow from their files and logs."""

import time
from datetime import datetime
from pathlib import Path

from bench.shared_rate import Window, window_of
from bench.standstill import unread_seconds
from bench.timeline import LandedFile


def _files(*rows_at: tuple[float, int]) -> list[LandedFile]:
    return [LandedFile(at, rows, 1_000) for at, rows in rows_at]


def test_the_rate_begins_when_the_last_replica_has_landed_a_file_and_ends_with_most_rows() -> None:
    first = _files((10.0, 100), (20.0, 100), (30.0, 100), (40.0, 5))
    second = _files((15.0, 100), (25.0, 100), (35.0, 100))

    assert window_of([first, second], 605) == Window(15.0, 35.0, [200, 200], 7)
    landed_before = _files((10.0, 50), (20.0, 50), (30.0, 50))  # than the shares were given
    assert window_of([landed_before], 200) == Window(10.0, 30.0, [100], 3)


def _log(path: Path, *lines: tuple[float, str]) -> Path:
    def moment(at: float) -> str:
        return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]

    path.write_text("".join(f"{moment(at)} INFO app.consumer.plain.loop: {text}\n" for at, text in lines))
    return path


def test_a_partition_is_unread_from_the_last_record_of_one_owner_to_the_claim_of_the_next(tmp_path: Path) -> None:
    now = float(int(time.time()))
    old = _log(
        tmp_path / "old",
        (now, "claimed: t[0] from 0, t[1] from 7, t[2] from 0"),
        (now + 10, "given away: t[0], t[1]"),
        (now + 11, "claimed: t[0] from 5"),
        (now + 12, "lost: t[2]; their new owner goes on"),
    )
    dead = _log(tmp_path / "dead", (now, "claimed: t[3] from 0"))
    new = _log(tmp_path / "new", (now + 12, "claimed: t[1] from 9"), (now + 25, "claimed: t[3] from 4"))

    records = {old: [now + 5, now + 9, now + 20]}
    found = unread_seconds([old, dead, new], records, {dead: now + 4}, now + 3, now + 30)

    assert found == {0: 2.0, 1: 3.0, 2: 21.0, 3: 21.0}, "what nobody claims is unread to the end"
