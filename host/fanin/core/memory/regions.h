/* Which memory of this process is registered with a device. */
#ifndef FANIN_REGIONS_H
#define FANIN_REGIONS_H
#include "device/connection.h"

/* Enter a region of a context. Returns 0 if there is no memory for it. */
int fanin_enter_region(struct fanin_context *context, const void *address, uint64_t length, uint32_t lkey);
/* Forget a region, if it is known. */
void fanin_erase_region(struct fanin_context *context, uint32_t lkey);
void fanin_free_regions(struct fanin_context *context);
#endif
