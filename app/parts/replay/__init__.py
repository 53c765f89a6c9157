"""``python main.py replay``: brings records of the dead letter back to Kafka, as they came.

Bytes, headers and timestamps are those of the dead letter.
"""

from app.parts import NewCommand
from app.time_texts import time


def add_commands(new: NewCommand) -> None:
    replay = new("replay", "Send the records of the table's dead letter to a topic again.", needs="broker store")
    replay.add_argument(
        "--to", metavar="TOPIC", help="the topic for all of them (default: the topic and partition that each came from)"
    )
    replay.add_argument("--reason", metavar="TEXT", default="", help="only those whose reason contains this text")
    replay.add_argument("--since", metavar="TIME", type=time, help="only those rejected at or after it (ISO, UTC)")
    replay.add_argument("--until", metavar="TIME", type=time, help="only those rejected before it (ISO, UTC)")
    mode = replay.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="send nothing, count them by reason")
    mode.add_argument("--delete", action="store_true", help="delete each file once all of its records are sent")
