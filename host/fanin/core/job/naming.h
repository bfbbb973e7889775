/* The members that a completion is about, in words. */
#ifndef FANIN_NAMING_H
#define FANIN_NAMING_H
#include "fanin.h"

/* Let fanin_complaint say whom a completion names, as fanin_name_members does. */
void fanin_complain_of(const struct fanin_job *job, uint32_t rank, const struct fanin_cqe *cqe);

/* Whether a completion with this status has the address of a device, if it is known. */
int fanin_names_device(uint32_t status);
#endif
