/* Why a call was refused, in words. */
#ifndef FANIN_COMPLAINT_H
#define FANIN_COMPLAINT_H

/* As printf. Kept for fanin_complaint, for this thread. */
__attribute__((format(printf, 1, 2))) void fanin_complain(const char *format, ...);
#endif
