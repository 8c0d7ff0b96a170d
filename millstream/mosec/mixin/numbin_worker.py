"""In MOSEC: arrays between stages by numbin. Here they go through shared memory."""


class NumBinIPCMixin:
    """Says that arrays are only read, as those that numbin gives are: they arrive as views of
    shared memory, without a copy. Needs no numbin.
    """

    reads_only = True
