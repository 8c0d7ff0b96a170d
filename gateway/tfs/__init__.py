"""TensorFlow Serving's REST API and KServe's first protocol: two that share the paths below /v1.

Pure translations, apart from sockets and from calls. What a pipeline takes and gives is what its
plug-ins declare (`broker.payload.signature`).
"""
