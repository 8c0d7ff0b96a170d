"""The broker: the wire contract, payload codecs, the deciding core, and its socket shell."""
