"""`fanin bench`: allreduce beside an MPI library, interleaved in the same run."""
