"""``python main.py replay``: sends records of the dead letter back to Kafka."""
