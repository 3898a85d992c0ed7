# CBC for the room `solver`: its header is read as eratos is built, its library is opened when an
# optimal schedule is first asked for (docs/decisions: linked, it would cost every start of the program
# 4 ms). Without CBC the room is built all the same, and its answers say that no solver searched.

option(ERATOS_CBC "Let CBC search optimal schedules, where it is installed" ON)

if(TARGET eratos_solver)
  target_link_libraries(eratos_solver PRIVATE ${CMAKE_DL_LIBS})
  if(ERATOS_CBC)
    find_package(PkgConfig)
    if(PKG_CONFIG_FOUND)
      pkg_check_modules(CBC QUIET cbc)
    endif()
    find_library(ERATOS_CBC_LIBRARY CbcSolver HINTS ${CBC_LIBRARY_DIRS})
    find_path(ERATOS_CBC_INCLUDE_DIR Cbc_C_Interface.h HINTS ${CBC_INCLUDE_DIRS} PATH_SUFFIXES coin)
    mark_as_advanced(ERATOS_CBC_LIBRARY ERATOS_CBC_INCLUDE_DIR)
  endif()
  if(CBC_FOUND AND ERATOS_CBC_LIBRARY AND ERATOS_CBC_INCLUDE_DIR)
    # The name the loader looks for: libCbcSolver.so.3, not the development link.
    file(REAL_PATH ${ERATOS_CBC_LIBRARY} cbc_file)
    if(cbc_file MATCHES "([^/]+\\.so\\.[0-9]+)[.0-9]*$")
      set(cbc_file ${CMAKE_MATCH_1})
    endif()
    message(STATUS "optimal schedules: CBC ${CBC_VERSION} (${cbc_file})")
    target_include_directories(eratos_solver SYSTEM PRIVATE ${ERATOS_CBC_INCLUDE_DIR})
    target_compile_definitions(eratos_solver PRIVATE ERATOS_CBC_FILE="${cbc_file}")
  elseif(ERATOS_CBC)
    message(WARNING "CBC was not found (Debian: coinor-libcbc-dev): `optimal` schedules are searched "
                    "by eratos alone, which proves fewer of them optimal. -DERATOS_CBC=OFF silences this.")
  else()
    message(STATUS "optimal schedules: without CBC, as asked")
  endif()
endif()
