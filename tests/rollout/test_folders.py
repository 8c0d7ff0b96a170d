"""Folders of versions that are no good, or not yet: a clear word, and what serves goes on."""

import shutil
import time
from pathlib import Path

import pytest

from tests.rollout.mill import STAGES, Mill, check
from tests.system.deployment import wait_until
from workers.repository import QUIET_S

pytestmark = pytest.mark.system


def folder(mill: Mill, stage: str, version: str) -> Path:
    return mill.folder / "models" / stage / version


def detail(mill: Mill, version: str) -> str:
    """Why a version has failed; "" while it has not."""
    for each in mill.ask("traffic")["versions"]:
        if (each["version"], each["state"]) == (version, "failed"):
            return str(each["detail"])
    return ""


def wait_failed(mill: Mill, version: str, why: str) -> None:
    wait_until(lambda: why in detail(mill, version), 30.0, f"version {version} fails: {why}")


def test_what_cannot_be_a_version_changes_nothing(mill: Mill) -> None:
    old = mill.begin()
    with mill.load(8) as load:
        bad = mill.put("raise")
        wait_failed(mill, bad, f"version {bad} has no weights")

        mill.newest += 1
        looped = str(mill.newest)
        folder(mill, "infer", looped).mkdir()
        (folder(mill, "infer", looped) / "weights").symlink_to("weights")  # nobody can read it
        (folder(mill, "infer", looped) / "READY").touch()
        wait_until(lambda: detail(mill, looped), 30.0, "it fails")

        folder(mill, "infer", "latest").mkdir()
        mill.stages["infer"].wait_for_output('event="this is no version" name=latest')
        assert {mill.version() for _ in range(10)} == {old}
    check(load)
    assert {each.version for each in mill.seen[-100:]} == {old}
    for version in (bad, looped, "latest"):
        for stage in STAGES:
            shutil.rmtree(folder(mill, stage, version), ignore_errors=True)


def test_a_copy_that_takes_its_time_is_waited_for(mill: Mill) -> None:
    """Written byte by byte, and for longer than a pause may be."""
    old = mill.begin()
    mill.newest += 1
    new = str(mill.newest)
    content = b"fine\n" + b"0\n" * 15 + b"end\n"
    with mill.load(8) as load:
        for stage in STAGES:
            folder(mill, stage, new).mkdir()
        assert new not in mill.states(), "it is empty"
        began = time.monotonic()
        files = [(folder(mill, stage, new) / "weights").open("wb", 0) for stage in STAGES]
        for at in range(len(content)):
            for file in files:
                file.write(content[at : at + 1])
            time.sleep((QUIET_S + 0.4) / len(content))
        for file in files:
            file.close()
        assert time.monotonic() - began > QUIET_S
        assert (mill.version(), mill.states().get(new)) == (old, None)
        mill.wait_stable(new)
    check(load)
    assert not [f for _, f in mill.events("version failed") if f["version"] == new]


def test_a_version_that_is_removed_goes_on_serving(mill: Mill) -> None:
    old = mill.begin()
    with mill.load(8) as load:
        for stage in STAGES:
            shutil.rmtree(folder(mill, stage, old))
            mill.stages[stage].wait_for_output(f'event="its folder is gone" version={old}')
        assert mill.version() == old
        assert mill.states()[old] == "ready"
        new = mill.put()
        mill.wait_stable(new)
    check(load)
