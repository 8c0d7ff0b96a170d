"""The Open Inference Protocol over gRPC, as Triton's clients speak it: a second face of the same.

Nothing here is imported unless a gateway is given a port for it, and `grpc` and `google.protobuf`
are imported nowhere else.
"""
