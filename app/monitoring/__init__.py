"""Shows a running connector to people and platforms: metrics, probes, and the status page."""
