"""The broker's figures as Prometheus wants to read them. docs/metrics.md has all names."""
