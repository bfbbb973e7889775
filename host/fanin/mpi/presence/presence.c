#include "presence/presence.h"
#include "abi/mpi_abi.h"

void shim_say_present(void)
{
    if (shim_abi->speaks_pmi)
        shim_pmi_say_present();
}

enum presence shim_presence_of(int rank)
{
    return shim_abi->speaks_pmi ? shim_pmi_presence_of(rank) : shim_pmix_presence_of(rank);
}
