"""What the servers are made to run: one folder for each workload."""
