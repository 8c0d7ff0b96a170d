"""The numbers of kinds, and that PROTOCOL.md says of every kind who sends it to whom."""

import re
from collections import Counter
from pathlib import Path
from typing import get_args

from broker import wire
from broker.wire.messages import FromBroker, ToBroker
from broker.wire.messages.kinds import KINDS

BOTH_WAYS = {
    "to": {message.__name__ for message in get_args(ToBroker)},
    "from": {message.__name__ for message in get_args(FromBroker)},
}


def test_no_two_kinds_share_a_number() -> None:
    assert [number for number, times in Counter(KINDS.values()).items() if times > 1] == []


def test_a_kind_is_what_the_broker_may_be_sent_or_may_send() -> None:
    assert BOTH_WAYS["to"] & BOTH_WAYS["from"] == set()
    assert BOTH_WAYS["to"] | BOTH_WAYS["from"] == set(KINDS)


def test_the_number_of_a_kind_is_what_travels() -> None:
    travels = {
        message.__name__: message.__struct_config__.tag
        for message in (*get_args(ToBroker), *get_args(FromBroker))
    }
    assert travels == KINDS


def test_the_protocol_page_has_every_kind_once_and_in_its_direction() -> None:
    page = Path(*wire.__path__, "PROTOCOL.md").read_text()
    table = page.partition("\n## Kinds\n")[2].partition("\n## ")[0]
    told: dict[str, list[str]] = {"to": [], "from": []}
    for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \| (`[^|]+) \|", table, flags=re.MULTILINE):
        sender, _receiver, kinds = row
        told["from" if sender == "broker" else "to"] += re.findall(r"`(\w+)`", kinds)
    assert {way: sorted(kinds) for way, kinds in told.items()} == {
        way: sorted(kinds) for way, kinds in BOTH_WAYS.items()
    }
