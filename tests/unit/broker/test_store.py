"""What is kept of traffic: on a real disk, through kills, full disks and files that are none."""

import os
import resource
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from broker import store as store_module
from broker.core.events import Change
from broker.core.traffic import Promotion, Traffic, take_over
from broker.database import IN_MEMORY, MIGRATIONS, NoPlace, StoreError
from broker.store import Done, Saved, Store, Told, default_path

CHANGE = Change("me@here", "traffic 1=100", "a test")
WAIT_S = 20.0

WRITER = """
import sys, time
from broker.core.events import Change
from broker.core.traffic import take_over, Traffic
from broker.store import Store
store = Store(sys.argv[1])
before = store.load(0.0)
number = int(before["p"].stable) if before else 0
print("begun", flush=True)
while True:
    number += 1
    store.save("p", take_over(Traffic(), str(number)), Change("me", str(number)), number)
    while not (done := store.done()):
        time.sleep(0.0001)
    assert not done[0].trouble, done
    print(number, flush=True)
"""


def wait(store: Store) -> Done:
    """The next thing that is done."""
    assert select.select([store.fd], [], [], WAIT_S)[0], "nothing is done"
    (done,) = store.done()
    return done


def save(store: Store, version: str, pipeline: str = "digits") -> str:
    """What the trouble was, "" for none."""
    traffic = take_over(Traffic(), version)
    store.save(pipeline, traffic, Change("me@here", f"to {version}", "why"), version)
    done = wait(store)
    assert isinstance(done, Saved)
    assert done.token == version
    return done.trouble


def tell(store: Store, limit: int = 100, pipeline: str = "digits") -> Told:
    store.tell(pipeline, limit, "token")
    done = wait(store)
    assert isinstance(done, Told)
    return done


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "digits.traffic.db")


@pytest.fixture
def full_disk(path: str) -> Iterator[Callable[[], None]]:
    """Lets files grow no further than the store's has; ends with the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path), hard))

    yield fill
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_is_saved_is_there_for_the_next_broker(path: str) -> None:
    with closing(Store(path)) as store:
        assert store.load(0.0) == {}
        assert save(store, "1") == ""
        assert save(store, "2") == ""
        assert save(store, "7", "other") == ""
    with closing(Store(path)) as store:
        assert store.load(0.0) == {
            "digits": take_over(Traffic(), "2"),
            "other": take_over(Traffic(), "7"),
        }
        told = tell(store)
        assert [(each.what, each.by, each.why) for each in told.entries] == [
            ("to 2", "me@here", "why"),
            ("to 1", "me@here", "why"),
        ]
        assert told.entries[0].traffic["stable"] == "2"
        assert [each.what for each in tell(store, limit=1).entries] == ["to 2"]
        assert tell(store, pipeline="none").entries == []
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_it_is_for_its_owner_alone(path: str) -> None:
    with closing(Store(path)):
        assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_promotion_goes_on_while_there_is_no_broker(path: str) -> None:
    traffic = Traffic(promotion=Promotion("2", (1.0, 100.0), 600.0, step=1, elapsed_s=5.0))
    with closing(Store(path)) as store:
        store.save("digits", traffic, CHANGE, None)
        wait(store)
        at = tell(store).entries[0].at
    with closing(Store(path)) as store:
        for now, elapsed_s in ((at + 60.0, 65.0), (at - 1000.0, 5.0)):  # a clock that was set back
            promotion = store.load(now)["digits"].promotion
            assert promotion is not None
            assert promotion.elapsed_s == pytest.approx(elapsed_s)
            assert promotion.step == 1


def test_what_is_asked_for_before_the_end_is_done(path: str) -> None:
    store = Store(path)
    for number in range(20):
        store.save("digits", take_over(Traffic(), str(number)), CHANGE, number)
    assert [done.token for done in store.close()] == list(range(20))
    with closing(Store(path)) as store:
        assert store.load(0.0)["digits"].stable == "19"


def test_the_history_is_bounded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MOST_CHANGES", 3)
    with closing(Store(path)) as store:
        for number in range(6):
            save(store, str(number))
        save(store, "1", "other")
        assert [each.what for each in tell(store).entries] == ["to 5", "to 4", "to 3"]
        assert len(tell(store, pipeline="other").entries) == 1


def test_in_memory_there_is_a_history_too() -> None:
    with closing(Store(IN_MEMORY)) as store:
        assert save(store, "1") == ""
        assert len(tell(store).entries) == 1
    with closing(Store(IN_MEMORY, lack="there is no disk")) as store:
        assert store.trouble == "there is no disk"
        assert save(store, "1") == "there is no disk"


# ------------------------------------------------------------------ kills, disks


@pytest.mark.system
def test_a_kill_in_the_middle_of_a_write_loses_nothing_that_was_told(path: str) -> None:
    told = 0
    for round_number in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        with writer, writer.stdout as lines:
            assert lines.readline() == "begun\n"
            for _ in range(1 + 3 * round_number):
                told = int(lines.readline())
            os.kill(writer.pid, signal.SIGKILL)
            told = max([told, *(int(line) for line in lines if line.endswith("\n"))])
        with closing(Store(path)) as store:
            kept = int(store.load(0.0)["p"].stable)
            assert kept in (told, told + 1)  # written, and not told yet
            entries = tell(store, limit=100_000, pipeline="p").entries
            assert [int(each.what) for each in entries] == list(range(kept, 0, -1))


def test_a_full_disk_is_told_and_made_good(path: str, full_disk: Callable[[], None]) -> None:
    with closing(Store(path)) as store:
        save(store, "1")
        full_disk()
        long = Change("me", "x" * 100_000)
        store.save("digits", take_over(Traffic(), "2"), long, None)
        done = wait(store)
        assert isinstance(done, Saved)
        assert path in done.trouble
        assert store.trouble == done.trouble
        assert [each.what[:4] for each in tell(store).entries] == ["xxxx", "to 1"]
        assert store.load(0.0)["digits"].stable == "1"  # as it was, and whole
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert save(store, "3") == ""  # and with it what was not written
        assert store.trouble == ""
        assert [each.what[:4] for each in tell(store).entries] == ["to 3", "xxxx", "to 1"]


def test_what_a_full_disk_never_takes_does_not_pile_up(
    path: str, full_disk: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MOST_UNWRITTEN", 2)
    with closing(Store(path)) as store:
        save(store, "1")
        full_disk()
        for version in ("2", "3", "4"):
            store.save("digits", take_over(Traffic(), version), Change("", "y" * 100_000), None)
            wait(store)
        assert len(tell(store).entries) == 3
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    with closing(Store(path)) as store:
        assert store.load(0.0)["digits"].stable == "4"  # tried once more at the end


def test_a_file_that_is_moved_away_is_missed(path: str) -> None:
    with closing(Store(path)) as store:
        save(store, "1")
        os.rename(path, f"{path}.moved")
        assert "was moved or removed" in save(store, "2")


# ------------------------------------------------------------------ files that will not do


@contextmanager
def unusable(path: str, why: str, kind: type[StoreError] = StoreError) -> Iterator[None]:
    """The store says why in one line, and leaves the file alone."""
    before = Path(path).read_bytes() if os.path.isfile(path) else None
    with pytest.raises(kind) as caught:
        yield
    assert type(caught.value) is kind
    text = str(caught.value)
    assert text.startswith(f"{path} ")
    assert why in text
    assert "--state" in text
    assert "\n" not in text
    assert before is None or Path(path).read_bytes() == before


def test_two_brokers_do_not_share_it(path: str) -> None:
    with closing(Store(path)) as store:
        other = subprocess.run(
            [sys.executable, "-c", WRITER, path], capture_output=True, text=True, check=False
        )
        assert f"{path} is in use by another broker" in other.stderr
        assert "InUse" in other.stderr
        assert save(store, "1") == ""
    with closing(Store(path)):
        pass


@pytest.mark.parametrize("data", [b"hello, world\n" * 500, b"\0" * 5000])
def test_a_file_that_is_no_database(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)
    with unusable(path, "is damaged, or no file of a broker's traffic"):
        Store(path)


def test_a_file_that_was_cut_or_overwritten(path: str) -> None:
    with closing(Store(path)) as store:
        store.save("digits", take_over(Traffic(), "1"), Change("me", "x" * 100_000), None)
        wait(store)
    whole = Path(path).read_bytes()
    for spoilt in (whole[: len(whole) // 2], whole[:4096] + b"\xa5" * (len(whole) - 4096)):
        Path(path).write_bytes(spoilt)
        with unusable(path, "is damaged"):
            Store(path)


def test_the_state_itself_is_not_to_be_understood(path: str) -> None:
    with closing(Store(path)) as store:
        save(store, "1")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("UPDATE traffic SET traffic = '{\"weights\": 3}'")
    with closing(Store(path)) as store, unusable(path, "cannot be understood"):
        store.load(0.0)


def test_a_database_of_somebody_else(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE traffic (mine TEXT)")
    with unusable(path, "is a database of another program"):
        Store(path)


def test_a_file_of_a_newer_broker(path: str) -> None:
    with closing(Store(path)) as store:
        save(store, "1")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with unusable(path, "was written by a newer millstream"):
        Store(path)


def test_places_where_no_file_can_be(tmp_path: Path) -> None:
    with unusable(str(tmp_path), "cannot be written: Is a directory"):
        Store(str(tmp_path))
    missing = str(tmp_path / "no" / "folder.db")
    with unusable(missing, "cannot be made: No such file or directory", NoPlace):
        Store(missing)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_file_that_may_not_be_written(path: str) -> None:
    with closing(Store(path)) as store:
        save(store, "1")
    os.chmod(path, 0o400)
    with unusable(path, "cannot be written: Permission denied"):
        Store(path)


def test_an_empty_file_is_a_new_store(path: str) -> None:
    Path(path).touch()
    with closing(Store(path)) as store:
        assert save(store, "1") == ""


@pytest.mark.parametrize(
    ("file", "kept"),
    [
        ("digits.toml", "digits.traffic.db"),
        ("a.b/c.toml", "a.b/c.traffic.db"),
        ("x", "x.traffic.db"),
    ],
)
def test_beside_the_pipeline_file(file: str, kept: str) -> None:
    assert default_path(file) == kept
