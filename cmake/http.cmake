# What the room `http` needs: libcurl, where it is installed. Without it the room is built all the same,
# and whoever asks for a model behind a server is told what is missing.

option(ERATOS_HTTP "Reach language models over HTTP, where libcurl is installed" ON)

if(TARGET eratos_http)
  if(ERATOS_HTTP)
    find_package(CURL QUIET)
  endif()
  if(CURL_FOUND)
    message(STATUS "HTTP: libcurl ${CURL_VERSION_STRING}")
    target_link_libraries(eratos_http PRIVATE CURL::libcurl)
    target_compile_definitions(eratos_http PRIVATE ERATOS_CURL)
  elseif(ERATOS_HTTP)
    message(WARNING "libcurl was not found (Debian: libcurl4-openssl-dev): `eratos tune` reaches no "
                    "language model. -DERATOS_HTTP=OFF silences this.")
  else()
    message(STATUS "HTTP: without libcurl, as asked")
  endif()
endif()
