#ifndef FANIN_RIGHTS_H
#define FANIN_RIGHTS_H
#include "fanin.h"

/* Whether this process may read all of its own memory from `address` on, or write it. FANIN_LOCAL_PROTECTION_ERROR: it
 * may not, and fanin_complaint() says where; "": what is mapped can not be known. */
enum fanin_status fanin_check_rights(const void *address, uint64_t length, int is_written);

#endif
