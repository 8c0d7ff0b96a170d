"""One stage that takes its time, alone or between two that take none; every stage adds one."""
