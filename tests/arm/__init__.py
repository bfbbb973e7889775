"""All tests of Arm that an x86 machine can run: `make arm`."""
