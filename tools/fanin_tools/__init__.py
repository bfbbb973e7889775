"""The command `fanin`: fabrics of devices on this machine, programs on them, demonstration, measurement, diagnosis."""
