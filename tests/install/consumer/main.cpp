// A user's program against the installed library: the sum of 0 ... 99 through the lazy array. Its own headers keep
// their names.
#include <quarry/local.h>
#include <quarry/quarry.h>

#include <cstdio>

#include "io/dataset.h"
#include "local/local.h"

int main(int argc, char** argv) {
  quarry::Runtime runtime(argc, argv);
  const double total = quarry::sum(quarry::arange(100)).to_host().item<double>();
  std::printf("%g\n", total);
  const bool own = consumer::dataset_answer() == 42 && consumer::local_answer() == 43;
  return total == 4950 && own ? 0 : 1;
}
