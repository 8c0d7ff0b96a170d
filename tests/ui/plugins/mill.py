"""Three stages that take their time: the second one holds things back, as a model would."""

import time

from millstream import Worker


class Decode(Worker):
    max_batch_size = 16

    def setup(self) -> None:
        self.example = 1

    def forward(self, batch: list[int]) -> list[int]:
        time.sleep(0.001 * len(batch) ** 0.5)
        return batch


class Infer(Worker):
    max_batch_size = 8

    def setup(self) -> None:
        self.example = 1

    def forward(self, batch: list[int]) -> list[int]:
        time.sleep(0.03 + 0.002 * len(batch))
        return batch


class Encode(Worker):
    max_batch_size = 16

    def forward(self, batch: list[int]) -> list[int]:
        time.sleep(0.0005)
        return batch
