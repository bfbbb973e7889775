#ifndef FANIN_JOB_IDENTITY_H
#define FANIN_JOB_IDENTITY_H
#include "fanin.h"

enum purpose { FOR_GROUP, FOR_REPORT, FOR_VERDICT, FOR_SURVIVORS, FOR_GROWN };
/* Give a copy of a job the id and key that follow from its purpose. */
void fanin_identify(struct fanin_job *job, enum purpose purpose, uint64_t number, uint64_t which);

#endif
