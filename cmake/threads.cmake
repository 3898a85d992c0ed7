# Threads of a search: oneTBB where it is installed. Without it a search runs on one thread and finds
# the same answer.

option(ERATOS_TBB "Let `eratos search` use several threads, by oneTBB where it is installed" ON)

if(TARGET eratos_apps AND ERATOS_TBB)
  find_package(TBB QUIET)
  if(TBB_FOUND)
    message(STATUS "threads of a search: oneTBB ${TBB_VERSION}")
    target_link_libraries(eratos_apps PUBLIC TBB::tbb)
    target_compile_definitions(eratos_apps PRIVATE ERATOS_TBB)
  else()
    message(WARNING "oneTBB was not found (Debian: libtbb-dev): `eratos search` runs on one thread. "
                    "-DERATOS_TBB=OFF silences this.")
  endif()
endif()
