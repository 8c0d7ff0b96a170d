"""What the gateway is told when it starts: frozen data, checked by whoever reads it in."""

from msgspec import Struct

MEBIBYTE = 1 << 20


class Sampling(Struct, frozen=True):
    """Which requests are traced: this share of those that belong to no trace yet. Of the others
    those whose clients say so, or else this share, too, whatever clients say.
    """

    ratio: float
    heeds_clients: bool = True


class GatewayOptions(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of one gateway process."""

    broker: str
    """Address of the broker, such as `ipc:///run/user/1000/millstream/broker`."""
    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None
    """For gRPC, at the same host; None: it is not spoken."""
    uds: str = ""
    """A Unix socket to listen at, in place of host and port."""
    listens_when_ready: bool = False
    """Whether nobody is listened to before every stage has had a ready worker."""
    cors_origins: tuple[str, ...] = ()
    """Whose pages may read answers: origins such as https://example.org, or "*" for all."""
    admin_token: str = ""
    """Whoever sends it may change the deployment below /admin; "": callers on this host may."""
    compress_bytes: int = 0
    """JSON answers from this size on are compressed for clients that accept it; 0: none are."""
    keys: str = ""
    """Folder with the keys of an encrypted deployment; "" speaks in the clear."""
    arena_bytes: int | None = None
    """Most shared memory for uploads: 0 for none, None for a share of what the host has."""
    max_body_bytes: int = 64 * MEBIBYTE
    """Largest request body, counted after inflating; beyond it 413."""
    header_timeout_s: float = 10.0
    """From a request's first byte to the end of its headers."""
    body_timeout_s: float = 30.0
    """From the end of a request's headers to the end of its body, in all."""
    keep_alive_s: float = 75.0
    """How long a connection may be idle between requests."""
    slow_s: float = 5.0
    """A request that takes longer is logged even where all went well."""
    measured: bool = True
    """Whether requests are counted."""
    access_log: bool = False
    """Log every request, not only failed and slow ones."""
    sampling: Sampling | None = None
    """Which requests are traced; None: none is."""
    drain_s: float = 3.5
    """At SIGTERM: how long what is held may take to be answered."""
