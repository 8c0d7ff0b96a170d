"""What a check has found so far, in the words in which it is told."""

from broker.wire.errors import ErrorCode
from millstream.chain.complaints import Complaint
from millstream.chain.findings import Finding, place_of_hook
from millstream.chain.stage import Stage
from millstream.check.items import Difference
from millstream.check.trial import Bad, Sample
from workers.api import Worker


class Notes:
    """See the module. Nothing is told twice."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def add(self, where: str, what: str, todo: str = "", trace: str = "") -> None:
        """Something is wrong."""
        self._note(Finding(where, what, todo, trace))

    def warn(self, where: str, what: str, todo: str = "") -> None:
        """Something may be wrong."""
        self._note(Finding(where, what, todo, is_warning=True))

    def _note(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def differ(
        self, giver: Stage, taker: Stage, difference: Difference, *, gives: str, wants: str
    ) -> None:
        """One stage gives what the next does not take."""
        of = f" for {difference.path}" if difference.path else ""
        note = self.add if difference.is_sure else self.warn
        note(
            forward_of(giver),
            f"{name_of(giver)} {gives} {difference.this}{of}, and {name_of(taker)} "
            f"({taker.part.place}) {wants} {difference.that}",
            "return what the next stage takes, or correct what that one says"
            if difference.is_sure
            else "if that is meant, all is well",
        )

    def bad(self, stage: Stage, bad: Bad, sample: Sample, size: int) -> None:
        """An item that failed, with the place where it did."""
        name, complaint = name_of(stage), bad.complaint
        given = f"; it was given {sample.source}"
        if complaint is not None and complaint.given:
            given += f", {complaint.given}"
        if complaint is None:
            code = ErrorCode(bad.failure.code).name.lower()
            self.add(stage.part.place, f"{name} answers {code}: {bad.failure.message}{given}")
            return
        hook = complaint.where
        if hook not in ("decode", "encode") or getattr(type(stage.plugin), hook) is getattr(
            Worker, hook
        ):
            hook = "forward"  # which made what our own cannot write
        says_size = complaint.where == "wrong result"
        together = f", in a batch of {size}" if size > 1 and not says_size else ""
        self.add(
            place_of_hook(type(stage.plugin), hook),
            f"{_what(name, hook, complaint)}{together}{given}",
            trace=complaint.trace,
        )


def name_of(stage: Stage) -> str:
    """Of its plug-in."""
    return type(stage.plugin).__name__


def forward_of(stage: Stage) -> str:
    """Where its `forward` stands."""
    return place_of_hook(type(stage.plugin), "forward")


def _what(name: str, hook: str, complaint: Complaint) -> str:
    error = complaint.error
    if error.startswith((f"{name}.", f"{name}:")):  # it says all that by itself
        return error
    return f"{name}.{hook} {error if error.startswith('returned ') else f'raised {error}'}"
