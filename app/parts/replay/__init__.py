"""Adds ``python main.py replay``, which sends records of the dead letter to Kafka again, without changes."""

from app.parts import NewCommand
from app.time_texts import time


def add_commands(new: NewCommand) -> None:
    replay = new("replay", "Send the records of the table's dead letter to a topic again.", needs="broker store")
    replay.add_argument(
        "--to", metavar="TOPIC", help="the topic for all records (default: their topics and partitions)"
    )
    replay.add_argument("--reason", metavar="TEXT", default="", help="only records whose reason contains this text")
    replay.add_argument("--since", metavar="TIME", type=time, help="only records rejected at or after TIME (ISO, UTC)")
    replay.add_argument("--until", metavar="TIME", type=time, help="only records rejected before TIME (ISO, UTC)")
    mode = replay.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="send nothing, count the records by reason")
    mode.add_argument("--delete", action="store_true", help="delete each file once all of its records are sent")
