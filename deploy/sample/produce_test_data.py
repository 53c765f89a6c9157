"""Produce readings of two places and days."""

import json
import os

from confluent_kafka import Producer

NOON = 1_705_320_000_000  # 2024-01-15 12:00 UTC, in ms
DAY = 86_400_000

producer = Producer({"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]})
for number in range(40):
    reading = {
        "number": number,
        "ts_ms": NOON + number % 2 * DAY,
        "location": "Berlin" if number < 20 else "Rome",
        "temperature": number / 4,
    }
    producer.produce("test-readings", json.dumps(reading), key=f"sensor-{number % 3}")
left = producer.flush(60)
if left:
    raise SystemExit(f"{left} readings were not taken by Kafka")
print("40 readings produced")
