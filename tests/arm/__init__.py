"""Everything that can be tried of Arm on an x86 machine: `make arm`."""
