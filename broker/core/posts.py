"""The places of workers under their supervisors: who was there before, and what became of them.

A worker is one life of a process; an operator thinks of a place at which there is always one.
"""

from enum import StrEnum

from broker.core.peers import Post, Worker
from broker.wire.messages import WorkerHello

FORGET_S = 60.0
"""So long the places of a lost supervisor are known."""

GIVEN_UP_S = 3600.0
"""And so long those where no successor came, as of a version that was retired meanwhile."""


class Vacancy(StrEnum):
    """Why nobody is at a place."""

    NONE = ""  # somebody is
    LOST = "lost"  # a successor is to come
    DRAINED = "drained"  # as it was asked: nobody comes until somebody asks for that


class Place:
    """One of them."""

    __slots__ = (
        "changed_at", "deaths", "died_at", "hello", "reason", "to_drain", "vacancy", "worker",
    )  # fmt: skip

    def __init__(self, worker: Worker, now: float) -> None:
        self.worker = worker.id  # the latest
        self.hello: WorkerHello = worker.hello
        self.vacancy = Vacancy.NONE
        self.deaths = 0
        self.reason = ""  # of the last
        self.died_at = now
        self.changed_at = now
        self.to_drain = False  # it was asked to leave for good


class Posts:
    """All of them, by their posts."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: dict[Post, Place] = {}

    def joined(self, worker: Worker, now: float) -> None:
        """A worker says who it is."""
        place = self.places.get(worker.post)
        if place is None:
            place = self.places[worker.post] = Place(worker, now)
        if place.worker != worker.id:
            place.worker = worker.id
            place.changed_at = now
            place.to_drain = False
        place.vacancy = Vacancy.NONE
        place.hello = worker.hello

    def lost(self, worker: Worker, reason: str, now: float) -> None:
        """It died, or was given up."""
        place = self.places.get(worker.post)
        if place is None:
            return
        place.deaths += 1
        place.reason = reason
        place.died_at = now
        self._vacate(place, worker, Vacancy.LOST, now)

    def left(self, worker: Worker, now: float) -> None:
        """It ended in order."""
        place = self.places.get(worker.post)
        if place is None or place.worker != worker.id:
            return
        if place.to_drain:
            self._vacate(place, worker, Vacancy.DRAINED, now)
        else:
            del self.places[worker.post]

    def _vacate(self, place: Place, worker: Worker, vacancy: Vacancy, now: float) -> None:
        if place.worker == worker.id:
            place.vacancy = Vacancy.DRAINED if place.to_drain else vacancy
            place.changed_at = now

    def find(self, worker: bytes) -> tuple[Post, Place] | None:
        """The place that this one has or had last."""
        for post, place in self.places.items():
            if place.worker == worker:
                return post, place
        return None

    def forget(self, supervisors: set[bytes], now: float) -> None:
        """Those at which nobody was for long: sooner where their supervisor is none of these."""
        for post, place in list(self.places.items()):
            if not place.vacancy or (place.vacancy is Vacancy.DRAINED and post[0] in supervisors):
                continue
            most_s = GIVEN_UP_S if post[0] in supervisors else FORGET_S
            if now - place.changed_at > most_s:
                del self.places[post]
