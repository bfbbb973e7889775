! Blocking and non-blocking collectives by `use mpi_f08`, and the waits for them.
program modern
  use mpi_f08
  implicit none
  integer :: rank, ranks, total, sums(3), numbers(2), given, number
  logical :: done
  type(MPI_Request) :: requests(3)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  total = 2
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  numbers = [1, 2]
  given = merge(7, 0, rank == 0)
  do number = 1, 2
    call MPI_Iallreduce(numbers(number), sums(number), 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(number))
  end do
  call MPI_Ibcast(given, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, requests(3))
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  call MPI_Waitall(2, requests(2:3), MPI_STATUSES_IGNORE)
  call MPI_Iallreduce(given, sums(3), 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(1))
  done = .false.
  do while (.not. done)
    call MPI_Test(requests(1), done, MPI_STATUS_IGNORE)
  end do
  if (total == 2 * ranks .and. sums(1) == ranks .and. sums(2) == 2 * ranks .and. sums(3) == 7 .and. given == 7) then
    print '(a)', 'modern: right'
  else
    print '(a)', 'modern: wrong'
    error stop
  end if
  call MPI_Finalize()
end program modern
