"""A large opaque body in, its length and a number out."""
