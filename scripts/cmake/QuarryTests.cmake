# How test programs become known to ctest.

# Debian's python3 has NumPy and h5py from scripts/setup; another interpreter on the PATH may not.
find_program(QUARRY_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)

# quarry_discover(PROGRAM NAME [LABEL cpu|gpu|mpi] [WHOLE fast|slow] [TIMEOUT seconds] [PROCESSORS number]
# [SKIP_RETURN_CODE code] [ENVIRONMENT name=value...] [LAUNCHER command...]): the cases of a GoogleTest program (a target)
# or of a unittest program in Python (a path) as tests of ctest; tests/discover.py says which entries that gives. They are
# listed when ctest runs, where the program, the list of slow cases or the oracle is newer than the list. A program that
# is not built is a test that fails.
function(quarry_discover program name)
  cmake_parse_arguments(ARG "" "LABEL;WHOLE;TIMEOUT;PROCESSORS;SKIP_RETURN_CODE" "ENVIRONMENT;LAUNCHER" ${ARGN})
  if(TARGET ${program})
    set(program "$<TARGET_FILE:${program}>")
  endif()
  set(options --results "${PROJECT_BINARY_DIR}/test-results" --slow-cases "${PROJECT_SOURCE_DIR}/tests/slow_cases.txt")
  foreach(option LABEL WHOLE TIMEOUT PROCESSORS SKIP_RETURN_CODE ENVIRONMENT)
    if(ARG_${option})
      string(TOLOWER ${option} text)
      string(REPLACE "_" "-" text ${text})
      list(APPEND options --${text} ${ARG_${option}})
    endif()
  endforeach()
  foreach(list options ARG_LAUNCHER)
    list(TRANSFORM ${list} PREPEND "\"")
    list(TRANSFORM ${list} APPEND "\"")
  endforeach()
  list(JOIN options " " options)
  list(JOIN ARG_LAUNCHER " " launcher)
  set(list "${CMAKE_CURRENT_BINARY_DIR}/${name}_cases.cmake")
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${name}_discover.cmake")
  set(tests "${PROJECT_SOURCE_DIR}/tests")
  file(GENERATE OUTPUT ${script} CONTENT "\
if(NOT EXISTS [==[${program}]==])
  add_test(${name}_is_not_built ${name}_is_not_built)
  return()
endif()
foreach(file [==[${program}]==] [==[${tests}/discover.py]==] [==[${tests}/slow_cases.txt]==] [==[${tests}/oracle]==] [==[${script}]==])
  if(\${file} IS_NEWER_THAN [==[${list}]==])
    execute_process(COMMAND [==[${QUARRY_PYTHON}]==] [==[${tests}/discover.py]==] [==[${program}]==] ${name} [==[${list}]==]
      ${options} -- ${launcher} COMMAND_ERROR_IS_FATAL ANY)
    break()
  endif()
endforeach()
include([==[${list}]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()
