"""aiohttp's parser of HTTP/1.x, without the rest of aiohttp.

`import aiohttp` loads a client, which makes TLS contexts with all certificates of the system: 60 ms
at each start of a gateway, and 5 MB in each. So the parts that are needed are loaded without the
package's own code, unless that has run already; whoever imports aiohttp later gets all of it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec


@contextmanager
def _bare(name: str) -> Iterator[None]:
    """Within it, the package of this name is where its modules are, and nothing more."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is None:
        yield
        return
    package = sys.modules[name] = module_from_spec(spec)
    try:
        yield
    finally:
        if sys.modules[name] is package:
            del sys.modules[name]


with _bare("aiohttp"):
    from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
    from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
    from aiohttp.http_writer import HttpVersion10, HttpVersion11
    from aiohttp.streams import StreamReader

__all__ = [
    "HttpProcessingError",
    "HttpRequestParser",
    "HttpVersion10",
    "HttpVersion11",
    "LineTooLong",
    "RawRequestMessage",
    "StreamReader",
]
