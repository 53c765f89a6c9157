"""``python main.py try``: shows what becomes of sample records, without Kafka, Java or a store."""
