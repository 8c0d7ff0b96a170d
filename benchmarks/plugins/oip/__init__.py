"""The workload of `benchmarks.cases.oip`."""
