"""The offload engine: a pure state machine over one block of memory. Events in, actions out; no clock, no I/O."""
