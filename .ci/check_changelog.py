"""Check that the newest entry of CHANGELOG.md is the version that pyproject.toml names."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problem(changelog: str, version: str) -> str | None:
    """What is wrong; None where the first heading of the form `## [1.2.3]` names the version."""
    top = re.search(r"^## \[?(\d[^\]\s]*)", changelog, re.MULTILINE)
    if top is None:
        return "CHANGELOG.md has no entry such as '## [1.2.3]'"
    if top[1] != version:
        return f"CHANGELOG.md begins with {top[1]}, pyproject.toml says {version}"
    return None


def main() -> int:
    """Print the problem, if there is one; returns the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    path = ROOT / "CHANGELOG.md"
    changelog = path.read_text(encoding="utf-8") if path.exists() else ""
    found = problem(changelog, project["version"])
    if found is not None:
        print(found, file=sys.stderr)  # noqa: T201
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(main())
