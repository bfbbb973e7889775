/* The default order in which devices add floating-point numbers. Record 0112 (docs/decisions) says why that of the
 * ranks. */
#include <stdlib.h>
#include <string.h>

#include "complaint.h"
#include "fanin.h"

enum fanin_status fanin_order_of_environment(uint32_t *flags)
{
    const char *order = getenv("FANIN_ORDER");

    *flags = FANIN_JOB_REPRODUCIBLE_RUN;
    if (!order || !*order || !strcmp(order, "rank"))
        return FANIN_SUCCESS;
    if (strcmp(order, "arrival"))
        return fanin_complain("FANIN_ORDER is '%s': set it to rank or arrival, or not at all", order);
    *flags = 0;
    return FANIN_SUCCESS;
}
