"""Objects <-> bytes: what travels between stages, and what comes and goes over HTTP.

Pure functions without sockets. Between stages: `pack` and `unpack` of `objects`. At the ends of a
pipeline: `decode_body` and `encode_body` of `bodies`. Neither numpy nor torch is imported before an
array or tensor of theirs is at hand. Nothing is imported here: brokers and supervisors, which look
into no payload, need the modules about arenas alone.
"""
