"""What people and platforms see of a running connector: metrics, probes, and the status page."""
