"""Build the site into a folder, `build/site` where none is named: exit 1 where anything is amiss.

A warning of the generator is an error, and so is a link that leads nowhere.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from docs.site.links import problems
from docs.site.stage import ROOT, StagingError, stage


def build(work: Path) -> list[str]:
    """What is wrong with the site, which is `work/site`, a line each; none where it is as it should
    be. What `work` held before is lost."""
    shutil.rmtree(work, ignore_errors=True)
    try:
        stage(work)
    except StagingError as error:
        return [str(error)]
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "mkdocs.yml"]
    ran = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if ran.returncode:
        return [ran.stdout + ran.stderr]
    return problems(work / "site")


def main(argv: list[str]) -> int:
    """Its exit code."""
    work = Path(argv[0] if argv else ROOT / "build" / "docs")
    wrong = build(work)
    for line in wrong:
        print(line, file=sys.stderr)  # noqa: T201
    if not wrong:
        print(f"the site is {work / 'site' / 'index.html'}")  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
