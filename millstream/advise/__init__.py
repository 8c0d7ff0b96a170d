"""How many workers a load needs: what `millstream advise` reckons from what the broker has learnt.

Pure: the broker's own core runs over a virtual clock, with workers that take as long as it has
learnt.
"""
