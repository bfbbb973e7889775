/* UCC includes the interface by this name. */
#ifndef SHARP_API_SHARP_H
#define SHARP_API_SHARP_H

#include <sharp/api/sharp_coll.h>
#include <sharp/api/version.h>

#endif
