"""The contract between processes: messages, frames, error codes. No sockets, no clock.

`PROTOCOL.md` beside this file says who may send what, when, and what is promised.
"""
