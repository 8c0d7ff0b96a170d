"""A pipeline's chain in this process: no sockets, no broker, no other process.

The stages are run by what workers run them by; between two stages, results become the bytes of a
message, and are read back from it. `millstream.testing` and `millstream check` stand on it.
"""
