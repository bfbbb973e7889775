#include "comm/communicator.h"
#include "entry/entry.h"
#include "init.h"
#include "presence/presence.h"

ENTRY(Init, (int *count, char ***arguments), (count, arguments))
{
    int code;

    shim_say_present();
    code = pmpi.Init(count, arguments);

    if (!code)
        shim_begin();
    return code;
}

ENTRY(Init_thread, (int *count, char ***arguments, int required, int *provided), (count, arguments, required, provided))
{
    int code;

    shim_say_present();
    code = pmpi.Init_thread(count, arguments, required, provided);

    if (!code)
        shim_begin();
    return code;
}

/* The shim does not serve sessions, but this call initializes the MPI, and MPI_Init may follow. */
ENTRY(Session_init, (handle info, handle errhandler, void *session), (info, errhandler, session))
{
    shim_say_present();
    return pmpi.Session_init(info, errhandler, session);
}

ENTRY(Finalize, (void), ())
{
    shim_end();
    return pmpi.Finalize();
}

#define X(name, parameters, arguments)                    \
    ENTRY(name, parameters, arguments)                    \
    {                                                     \
        int code = pmpi.name arguments;                   \
        if (!code)                                        \
            shim_communicator_created(load_handle(made)); \
        return code;                                      \
    }
CREATORS(X)
#undef X
