#ifndef FANIN_REGIONS_H
#define FANIN_REGIONS_H
#include "device/connection.h"

/* Returns 0 without memory for the entry. */
int fanin_enter_region(struct fanin_context *context, const void *address, uint64_t length, uint32_t lkey);
void fanin_erase_region(struct fanin_context *context, uint32_t lkey);
void fanin_free_regions(struct fanin_context *context);
#endif
