/* Why a call was refused, in words. */
#ifndef FANIN_COMPLAINT_H
#define FANIN_COMPLAINT_H

#include "fanin.h"

/* As printf. Kept for fanin_complaint, for this thread. Returns FANIN_INVALID_REQUEST. */
__attribute__((format(printf, 1, 2))) enum fanin_status fanin_complain(const char *format, ...);

/* At the beginning of a call that others may refuse, too: then there is no complaint. */
void fanin_forget_complaint(void);
#endif
