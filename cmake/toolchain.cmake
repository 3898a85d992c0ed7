# How everything is compiled: language, warnings, linker, compiler cache, sanitizers, tidy.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

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
  # a*b+c rounds the same with and without a fused multiply-add unit
  -ffp-contract=off)
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
