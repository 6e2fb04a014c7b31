if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(QUARRY_CUDA AUTO CACHE STRING "Build the GPU engine: AUTO (where nvcc >= 12.4 is found), ON or OFF")
set_property(CACHE QUARRY_CUDA PROPERTY STRINGS AUTO ON OFF)
option(QUARRY_UCX "Carry point-to-point traffic over UCX" ON)
option(QUARRY_FFTW "Transforms on the CPU by FFTW (GPL); by slower code of our own otherwise" ON)
option(QUARRY_TESTS "Build the tests" ON)
set(QUARRY_SANITIZE "" CACHE STRING "Value for -fsanitize=, empty for none")
option(QUARRY_FUZZ "Build what scripts/fuzz runs, with Clang, and nothing else" OFF)
option(QUARRY_PRECOMPILED_HEADERS "Precompile other libraries' headers, once per target" ON)
option(BUILD_SHARED_LIBS "Build the layers as shared libraries" ON)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# The same relative run path serves the build tree and the installed tree.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
include(GNUInstallDirs)
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

find_program(QUARRY_CCACHE ccache)
if(QUARRY_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${QUARRY_CCACHE})
  # Sources with a precompiled header are cached only so; nothing here uses __TIME__.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${QUARRY_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${QUARRY_CCACHE})
endif()

# Everything compiled as host C++ gets these; -Wrestrict misfires on std::string in GCC 12, contraction is off so that an instruction-set level never changes bits.
add_library(quarry_flags INTERFACE)
target_compile_options(quarry_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wno-psabi -Wno-restrict -ffp-contract=off -fvisibility-inlines-hidden>)
if(QUARRY_SANITIZE)
  # GCC 12 takes members of std::variant for uninitialised in code with checks.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${QUARRY_SANITIZE}> $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=${QUARRY_SANITIZE})
endif()

# Every include of ours is "quarry/LAYER/...", in the tree as after installation: build/include/quarry/ links to the layers
# and to the two headers that programs include.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/quarry)
foreach(layer local comm io scheduler chunked apps)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${layer} ${PROJECT_BINARY_DIR}/include/quarry/${layer} SYMBOLIC)
endforeach()
set(QUARRY_PROGRAM_HEADERS chunked/api/quarry.h local/local.h)
foreach(header IN LISTS QUARRY_PROGRAM_HEADERS)
  get_filename_component(name ${header} NAME)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${header} ${PROJECT_BINARY_DIR}/include/quarry/${name} SYMBOLIC)
endforeach()

# quarry_precompile(TARGET [HEADERS header...]): its C++ sources begin with scripts/cmake/standard_headers.h and these
# headers, read once: those that most of them include, as a change of one compiles all of them again. A source with an
# instruction set of its own needs SKIP_PRECOMPILE_HEADERS.
# quarry_precompile(TARGET REUSE other): with those of another target, compiled with the same options.
function(quarry_precompile target)
  cmake_parse_arguments(ARG "" "REUSE" "HEADERS" ${ARGN})
  if(QUARRY_PRECOMPILED_HEADERS)
    if(ARG_REUSE)
      target_precompile_headers(${target} REUSE_FROM ${ARG_REUSE})
    else()
      target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/scripts/cmake/standard_headers.h> ${ARG_HEADERS})
    endif()
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:fmt::fmt>)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # The cache needs the first. GCC forgets that what is precompiled is a system header, and warns of its code.
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess> "$<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>")
    endif()
  endif()
endfunction()

# quarry_layer(NAME [DEPENDS layer...] [PRECOMPILE header...]): one library per layer, target quarry_NAME with alias quarry::NAME,
# of every .cpp below the calling folder except those under EXCLUDE.
function(quarry_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK;EXCLUDE;PRECOMPILE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(pattern IN LISTS ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${CMAKE_CURRENT_SOURCE_DIR}/${pattern}")
  endforeach()
  add_library(quarry_${name} ${sources})
  add_library(quarry::${name} ALIAS quarry_${name})
  target_include_directories(quarry_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(quarry_${name} PRIVATE $<BUILD_INTERFACE:quarry_flags>)
  foreach(layer IN LISTS ARG_DEPENDS)
    target_link_libraries(quarry_${name} PUBLIC quarry_${layer})
  endforeach()
  target_link_libraries(quarry_${name} PRIVATE ${ARG_LINK})
  set_target_properties(quarry_${name} PROPERTIES EXPORT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  quarry_precompile(quarry_${name} HEADERS ${ARG_PRECOMPILE})
  set_property(GLOBAL APPEND PROPERTY QUARRY_LAYERS quarry_${name})
endfunction()

# quarry_embed(TARGET HEADER h NAMESPACE n FILES file... NAMES name... [PARTS file...]): string constants with the files'
# texts; PARTS are what these include.
function(quarry_embed target)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "FILES;NAMES;PARTS" ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded.cpp)
  set(script ${PROJECT_SOURCE_DIR}/scripts/cmake/QuarryEmbed.cmake)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DROOT=${PROJECT_SOURCE_DIR} -DHEADER=${ARG_HEADER} -DNAMESPACE=${ARG_NAMESPACE}
            "-DNAMES=${ARG_NAMES}" "-DFILES=${ARG_FILES}" -P ${script}
    DEPENDS ${ARG_FILES} ${ARG_PARTS} ${script}
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
