// Included before everything else: templates of newer releases of GCC's C++ library, such as parts of its streams, are compiled into the
// runner instead of being taken from the library, which an older system lacks. See older_systems.cpp.
#pragma once

#include <cstddef>

#ifdef _GLIBCXX_EXTERN_TEMPLATE
#undef _GLIBCXX_EXTERN_TEMPLATE
#define _GLIBCXX_EXTERN_TEMPLATE 0
#endif
