"""Which versions a policy chooses, and what is no policy or no version."""

import pytest

from workers.policy import PolicyError, parse_policy, version_of

THERE = ["9", "10", "2", "20240601120000"]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("latest:1", ["20240601120000"]),
        ("latest:2", ["20240601120000", "10"]),
        ("latest:1000", ["20240601120000", "10", "9", "2"]),
        ("all", ["20240601120000", "10", "9", "2"]),
        ("specific:2,9", ["9", "2"]),
        ("specific: 02 , 3", ["2"]),
    ],
)
def test_what_is_chosen(text: str, chosen: list[str]) -> None:
    assert parse_policy(text).choose(THERE) == chosen
    assert parse_policy(text).choose([]) == []


@pytest.mark.parametrize(
    "text",
    ["", "3", "latest", "latest:", "latest:0", "latest:-1", "latest:1001", "latest:x", "All",
     "all:1", "specific", "specific:", "specific:1,", "specific:v1", "specific:-1", "newest:1"],
)  # fmt: skip
def test_what_is_no_policy(text: str) -> None:
    with pytest.raises(PolicyError, match="must be latest:N, all, or specific"):
        parse_policy(text)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("1", "1"), ("007", "7"), ("0", "0"), ("000", "0"), ("9" * 18, "9" * 18),
        ("9" * 19, ""), ("-1", ""), ("+1", ""), ("1.5", ""), ("1_0", ""), (" 1", ""), ("1\n", ""),
        ("v1", ""), ("", ""), ("²", ""), ("١", ""), ("1.partial", ""), (".1", ""),
    ],
)  # fmt: skip
def test_names_of_folders(name: str, version: str) -> None:
    assert version_of(name) == version
