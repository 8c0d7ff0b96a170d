"""Shares and sticky users in the whole system, through two gateways and a broker that is killed."""

from collections import Counter

import pytest

from tests.rollout.mill import PATH, Mill, body, check
from tests.system.deployment import wait_until

pytestmark = pytest.mark.system

REQUESTS = 2000
USERS = 60


def canary(mill: Mill, share: float, sticky: str = "") -> tuple[str, str]:
    """The stable version, and one with this share in percent."""
    old = mill.begin()
    mill.ask("traffic", weights={old: 1})
    new = mill.put()
    mill.wait_state(new, "ready")
    mill.ask("traffic", weights={old: 100 - share, new: share}, sticky=sticky)
    return old, new


def test_a_canary_gets_its_share(mill: Mill) -> None:
    _, new = canary(mill, 5.0)
    begun = len(mill.seen)
    with mill.load(8) as load:
        wait_until(lambda: load.answered >= REQUESTS, 30.0, f"{REQUESTS} answers")
    check(load)
    counts = Counter(each.version for each in mill.seen[begun:])
    sigma = (0.05 * 0.95 * counts.total()) ** 0.5
    assert abs(counts[new] - 0.05 * counts.total()) < 3 * sigma, counts


@pytest.mark.parametrize(
    ("rule", "header"), [("header:X-User-Id", "X-User-Id"), ("cookie:user", "Cookie")]
)
def test_users_stay_with_their_version(mill: Mill, rule: str, header: str) -> None:
    versions = canary(mill, 40.0, sticky=rule)
    prefix = "user=" if header == "Cookie" else ""
    sides = [users(mill, port, header, prefix) for port in mill.ports]
    mill.broker_role.kill()
    mill.start_broker()
    for port in mill.ports:
        mill.wait_ready(port=port)
    sides += [users(mill, port, header, prefix) for port in mill.ports]
    assert sides[1:] == sides[:1] * 3
    assert set(sides[0]) == set(versions)


def users(mill: Mill, port: int, header: str, prefix: str) -> list[str]:
    """Which version each user gets by way of this gateway."""
    with mill.client(port=port) as client:
        answers = [
            client.post(PATH, body(1), {header: f"{prefix}u{user}"}) for user in range(USERS)
        ]
    assert {answer.status for answer in answers} == {200}
    return [answer.headers["x-model-version"] for answer in answers]
