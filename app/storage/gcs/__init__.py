"""Google Cloud Storage by its own API, through google-cloud-storage."""
