#include "presence/presence.h"
#include "abi/mpi_abi.h"
#include <pthread.h>

static void say(void)
{
    if (shim_abi->speaks_pmi)
        shim_pmi_say_present();
    else
        shim_pmix_say_present();
}

void shim_say_present(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, say);
}

enum presence shim_presence_of(int rank)
{
    return shim_abi->speaks_pmi ? shim_pmi_presence_of(rank) : shim_pmix_presence_of(rank);
}
