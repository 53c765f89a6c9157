"""Schema registries: registries with Confluent's API, and AWS Glue."""
