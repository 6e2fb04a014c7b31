// A header of the program's own, which happens to be called as one of the library's.
#pragma once

namespace consumer {
inline int dataset_answer() { return 42; }
}  // namespace consumer
