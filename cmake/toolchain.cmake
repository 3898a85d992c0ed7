# How everything is compiled: language, warnings, linker, compiler cache, sanitizers, tidy.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# -O2: -O3 builds slower, and was not measured to run faster here.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(ERATOS_CCACHE ccache)
if(ERATOS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ERATOS_CCACHE})
endif()

find_program(ERATOS_MOLD mold)
if(ERATOS_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(eratos_flags INTERFACE)
target_compile_options(eratos_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  # a member left out of a designated initializer is value-initialized, on purpose
  -Wno-missing-field-initializers
  # a*b+c rounds the same with and without a fused multiply-add unit
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms of GCC 12 inside std::string. Source: gcc.gnu.org bugs 105329 and 105616.
  target_compile_options(eratos_flags INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()
if(ERATOS_WERROR)
  target_compile_options(eratos_flags INTERFACE -Werror)
endif()

if(ERATOS_SANITIZE)
  add_compile_options(-fsanitize=${ERATOS_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${ERATOS_SANITIZE})
endif()

if(ERATOS_TIDY)
  find_program(ERATOS_CLANG_TIDY clang-tidy-22 REQUIRED)
  set(eratos_tidy_command ${ERATOS_CLANG_TIDY} --quiet)
endif()
