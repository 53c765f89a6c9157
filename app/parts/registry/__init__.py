"""Schema registries: Confluent's, registries with its protocol, and AWS Glue."""
