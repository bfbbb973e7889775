"""The command `fanin`: fabrics of devices, programs on them, demonstration, measurement, diagnosis."""
