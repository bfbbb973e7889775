! Pi by numerical integration: each rank adds some of the terms, the devices add the ranks.
!
!   mpifort pi.f90 -o pi
!   FANIN_MPI_THRESHOLDS=all=0- FANIN_MPI_JOIN=early fanin run --mpi -n 4 -- ./pi    (else the MPI adds 8 bytes itself)
program integrate
  use mpi
  implicit none
  integer, parameter :: terms = 1000000
  integer :: rank, ranks, error, term
  double precision :: own, pi, x, last

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  own = 0
  do term = rank + 1, terms, ranks
    x = (term - 0.5d0) / terms
    own = own + 4 / (1 + x * x) / terms
  end do
  call MPI_Allreduce(own, pi, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  last = own
  call MPI_Allreduce(MPI_IN_PLACE, last, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a, f12.10, a, f6.4)', 'pi is ', pi, '; the most that one rank adds is ', last
  call MPI_Finalize(error)
end program integrate
