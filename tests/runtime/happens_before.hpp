// What ThreadSanitizer is told of a parallel region that a test writes itself: libgomp orders it after what stood
// before it, and before what follows, by futexes that the sanitizer does not see. Nothing in other builds.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define WEFT_HAPPENS_BEFORE(address) __tsan_release(address)
#define WEFT_HAPPENS_AFTER(address) __tsan_acquire(address)
#else
#define WEFT_HAPPENS_BEFORE(address) static_cast<void>(address)
#define WEFT_HAPPENS_AFTER(address) static_cast<void>(address)
#endif
