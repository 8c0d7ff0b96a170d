"""The MOSEC service for the workload with uploads.

Run by the Python of MOSEC's own virtual environment.
"""

from mosec import Server, Worker

from benchmarks.plugins.uploads import functions


class Look(Worker):  # type: ignore[misc]  # mosec is not installed where types are checked
    """The bytes of a body to `{"bytes": int, "tail": int}`."""

    def deserialize(self, data: bytes) -> bytes:
        """Leave the body as it is."""
        return data

    def forward(self, data: list[bytes]) -> list[dict[str, int]]:
        """Look at each item's body."""
        return [dict(zip(("bytes", "tail"), functions.look(body), strict=True)) for body in data]


if __name__ == "__main__":
    server = Server()
    server.append_worker(Look, num=1, max_batch_size=32, max_wait_time=1)
    server.run()
