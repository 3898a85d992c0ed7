# Several machines for a search: the program eratos-mpi, which `eratos` becomes under mpirun.

option(ERATOS_MPI "Build eratos-mpi as well, for `mpirun -n N eratos search` (needs an MPI)" OFF)

if(ERATOS_MPI)
  find_package(MPI REQUIRED COMPONENTS CXX)
  message(STATUS "ranks of a search: MPI ${MPI_CXX_VERSION}, ${MPI_CXX_LIBRARIES}")
  add_executable(eratos_mpi ranks_mpi.cpp)
  target_link_libraries(eratos_mpi PRIVATE eratos_apps MPI::MPI_CXX)
  set_target_properties(eratos_mpi PROPERTIES OUTPUT_NAME eratos-mpi
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endif()
