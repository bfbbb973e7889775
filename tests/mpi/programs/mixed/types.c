/* Collectives of derived types. */
#include "scenes.h"

/* Broadcast pairs of a type made of ints; frees it. */
static void broadcast_as(MPI_Datatype type, int bytes, const char *what)
{
    enum { PAIRS = 100 };
    int data[2 * PAIRS];

    for (int i = 0; i < 2 * PAIRS; i++)
        data[i] = rank ? -1 : i;
    MPI_Type_commit(&type);
    MPI_Bcast(data, (int)sizeof data / bytes, type, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * PAIRS; i++)
        expect(data[i] == i, what);
    MPI_Type_free(&type);
}

/* Nested types; with MPI 4 also with large counts. */
void derive_types(void)
{
    MPI_Datatype pair, type;
    int pair_bytes = 2 * (int)sizeof(int);

    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_dup(pair, &type);
    broadcast_as(type, pair_bytes, "a duplicate of a type is broadcast wrongly");
    MPI_Type_contiguous(5, pair, &type);
    broadcast_as(type, 5 * pair_bytes, "a row of a derived type is broadcast wrongly");
    MPI_Type_free(&pair);
#if MPI_VERSION >= 4
    MPI_Type_contiguous_c(2, MPI_INT, &pair);
    MPI_Type_contiguous(5, pair, &type);
    broadcast_as(type, 5 * pair_bytes, "a row of a type with a large count is broadcast wrongly");
    MPI_Type_vector_c(5, 1, 1, pair, &type);
    broadcast_as(type, 5 * pair_bytes, "a vector with large counts is broadcast wrongly");
    broadcast_as(pair, pair_bytes, "a type with a large count is broadcast wrongly");
#endif
}
