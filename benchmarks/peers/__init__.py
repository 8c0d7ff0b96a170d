"""One module for each server that is measured, all behind `benchmarks.peers.server.Server`."""
