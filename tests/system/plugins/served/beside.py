"""What a script imports from beside it."""

SUFFIX = "!"
