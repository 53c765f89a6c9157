"""Shows a running connector to users and platforms: metrics, probes, and the status page."""
