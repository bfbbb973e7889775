#ifndef FANIN_COMPLAINT_H
#define FANIN_COMPLAINT_H

#include "fanin.h"

/* As printf, into what fanin_complaint returns to this thread. Returns FANIN_INVALID_REQUEST. */
__attribute__((format(printf, 1, 2))) enum fanin_status fanin_complain(const char *format, ...);

/* For a call that may be refused without a complaint. */
void fanin_forget_complaint(void);
#endif
