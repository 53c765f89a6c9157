"""``python main.py try``: shows the rows and rejections of sample records, without Kafka, Java or a store."""
