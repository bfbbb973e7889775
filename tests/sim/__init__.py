"""Tests of the simulator, the model checker and the schedule fuzzer. The folders mirror those of `fanin_sim`."""
