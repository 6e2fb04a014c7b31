#include <cstdio>
#include <cstdlib>

#include "quarry/apps/quarry/tool.h"

int main(int argc, char** argv) {
  const int status = quarry::apps::run_tool(argc, argv);
  if (status == 0) return 0;
  // After a failed write the HDF5 library still holds files that it cannot close, and crashes where it tries at exit.
  std::fflush(nullptr);
  std::_Exit(status);
}
