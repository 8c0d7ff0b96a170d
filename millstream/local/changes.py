"""What another plan means for the processes that run: who stays, goes, or is replaced. Pure."""

from collections.abc import Collection
from typing import NamedTuple

from millstream.local.plan import BROKER, GATEWAY, Plan, Role


class Changes(NamedTuple):
    """What is to be done."""

    broker: Role | None
    """To be started in place of the one that runs; None: it stays. Likewise below."""
    gateway: Role | None
    replaced: list[Role]
    """Stages that are to have new workers before their old ones go."""
    added: list[Role]
    removed: list[str]
    """Names of roles."""

    @property
    def are_none(self) -> bool:
        """Whether all stays as it is."""
        return not any(self)


def changes(old: Plan, new: Plan, touched: Collection[str]) -> Changes:
    """From one plan to the next; `touched`: names of the roles whose code is another."""
    before = {role.name: role for role in old.stages}
    after = {role.name: role for role in new.stages}
    is_other_file = old.pipelines != new.pipelines
    broker, gateway = (_role(new, command) for command in (BROKER, GATEWAY))
    return Changes(
        broker=broker if is_other_file or broker != _role(old, BROKER) else None,
        gateway=gateway if gateway != _role(old, GATEWAY) else None,
        replaced=[
            role
            for name, role in after.items()
            if name in before and (name in touched or role != before[name])
        ],
        added=[role for name, role in after.items() if name not in before],
        removed=[name for name in before if name not in after],
    )


def _role(plan: Plan, command: str) -> Role:
    return next(role for role in plan.roles if role.command == command)
