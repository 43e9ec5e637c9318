"""`ordercast beacon`: how well processes reach each other, without a protocol and with one."""
