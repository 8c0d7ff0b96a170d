"""The command `millstream`: options, one-line errors, and the start of each process."""
