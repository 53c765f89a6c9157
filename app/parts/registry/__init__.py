"""The registries of schemas: Confluent's, those that speak its protocol, and that of AWS Glue."""
