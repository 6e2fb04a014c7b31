# Writes OUTPUT, a C++ file that defines one string constant per header: those that HEADER declares, in NAMESPACE.
# cmake -DOUTPUT=FILE -DHEADER=h -DNAMESPACE=n -DNAMES=a;b -DFILES=x;y -P QuarryEmbed.cmake
set(text "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
foreach(name file IN ZIP_LISTS NAMES FILES)
  file(READ ${file} content)
  string(REPLACE "#pragma once" "" content "${content}")
  # Headers of this repository are embedded themselves.
  string(REGEX REPLACE "#include \"[^\"]*\"" "" content "${content}")
  # Adjacent literals keep each one below the length every compiler takes.
  string(LENGTH "${content}" length)
  set(offset 0)
  string(APPEND text "const char* const ${name} =\n")
  while(offset LESS length)
    string(SUBSTRING "${content}" ${offset} 12000 part)
    string(APPEND text "R\"quarry(${part})quarry\"\n")
    math(EXPR offset "${offset} + 12000")
  endwhile()
  string(APPEND text ";\n")
endforeach()
string(APPEND text "}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${text}")
