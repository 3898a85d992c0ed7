# Library eratos_catalogue_data: data/**/*.yaml and data/**/*.csv as text inside the program
# (header eratos/catalogue_data.h). A changed file regenerates it, a new one configures anew.

file(GLOB_RECURSE data_files CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/data/*.yaml ${PROJECT_SOURCE_DIR}/data/*.csv)

set(generated ${PROJECT_BINARY_DIR}/generated/catalogue_data.cpp)
set(listed ${PROJECT_BINARY_DIR}/generated/catalogue_data.txt)
list(JOIN data_files "\n" data_lines)
file(CONFIGURE OUTPUT ${listed} CONTENT "${data_lines}\n" @ONLY)  # written only when it differs

add_custom_command(
  OUTPUT ${generated}
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR}/data -DLIST=${listed}
          -DOUTPUT=${generated} -P ${PROJECT_SOURCE_DIR}/cmake/embed_data.cmake
  DEPENDS ${data_files} ${listed} ${PROJECT_SOURCE_DIR}/cmake/embed_data.cmake
  COMMENT "Embedding data/"
  VERBATIM)

add_library(eratos_catalogue_data STATIC ${generated})
target_include_directories(eratos_catalogue_data PUBLIC
                           $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
target_link_libraries(eratos_catalogue_data PRIVATE $<BUILD_INTERFACE:eratos_flags>)
