"""The workload of `benchmarks.cases.streams`."""
