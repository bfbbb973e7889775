"""The compiled loop of a lane: packets, work requests and data in, actions out, sleep."""
