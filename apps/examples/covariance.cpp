#include <quarry/quarry.h>

#include <iostream>
namespace qy = quarry;

int main(int argc, char** argv) {
  qy::Runtime runtime(argc, argv);             // MPI, this rank's device, memory budget
  qy::Array x = qy::open_hdf5(argv[1], "/x");  // lazy, of any size
  qy::Array z = (x - x.mean(0)) / x.std(0);
  qy::Array c = qy::matmul(z.T(), z) / static_cast<double>(x.shape(0));
  auto [values, vectors] = qy::linalg::eigh(c);
  qy::store(argv[2], {{"/values", values}, {"/vectors", vectors}}, {.overwrite = true});
  const qy::NdArray largest = values[qy::slice(-3, qy::none)].to_host();  // on every rank
  if (runtime.rank() == 0) std::cout << largest << "\n";
}
