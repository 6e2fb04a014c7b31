// Tile programs: an algorithm on matrices as one loop that names the tiles it reads and changes, in the order of its
// meaning, as in a textbook. Every rank runs the whole loop; a task runs where the tiles that it writes are, and sees
// the tiles that it names alone. Which tile has been read and changed how often is known from the loop, so versions,
// transfers and memory need no word from other ranks, and an algorithm has no tests of ownership.
//
// What the loop does depends on shapes and on the operator's parameters; never on ranks, time or values.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>

#include "quarry/chunked/op/operator.h"
#include "quarry/local/device/device.h"

namespace quarry::tiles {

using local::NdArray;

// Chunk (row, column) of a matrix of a program.
struct Tile {
  int matrix = 0;
  int64_t row = 0, column = 0;
};

// A matrix of a program, by its chunks.
class Tiles {
 public:
  Tiles(int number, int64_t rows, int64_t columns) : number_(number), rows_(rows), columns_(columns) {}
  Tile operator()(int64_t row, int64_t column) const { return {number_, row, column}; }
  int64_t rows() const { return rows_; }  // of tiles
  int64_t columns() const { return columns_; }

 private:
  int number_;
  int64_t rows_, columns_;
};

// What a task does with a tile. `update` finds it as it was before and changes it; `write` makes all of it anew.
struct Use {
  enum class Mode : uint8_t { read, update, write };
  Tile tile;
  Mode mode = Mode::read;
};
inline Use read(const Tile& tile) { return {tile, Use::Mode::read}; }
inline Use update(const Tile& tile) { return {tile, Use::Mode::update}; }
inline Use write(const Tile& tile) { return {tile, Use::Mode::write}; }

// Numbers for a kernel.
using Parameters = std::array<int64_t, 2>;

// What a task does. `run` gets the tiles in the order of the uses, in current_context(): those that are written or
// updated in C order; those that are only read may have any strides where they are of an argument. What it takes from
// the context's memory is found by running it on the trial device (local/ndarray/trial.h), so it does the same there.
struct TileKernel {
  const char* name;
  void (*run)(std::span<const NdArray> tiles, const Parameters& parameters);
  // Additions and multiplications of real tiles of these shapes, in the order of the uses; see flops_of(). Null: none.
  double (*flops)(std::span<const Dims> shapes, const Parameters& parameters) = nullptr;
};
// The same for tiles whose first one has this dtype. As LAPACK's Working Note 41 counts them: the terms of third power,
// without what a method does beside them, so that an algorithm by tiles takes those of the whole; of complex numbers an
// addition counts 2 and a multiplication 6, which are as many, together 4 times those of real ones.
double flops_of(const TileKernel& kernel, std::span<const Dims> shapes, const Parameters& parameters,
                local::DType dtype);

// On a GPU urgent tasks, short ones that much else waits for, and panels, long ones or such as wait for the device,
// have threads and streams of their own that go first. On the CPU the order is enough.
enum class Urgency : uint8_t { bulk, urgent, panel };

class Program {
 public:
  virtual ~Program() = default;
  // The tiles of an argument, which are only read.
  virtual Tiles argument(int number) = 0;
  // Those of an output, of which every one is to be written.
  virtual Tiles result(int output) = 0;
  // Those of an output that begin as those of an argument with the same chunks and dtype.
  virtual Tiles result_from(int output, int argument) = 0;
  // Tiles that are where the task that writes them first has its other tiles.
  virtual Tiles workspace(const op::ArraySpec& spec) = 0;
  // Tiles that begin as those of an argument, dealt to the ranks in turn.
  virtual Tiles workspace_from(int argument) = 0;
  // What the tasks so far have made is enough to go on with: here a saved state may be. A hint, of some hundreds at
  // most.
  virtual void step() {}
  // One task. All tiles that it changes have one owner; a task that changes none runs where the first tile is that it
  // reads. At most 8 updates.
  virtual void task(const TileKernel& kernel, std::span<const Use> uses, Parameters parameters = {},
                    Urgency urgency = Urgency::bulk) = 0;
  void task(const TileKernel& kernel, std::initializer_list<Use> uses, Parameters parameters = {},
            Urgency urgency = Urgency::bulk) {
    task(kernel, std::span(uses.begin(), uses.size()), parameters, urgency);
  }
};

// Additions and multiplications of all tasks of a loop, for the arrays of the call.
double flops_of(const std::function<void(Program&)>& emit, const op::Call& call);

// Rows and columns of the tiles of an n x n matrix: a few MiB on the CPU, some ten on a GPU, and no more than 256 of
// them; less where `together` of them do not fit `room` bytes (0: no limit), but for 128 of them. Depends on nothing
// else.
int64_t tile_edge(int64_t n, local::DType dtype, int64_t together, int64_t room);
// Columns of a panel, a tile that has all `rows` of a matrix of so many columns; the same way.
int64_t panel_width(int64_t rows, int64_t columns, local::DType dtype, int64_t together, int64_t room);
// Columns of tiles (or panels, of `bytes` each) that are kept in memory while all those before them are applied: all of
// them where the matrix is at most a half of `memory` bytes (0: no limit), that is the job's.
int64_t columns_at_once(int64_t count, int64_t bytes, int64_t memory);

}  // namespace quarry::tiles
