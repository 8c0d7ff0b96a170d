"""One small number in, one small number out; every stage adds one."""
