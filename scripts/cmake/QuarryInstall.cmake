# cmake --install: headers under include/quarry, the layers, the tool, a CMake package and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY QUARRY_LAYERS)
install(TARGETS ${layers} EXPORT quarryTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS quarry_tool quarry_hdf5 RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(QUARRY_HAVE_CUDA)
  # Loaded at run time from beside libquarry_local; nobody links to them.
  foreach(module quarry_cuda quarry_nccl)
    if(TARGET ${module})
      install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
  endforeach()
endif()

# What the headers of programs reach, and nothing else: found when it is installed.
install(CODE "set(QUARRY_SOURCE \"${PROJECT_SOURCE_DIR}\")\nset(QUARRY_HEADERS \"${QUARRY_PROGRAM_HEADERS}\")\nset(QUARRY_TO \"${CMAKE_INSTALL_INCLUDEDIR}/quarry\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/scripts/cmake/QuarryHeaders.cmake)

install(EXPORT quarryTargets NAMESPACE quarry:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quarry)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/quarryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(WRITE ${CMAKE_BINARY_DIR}/quarryConfig.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/quarryTargets.cmake)\nif(NOT TARGET quarry::quarry)\n  add_library(quarry::quarry INTERFACE IMPORTED)\n  target_link_libraries(quarry::quarry INTERFACE quarry::chunked)\n  target_compile_features(quarry::quarry INTERFACE cxx_std_20)\nendif()\n")
install(FILES ${CMAKE_BINARY_DIR}/quarryConfig.cmake ${CMAKE_BINARY_DIR}/quarryConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quarry)

# The prefix is the one given to `cmake --install --prefix`: found relative to the file itself.
file(WRITE ${CMAKE_BINARY_DIR}/quarry.pc
  "prefix=\${pcfiledir}/../..\nlibdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}\nincludedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}\n\nName: quarry\nDescription: ${PROJECT_DESCRIPTION}\nVersion: ${PROJECT_VERSION}\nLibs: -L\${libdir} -lquarry_chunked -lquarry_scheduler -lquarry_io -lquarry_comm -lquarry_local\nCflags: -I\${includedir}\n")
install(FILES ${CMAKE_BINARY_DIR}/quarry.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
