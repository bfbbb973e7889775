/* The MPI's own functions, in a program under the shim: the shim has the names of MPI_ and of PMPI_, so they are looked up in
 * the library of the MPI. Include it behind mpi.h: then PMPI_Allreduce and its like are the MPI's own.
 */
#ifndef FANIN_PLAIN_MPI_H
#define FANIN_PLAIN_MPI_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static inline void *plain_mpi(const char *name)
{
    static const char *const libraries[] = {"libmpi_abi.so.1", "libmpi.so.40", "libmpi.so.12", "libmpich.so.12"};
    void *found = NULL;

    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !found; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        found = library ? dlsym(library, name) : NULL;
    }
    if (!found) {
        fprintf(stderr, "%s is of no MPI that is known\n", name);
        abort();
    }
    return found;
}

#define PLAIN_MPI(name)                                                     \
    (*({                                                                    \
        static __typeof__(&MPI_##name) plain;                               \
        if (!plain)                                                         \
            plain = (__typeof__(&MPI_##name))plain_mpi("PMPI_" #name);      \
        plain;                                                              \
    }))

#define PMPI_Wait PLAIN_MPI(Wait)
#define PMPI_Barrier PLAIN_MPI(Barrier)
#define PMPI_Bcast PLAIN_MPI(Bcast)
#define PMPI_Reduce PLAIN_MPI(Reduce)
#define PMPI_Allreduce PLAIN_MPI(Allreduce)
#define PMPI_Reduce_scatter PLAIN_MPI(Reduce_scatter)
#define PMPI_Reduce_scatter_block PLAIN_MPI(Reduce_scatter_block)
#define PMPI_Scatter PLAIN_MPI(Scatter)
#define PMPI_Scatterv PLAIN_MPI(Scatterv)
#define PMPI_Gather PLAIN_MPI(Gather)
#define PMPI_Gatherv PLAIN_MPI(Gatherv)
#define PMPI_Allgather PLAIN_MPI(Allgather)
#define PMPI_Allgatherv PLAIN_MPI(Allgatherv)
#define PMPI_Ibarrier PLAIN_MPI(Ibarrier)
#define PMPI_Ibcast PLAIN_MPI(Ibcast)
#define PMPI_Ireduce PLAIN_MPI(Ireduce)
#define PMPI_Iallreduce PLAIN_MPI(Iallreduce)
#define PMPI_Ireduce_scatter PLAIN_MPI(Ireduce_scatter)
#define PMPI_Ireduce_scatter_block PLAIN_MPI(Ireduce_scatter_block)
#define PMPI_Iscatter PLAIN_MPI(Iscatter)
#define PMPI_Iscatterv PLAIN_MPI(Iscatterv)
#define PMPI_Igather PLAIN_MPI(Igather)
#define PMPI_Igatherv PLAIN_MPI(Igatherv)
#define PMPI_Iallgather PLAIN_MPI(Iallgather)
#define PMPI_Iallgatherv PLAIN_MPI(Iallgatherv)
#endif
