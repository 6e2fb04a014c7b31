// A user's program against the installed library: the sum of 0 ... 99 through the lazy array.
#include <quarry/quarry.h>

#include <cstdio>

int main(int argc, char** argv) {
  quarry::Runtime runtime(argc, argv);
  const double total = quarry::sum(quarry::arange(100)).to_host().item<double>();
  std::printf("%g\n", total);
  return total == 4950 ? 0 : 1;
}
