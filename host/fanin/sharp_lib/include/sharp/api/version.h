/* The version of the interface that sharp_coll.h declares: 3.1, since UCC looks for i8, u8 and bf16 only after 3.0. */
#ifndef SHARP_API_VERSION_H
#define SHARP_API_VERSION_H

#define SHARP_VERSION(major, minor) (((major) << 16) | (minor))
#define SHARP_API SHARP_VERSION(3, 1)

#endif
