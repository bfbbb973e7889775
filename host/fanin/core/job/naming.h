#ifndef FANIN_NAMING_H
#define FANIN_NAMING_H
#include "fanin.h"

/* Put the text of fanin_name_members into fanin_complaint. */
void fanin_complain_of(const struct fanin_job *job, uint32_t rank, const struct fanin_cqe *cqe);

/* Whether a completion with this status may have the address of a device. */
int fanin_names_device(uint32_t status);
#endif
