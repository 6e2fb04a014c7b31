// What the stages of a plan cost: how much of which work they do, and how long one thread takes for it at the rates of
// a machine. Progress, the time that --plan prints and the dashboard follow it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quarry/chunked/plan/stage.h"

namespace quarry::plan {

// An amount of work that has a rate of its own.
struct Work {
  enum class Kind : uint8_t {
    ufunc,      // number: the row of ufunc.def; units: elements
    reduction,  // number: the row of reduction.def; units: elements
    product,    // units: multiplications with an addition
    call,       // of an operator; units: as units_of_call() counts them
    copy,       // units: bytes, read from memory and written there
    read,       // units: bytes of files
    decode,     // units: bytes that come out of filters
    write,      // units: bytes of files, to the page cache
    sync,       // units: bytes that the disk has to have when a file is complete: threads do not share it
    fresh,      // units: bytes that the process gets from the system, and gives back
    task,       // units: tasks
  };
  Kind kind = Kind::task;
  int number = 0;
  local::DType dtype = local::DType::float64;  // of the loop, the accumulation, the elements
  const Applied* applied = nullptr;            // call
  const local::Value* value = nullptr;         // ufunc: an application of it, in `program`
  const local::Program* program = nullptr;
  double units = 0;
  const io::Dataset* dataset = nullptr;  // decode

  // What has one rate: "ufunc sin float64", "call eigh float64".
  std::string name() const;
};

// All that a stage does, over all ranks. The bytes that it reads from files count where its own tasks read them.
std::vector<Work> work_of(const Stage& stage);

// Additions and multiplications of products, decompositions and solvers of matrices: the sum over the tasks of products
// and of programs of tiles, of others about, by the usual counts of their methods.
double matrix_flops(const Stage& stage);

// Whether a call's time grows with the third power of the sizes of matrices.
bool is_cubic(std::string_view name);
// Of an operator on arguments of these shapes, what its time grows with: n^3 for decompositions and solvers of
// matrices, n log n for sorting and Fourier transforms, else the elements of arguments and results.
double units_of_call(std::string_view name, const op::Call& call);

// Seconds of one thread for one unit, by Work::name().
class Rates {
 public:
  // What was measured, else what a usual machine takes.
  double seconds_per_unit(const Work& work) const;
  bool is_known(const std::string& name) const { return known_.contains(name); }
  void set(const std::string& name, double seconds) { known_[name] = seconds; }
  const std::map<std::string, double>& known() const { return known_; }

 private:
  std::map<std::string, double> known_;
};

// The memory that a rank of so many threads takes from the system for the plan: what tasks hold at the same time.
double fresh_bytes(const Plan& plan, int threads);

// Of one thread, for the stage's work of all ranks.
double seconds_of(const Stage& stage, const Rates& rates);

}  // namespace quarry::plan
