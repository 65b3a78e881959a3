// What the headers of GCC and of glibc refer to inline, and what the libraries of older systems lack. With it the runner needs no newer
// system than PyPI's wheels of torch do: glibc 2.28, and GCC 8's libstdc++.
#include <new>

// glibc 2.32: libstdc++ counts references without atomic operations if this is not 0. Runners have several threads.
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

namespace std {

// GCC 11.
[[noreturn]] __attribute__((visibility("hidden"))) void __throw_bad_array_new_length() { throw bad_array_new_length(); }

}  // namespace std
