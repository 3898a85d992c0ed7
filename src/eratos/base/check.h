// Programmer errors crash at once, with the place; wrong *input* is a Diagnostic instead.
#pragma once

#include <cstdio>
#include <cstdlib>

#define ERATOS_CHECK(condition)                                                               \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      std::fprintf(stderr, "%s:%d: internal check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)
