"""The documentation: its blocks are run, and its site is looked at."""
