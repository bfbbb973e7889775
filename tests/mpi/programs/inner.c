/* A C program with a part in Fortran, whose library notices the MPI at its first call only. */
#include <mpi.h>
#include <stdio.h>

void add_in_place(int *number);

int main(int argc, char **argv)
{
    int number = 5, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    add_in_place(&number);
    printf("in place: %s\n", number == 5 * ranks ? "right" : "wrong");
    MPI_Finalize();
    return number != 5 * ranks;
}
