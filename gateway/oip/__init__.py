"""The Open Inference Protocol, version 2: what its clients send and expect, over HTTP.

Pure translations, apart from sockets and from calls. What a pipeline takes and gives is what its
plug-ins declare (`broker.payload.signature`).
"""
