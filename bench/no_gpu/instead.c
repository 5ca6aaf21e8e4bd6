// Opens NOTHING where Weft, and not NVRTC, asks for the driver, cuBLASLt or cuDNN (nothing.c says how it is used).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

void* dlopen(const char* name, int flags) {
  static void* (*real)(const char*, int);
  if (!real) real = dlsym(RTLD_NEXT, "dlopen");
  Dl_info info;
  const char* who = dladdr(__builtin_return_address(0), &info) ? info.dli_fname : "";
  const int is_theirs =
      name && (strstr(name, "libcuda.so") || strstr(name, "libcublasLt.so") || strstr(name, "libcudnn.so"));
  return real(is_theirs && !strstr(who, "nvrtc") ? NOTHING : name, flags);
}
