#ifndef FANIN_RIGHTS_H
#define FANIN_RIGHTS_H
#include "fanin.h"

/* Check that this process may read, or write, its memory from `address` on. FANIN_LOCAL_PROTECTION_ERROR:
 * fanin_complaint() says where it may not; "": the mappings can not be read. */
enum fanin_status fanin_check_rights(const void *address, uint64_t length, int is_written);

#endif
