// Programs that are run again where they end early: what they compute before their output begins is saved too.
//
//   quarry::SavedSteps steps("out.h5");
//   const quarry::Array matrix = quarry::open_hdf5("in.h5", "/matrix");
//   const auto [values, vectors] = quarry::linalg::eigh(matrix);  // computes at the call, in many steps
//   quarry::store("out.h5", {{"/w", values}, {"/v", vectors}}, {.resume = true});
//   steps.complete();
#pragma once

#include <memory>
#include <string>

namespace quarry {

// While it is there, every computation of the current Runtime but store() (persist(), to_host(), and what functions
// such as sort() and eigh() compute at the call) is a step, and saves states within itself, as store() with `resume`
// does. Behind a step, at the earliest `--save-every` seconds (QUARRY_SAVE_EVERY) after the last time and as long as
// that took, what the program still has of its steps' results is written to NAME.partial.steps. A later run of the
// same program finds it and computes none of these steps: results have the same bits, on any number of ranks. So
// steps have to be the same in every run, and in the same order. Behind a value in host memory of more than a
// sixteenth of the budget no further step is saved. One at a time.
class SavedSteps {
 public:
  // `file`: the output. Collective. Throws InvalidArgument where there is another one, and for formats that no run can
  // go on with.
  explicit SavedSteps(std::string file);
  // Where nothing has been saved, nothing stays.
  ~SavedSteps();
  SavedSteps(const SavedSteps&) = delete;
  SavedSteps& operator=(const SavedSteps&) = delete;

  // Behind the output's store(), which has taken the steps away: what is computed now is none. Collective.
  void complete();
  // The same where no run will go on: takes the steps away, but for those of another run, which were refused.
  // Collective.
  void discard();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quarry
