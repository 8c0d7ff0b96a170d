"""Continuous batching: sequences of any age in one batch, each a token further at every step.

Sequences join and leave between steps. Their keys and values lie in one cache, a row for each,
padded on the left; a mask says what is padding, and positions are counted without it. So a sequence
gets the tokens that it would get alone.
"""

from collections import deque
from collections.abc import Collection
from collections.abc import Sequence as Sized

import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache, PreTrainedModel


class Sequence:
    """One of them: what it begins with, how it goes on, and what has come of it."""

    def __init__(
        self, prompt: Sized[int], *, max_tokens: int, temperature: float = 0.0, seed: int = 0
    ) -> None:
        """`temperature` 0 takes the likeliest token each time."""
        self.prompt = prompt
        self.last = prompt[-1]
        """The token that the model reads next."""
        self.left = max_tokens
        self.unread: deque[int] = deque()
        """Tokens that nobody has asked for yet: with others in the batch they come by themselves,
        whether its client keeps up or not."""
        self.is_over = False
        self.error: Exception | None = None
        self._temperature = temperature
        self._chance = torch.Generator().manual_seed(seed)

    def go_on(self, logits: Tensor, stops: Collection[int]) -> None:
        """It gets its next token, drawn from these; none where that is one of `stops`."""
        if self._temperature:
            shares = (logits.float().cpu() / self._temperature).softmax(dim=0)
            self.last = int(torch.multinomial(shares, 1, generator=self._chance))
        else:
            self.last = int(logits.argmax())
        if self.last in stops:
            self.is_over = True
            return
        self.unread.append(self.last)
        self.left -= 1
        self.is_over = not self.left


class Batch:
    """All sequences that are under way. For one thread."""

    def __init__(self, model: PreTrainedModel, stops: Collection[int]) -> None:
        """`stops`: tokens that end a sequence."""
        self._model = model
        self._stops = frozenset(stops)
        self._joining: list[Sequence] = []
        self._rows: list[Sequence] = []
        self._cache = DynamicCache()
        self._mask = self._tensor([])  # (rows, columns of the cache): 1, or 0 for padding

    def __len__(self) -> int:
        return len(self._rows) + len(self._joining)

    def add(self, sequence: Sequence) -> None:
        """It takes part from the next step on."""
        self._joining.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Nobody wants more of it: it leaves with the next step."""
        sequence.is_over = True

    def next_token(self, sequence: Sequence) -> int | None:
        """The next token of this one, None after its last. Where it has to be computed, all others
        get one as well. Raises what the model raises, which is the end of all.
        """
        if not sequence.unread and not sequence.is_over:
            self.step()
        if sequence.error is not None:
            raise sequence.error
        return sequence.unread.popleft() if sequence.unread else None

    @torch.inference_mode()
    def step(self) -> None:
        """Each sequence gets its next token."""
        try:
            self._leave()
            if self._rows:
                self._mask = functional.pad(self._mask, (0, 1), value=1)
                tokens = self._tensor([[row.last] for row in self._rows])
                self._go_on(self._rows, tokens, self._mask, self._cache)
            if self._joining:
                self._join()
        except Exception as error:  # the cache may be half before this step and half after it
            for each in self._rows + self._joining:
                each.is_over, each.error = True, error
            self._leave()

    def _leave(self) -> None:
        """Sequences that are over go, and columns in which they alone had something."""
        self._joining = [each for each in self._joining if not each.is_over]
        stay = [number for number, row in enumerate(self._rows) if not row.is_over]
        if len(stay) == len(self._rows):
            return
        self._rows = [self._rows[number] for number in stay]
        if not stay:
            self._cache = DynamicCache()
            return
        first = int(self._mask[stay].any(dim=0).nonzero()[0])
        self._mask = self._mask[stay, first:]
        old, self._cache = self._cache, DynamicCache()
        for number, layer in enumerate(old.layers):
            self._cache.update(layer.keys[stay, :, first:], layer.values[stay, :, first:], number)

    def _join(self) -> None:
        """Newcomers read their prompts together, and then get rows beside the others."""
        longest = max(len(each.prompt) for each in self._joining)
        gaps = [longest - len(each.prompt) for each in self._joining]
        prompts = [each.prompt for each in self._joining]
        tokens = [[0] * gap + list(prompt) for gap, prompt in zip(gaps, prompts, strict=True)]
        mask = self._tensor([[0] * gap + [1] * (longest - gap) for gap in gaps])
        cache = DynamicCache()
        self._go_on(self._joining, self._tensor(tokens), mask, cache)
        if self._rows:
            cache, mask = beside((self._cache, self._mask), (cache, mask))
        self._cache, self._mask = cache, mask
        self._rows = self._rows + self._joining
        self._joining = []

    def _go_on(
        self, rows: list[Sequence], tokens: Tensor, mask: Tensor, cache: DynamicCache
    ) -> None:
        """The model reads these tokens, which `mask` covers as well, into `cache`."""
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        logits = self._model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        for row, scores in zip(rows, logits, strict=True):
            row.go_on(scores, self._stops)

    def _tensor(self, values: list[list[int]]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._model.device)


def beside(
    one: tuple[DynamicCache, Tensor], other: tuple[DynamicCache, Tensor]
) -> tuple[DynamicCache, Tensor]:
    """The rows of both caches, with their masks, in one: as wide as the wider."""
    masks = one[1], other[1]
    width = max(mask.shape[1] for mask in masks)
    gaps = [width - mask.shape[1] for mask in masks]
    cache = DynamicCache()
    for number, (ours, theirs) in enumerate(zip(one[0].layers, other[0].layers, strict=True)):
        keys = stacked([ours.keys, theirs.keys], gaps)
        cache.update(keys, stacked([ours.values, theirs.values], gaps), number)
    rows = [functional.pad(mask, (gap, 0)) for mask, gap in zip(masks, gaps, strict=True)]
    return cache, torch.cat(rows)


def stacked(parts: list[Tensor], gaps: list[int]) -> Tensor:
    """Keys or values (rows, heads, columns, size), each after so many empty columns."""
    return torch.cat(
        [functional.pad(part, (0, 0, gap, 0)) for part, gap in zip(parts, gaps, strict=True)]
    )
