"""The live page `/ui`: its files, and the feed that they draw."""
