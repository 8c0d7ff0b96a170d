"""Where a running worker spends its time: py-spy, told which process to look at."""
