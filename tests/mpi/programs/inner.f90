! The part in Fortran of inner.c.
subroutine add_in_place(number) bind(C)
  use iso_c_binding
  implicit none
  include 'mpif.h'
  integer(c_int) :: number
  integer :: error

  call MPI_Allreduce(MPI_IN_PLACE, number, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
end subroutine add_in_place
