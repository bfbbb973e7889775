"""Tests of the simulator, of the model checker and of the schedule fuzzer. The rooms mirror those of `fanin_sim`."""
