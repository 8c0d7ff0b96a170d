"""When a supervisor gives up."""

from workers.task import Failed
from workers.verdict import EXIT_FAILED, EXIT_USAGE, TRIES, Verdict

SETUP = Failed("setup failed", "trace", while_loading=False)


def given_up(verdict: Verdict) -> tuple[int | None, str]:
    return verdict.exit_code, verdict.trace


def test_a_script_that_cannot_be_loaded_is_given_up_at_once() -> None:
    verdict = Verdict(4)
    verdict.failed(2, Failed("no", "trace", while_loading=True))
    assert (verdict.exit_code, verdict.message, verdict.trace) == (EXIT_FAILED, "no", "trace")


def test_setup_has_to_fail_in_every_process() -> None:
    verdict = Verdict(2)
    verdict.failed(1, SETUP)
    verdict.failed(1, SETUP)
    assert verdict.exit_code is None
    verdict.failed(0, SETUP)
    assert given_up(verdict) == (EXIT_FAILED, "trace")


def test_silent_deaths_are_tried_again_a_few_times() -> None:
    verdict = Verdict(1)
    for _ in range(TRIES - 1):
        verdict.died(0, "exit code 1")
    assert verdict.exit_code is None
    verdict.died(0, "exit code 1")
    assert given_up(verdict) == (EXIT_FAILED, "")
    assert "exit code 1" in verdict.message


def test_after_the_first_one_was_ready_nothing_is_given_up() -> None:
    verdict = Verdict(1)
    verdict.warm()
    for _ in range(10):
        verdict.died(0, "signal 9")
        verdict.failed(0, SETUP)
    assert verdict.exit_code is None


def test_a_refusal_counts_until_a_broker_took_a_worker_in() -> None:
    verdict = Verdict(1)
    verdict.warm()
    verdict.refused("unknown stage")
    assert verdict.exit_code == EXIT_USAGE
    taken = Verdict(1)
    taken.warm()
    taken.welcomed()
    taken.refused("unknown stage")
    assert taken.exit_code is None


def test_what_a_version_comes_to_matters_to_its_supervisor_where_others_would_too() -> None:
    supervisor, version = Verdict(1), Verdict(1)
    version.failed(0, SETUP)
    supervisor.follow(version)
    assert supervisor.exit_code is None
    script = Verdict(1)
    script.failed(0, Failed("no", "trace", while_loading=True))
    supervisor.follow(script)
    assert given_up(supervisor) == (EXIT_FAILED, "trace")
    refused = Verdict(1)
    refused.refused("unknown stage")
    other = Verdict(1)
    other.follow(refused)
    assert other.exit_code == EXIT_USAGE


def test_after_one_version_was_ready_no_other_ends_the_supervisor() -> None:
    supervisor, ready = Verdict(1), Verdict(1)
    ready.warm()
    ready.welcomed()
    supervisor.follow(ready)
    script, refused = Verdict(1), Verdict(1)
    script.failed(0, Failed("no", "trace", while_loading=True))
    refused.refused("unknown stage")
    supervisor.follow(script)
    supervisor.follow(refused)
    assert supervisor.exit_code is None


def test_nothing_that_was_tried_has_worked() -> None:
    verdict = Verdict(1)
    verdict.give_up("no version can be loaded")
    assert (verdict.exit_code, verdict.message) == (EXIT_FAILED, "no version can be loaded")
