"""`python app.py` serves two pipelines from one file, and nothing is left when it is killed.

One deployment serves all tests here; the last one kills it.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.ports import HOST, free_port
from tests.system.deployment import READY_S, STOP_S, Deployment, Role, wait_until
from tests.system.served import arenas_of, broker_of, serve, stop

pytestmark = pytest.mark.system

PLUGINS = Path(__file__).parent / "plugins" / "served"
AT_ONCE = 500


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    with Deployment() as mill:
        shutil.copytree(PLUGINS, mill.folder, dirs_exist_ok=True)
        yield mill


@pytest.fixture(scope="module")
def app(mill: Deployment) -> Role:
    """The script, ready."""
    role = serve(mill, "app.py")
    role.wait_for_output("Ctrl-C ends it")
    return role


def test_it_tells_what_runs_and_where(mill: Deployment, app: Role) -> None:
    told = app.output
    assert f"app.py serves at http://{HOST}:{mill.port}" in told
    assert "app     preprocess → answer  POST /pipelines/app\n" in told
    assert "asking  ask                  POST /pipelines/asking\n" in told
    assert "workers  preprocess, answer × 2, ask" in told
    assert f"http://{HOST}:{mill.port}/ui" in told


def test_each_line_of_the_log_bears_the_name_of_its_role(app: Role) -> None:
    def has_all() -> bool:
        names = set(re.findall(r"^(\S+) +\| ", app.output, re.MULTILINE))
        return names == {"gateway", "broker", "preprocess", "answer", "ask"}

    wait_until(has_all, READY_S, "lines of each role")
    wait_until(
        lambda: re.search(r"^preprocess +\| .*a line that a plug-in prints", app.output, re.M),
        READY_S,
        "what a plug-in prints",
    )
    assert "\x1b" not in app.output


def test_its_pipelines_answer_and_share_a_stage(mill: Deployment, app: Role) -> None:
    with mill.client() as client:
        answers = [client.post(f"/pipelines/{name}", b'{"x": 4}') for name in ("app", "other") * 8]
    assert {answer.status for answer in answers} == {200}
    assert {answer.json()["y"] for answer in answers} == {5.0}
    assert {answer.json()["suffix"] for answer in answers} == {"!"}
    with mill.client() as client:
        pipelines = client.get("/pipelines").json()
    assert len(app.children()) == 5  # gateway, broker, and a supervisor for each stage
    assert "other" in json.dumps(pipelines)


def test_its_folder_is_private(app: Role) -> None:
    folder = Path(broker_of(app).removeprefix("ipc://")).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "attempts = 1" in (folder / "pipelines.toml").read_text()


def test_one_process_holds_hundreds_of_requests_that_wait_for_others(
    mill: Deployment, app: Role
) -> None:
    """The service that is asked answers when all have asked, and so nobody earlier."""

    async def main() -> list[dict[str, int]]:
        arrived = 0
        all_there = asyncio.Event()

        async def hear(_request: web.Request) -> web.Response:
            nonlocal arrived
            arrived += 1
            if arrived == AT_ONCE:
                all_there.set()
            await all_there.wait()
            return web.json_response(arrived)

        service = web.Application()
        service.router.add_get("/", hear)
        runner = web.AppRunner(service)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, HOST, port, backlog=1024).start()
        try:
            body = {"url": f"http://{HOST}:{port}/"}
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(connector=connector) as session:
                return await asyncio.gather(*(_post(session, mill, body) for _ in range(AT_ONCE)))
        finally:
            await runner.cleanup()

    answers = asyncio.run(main())
    assert {answer["heard"] for answer in answers} == {AT_ONCE}
    assert len({answer["pid"] for answer in answers}) == 1


async def _post(
    session: aiohttp.ClientSession, mill: Deployment, body: dict[str, str]
) -> dict[str, int]:
    url = f"http://{HOST}:{mill.port}/pipelines/asking"
    async with session.post(url, json=body) as response:
        assert response.status == 200, await response.text()
        answer: dict[str, int] = await response.json()
        return answer


def test_a_role_that_dies_is_started_again(mill: Deployment, app: Role) -> None:
    gateway = next(child for child in app.children() if "gateway" in child.cmdline())
    gateway.kill()
    app.wait_for_output("gateway has ended by SIGKILL; it is started again")
    wait_until(lambda: app.output.count("listening url=") == 2, READY_S, "another gateway")
    mill.wait_ready()
    with mill.client() as client:
        assert client.post("/pipelines/app", b'{"x": 1}').status == 200


def test_kill_9_leaves_no_process_and_no_file(mill: Deployment, app: Role) -> None:
    address = broker_of(app)
    assert list(arenas_of(address).glob("*.arena"))
    app.kill()
    wait_until(lambda: not mill.processes(), STOP_S, "all have ended")
    assert not arenas_of(address).exists()
    assert not list(mill.runtime.iterdir())


def test_ctrl_c_drains_and_a_second_one_ends_at_once(mill: Deployment) -> None:
    script = mill.write("slow.py", SLOW)
    first = serve(mill, script)
    first.wait_for_output("Ctrl-C ends it")
    with mill.client() as client:
        assert client.post("/inference", b"0").json() == 0
    stop(first)
    assert not list(mill.runtime.iterdir())

    second = serve(mill, script)
    second.wait_for_output("Ctrl-C ends it")
    with mill.client() as client:
        client.connect()
        client._connection.request("POST", "/inference", body=b"30")
        wait_until((mill.folder / "begun").exists, READY_S, "it works")
        second.send(signal.SIGTERM)
        second.wait_for_output("draining")
        second.expected_exit = 128 + signal.SIGTERM
        stop(second, signal.SIGTERM)
    wait_until(lambda: not mill.processes(), STOP_S, "all have ended")
    assert not list(mill.runtime.iterdir())


SLOW = f"""
import time
from pathlib import Path
from millstream import serve, stage

@stage
def slow(batch):
    if batch[0]:
        Path("begun").touch()
        time.sleep(batch[0])
    return batch

if __name__ == "__main__":
    serve([slow], drain=20.0, host="{HOST}")
    print("and the script goes on")
"""


def test_what_was_killed_at_once_is_removed_by_the_next(mill: Deployment) -> None:
    script = mill.write("slow.py", SLOW)
    role = serve(mill, script)
    role.wait_for_output("Ctrl-C ends it")
    processes = mill.processes()
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)  # so that none of them can see to it
    for process in processes:
        process.kill()
    role.expected_exit = -signal.SIGKILL
    role.wait()
    wait_until(lambda: not mill.processes(), STOP_S, "all have ended")
    assert len(list(mill.runtime.iterdir())) == 1
    again = serve(mill, script)
    again.wait_for_output("Ctrl-C ends it")
    assert [folder.name for folder in mill.runtime.iterdir()] == [
        Path(broker_of(again).removeprefix("ipc://")).parent.name
    ]
    stop(again)
    assert again.output.rstrip().endswith("and the script goes on")
