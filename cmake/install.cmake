# What `cmake --install` lays down: the program, and the package that find_package(eratos) finds,
# with the targets eratos::core (levels 0 to 8) and eratos::reader (core, catalogue, readers).
# docs/LIBRARY.md shows their use. `--component library` leaves the program out.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/eratos)
set(library_rooms ${ERATOS_CORE_ROOMS} text reader)

# Exported names are eratos::<room>, and eratos::core for all rooms of the core together.
set(targets eratos_core eratos_version eratos_catalogue_data)
set_target_properties(eratos_core PROPERTIES EXPORT_NAME core)
set_target_properties(eratos_version PROPERTIES EXPORT_NAME version)
set_target_properties(eratos_catalogue_data PROPERTIES EXPORT_NAME catalogue_data)
foreach(room IN LISTS library_rooms)
  set_target_properties(eratos_${room} PROPERTIES EXPORT_NAME ${room})
  list(APPEND targets eratos_${room})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/eratos/${room}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/eratos
          COMPONENT library
          FILES_MATCHING PATTERN *.h)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/src/eratos/catalogue_data.h
              ${PROJECT_BINARY_DIR}/generated/eratos/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/eratos
        COMPONENT library)

install(TARGETS ${targets}
        EXPORT eratos-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT eratos-targets
        NAMESPACE eratos::
        DESTINATION ${package_folder}
        COMPONENT library)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/eratos-config.cmake.in
                              ${PROJECT_BINARY_DIR}/generated/eratos-config.cmake
                              INSTALL_DESTINATION ${package_folder})
# Below 1.0 a new minor version may break a caller.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/eratos-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/eratos-config.cmake
              ${PROJECT_BINARY_DIR}/generated/eratos-config-version.cmake
        DESTINATION ${package_folder}
        COMPONENT library)

if(TARGET eratos)
  install(TARGETS eratos RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
if(TARGET eratos_mpi)
  install(TARGETS eratos_mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
