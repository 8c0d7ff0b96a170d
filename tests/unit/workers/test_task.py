"""What passes between a supervisor and its worker process."""

import os

from workers.options import WorkerOptions
from workers.process import describe_exit
from workers.task import (
    Closing,
    Failed,
    Imported,
    Status,
    StatusReader,
    StatusWriter,
    Task,
    Warm,
    Worn,
    decode_task,
    encode_task,
)


def test_a_task_arrives_as_it_was_sent() -> None:
    task = Task(
        options=WorkerOptions(script="ü b.py", broker="ipc:///x"),
        index=1,
        device="cpu",
        identity="77",
        supervisor="73",
        supervisor_pid=4,
        status_fd=5,
        mark_fd=6,
    )
    assert decode_task(encode_task(task)) == task


def test_statuses_arrive_in_order_then_the_end() -> None:
    read_fd, write_fd = os.pipe()
    reader, writer = StatusReader(read_fd), StatusWriter(write_fd)
    assert reader.read() == ([], False)
    said: list[Status] = [
        Imported("infer"),
        Warm(),
        Worn("it is old"),
        Worn("it is fat", True),
        Closing(),
    ]
    for status in said:
        writer.say(status)
    assert reader.read() == (said, False)
    os.write(write_fd, b'{"type":"wa')
    assert reader.read() == ([], False)
    os.write(write_fd, b'rm"}\n')
    assert reader.read() == ([Warm()], False)
    writer.close()
    assert reader.read() == ([], True)
    reader.close()


def test_an_endless_traceback_fits_into_the_pipe() -> None:
    read_fd, write_fd = os.pipe()
    reader, writer = StatusReader(read_fd), StatusWriter(write_fd)
    writer.say(Failed("m", "x" * 1_000_000 + "the end", while_loading=False))
    (status,), _ = reader.read()
    assert isinstance(status, Failed)
    assert status.trace.endswith("the end")
    writer.close()
    reader.close()


def test_a_supervisor_that_is_gone_is_no_error() -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    writer = StatusWriter(write_fd)
    writer.say(Warm())
    writer.close()


def test_exits_in_words() -> None:
    assert describe_exit(1) == "exit code 1"
    assert describe_exit(-9) == "signal 9 (SIGKILL)"
    assert describe_exit(-60) == "signal 60"
