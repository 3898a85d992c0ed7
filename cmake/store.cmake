# What the room `store` needs: the model's fingerprint, made anew whenever a source of the core
# changes, and SQLite with zlib where they are installed. Without them the room is built all the same,
# and `--store` says what is missing.

option(ERATOS_STORE "Keep answers of searches in SQLite files, where SQLite is installed" ON)

if(TARGET eratos_store)
  list(TRANSFORM core_rooms PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/eratos/ OUTPUT_VARIABLE core_folders)
  set(core_patterns "")
  foreach(folder IN LISTS core_folders)
    list(APPEND core_patterns ${folder}/*.h ${folder}/*.cpp ${folder}/*.inc)
  endforeach()
  file(GLOB_RECURSE core_files CONFIGURE_DEPENDS ${core_patterns})
  list(APPEND core_files ${PROJECT_SOURCE_DIR}/cmake/toolchain.cmake)  # its flags round numbers
  string(TOUPPER "${CMAKE_BUILD_TYPE}" kind)
  string(JOIN " " built ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}
         ${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${kind}} ${ERATOS_SANITIZE})

  set(generated ${PROJECT_BINARY_DIR}/generated/model_fingerprint.cpp)
  set(listed ${PROJECT_BINARY_DIR}/generated/model_fingerprint.txt)
  list(JOIN core_files "\n" core_lines)
  file(CONFIGURE OUTPUT ${listed} CONTENT "${core_lines}\n" @ONLY)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_CURRENT_SOURCE_DIR}/eratos -DLIST=${listed}
            "-DBUILT=${built}" -DOUTPUT=${generated}
            -P ${PROJECT_SOURCE_DIR}/cmake/model_fingerprint.cmake
    DEPENDS ${core_files} ${listed} ${PROJECT_SOURCE_DIR}/cmake/model_fingerprint.cmake
    COMMENT "Taking the model's fingerprint"
    VERBATIM)
  target_sources(eratos_store PRIVATE ${generated})

  if(ERATOS_STORE)
    find_package(SQLite3 QUIET)
    find_package(ZLIB QUIET)
  endif()
  if(SQLite3_FOUND AND ZLIB_FOUND)
    message(STATUS "stores of searches: SQLite ${SQLite3_VERSION}, zlib ${ZLIB_VERSION_STRING}")
    target_link_libraries(eratos_store PRIVATE SQLite::SQLite3 ZLIB::ZLIB)
    target_compile_definitions(eratos_store PRIVATE ERATOS_SQLITE)
  elseif(ERATOS_STORE)
    message(WARNING "SQLite and zlib were not both found (Debian: libsqlite3-dev zlib1g-dev): "
                    "`eratos search` has no --store. -DERATOS_STORE=OFF silences this.")
  else()
    message(STATUS "stores of searches: without SQLite, as asked")
  endif()
endif()
