// What a computation would do, and pictures of arrays and plans. Nothing is computed.
#pragma once

#include <span>
#include <string>

#include "quarry/chunked/api/array.h"

namespace quarry {

// What computing the arrays in one plan would run: a line for each stage (kind, shape, chunks, bytes that it reads from
// files, makes, and takes for one task, its expression) with the stages and data that it reads and whether what follows
// waits for all of its chunks; over all ranks chunks, tasks, flops of products and decompositions, bytes from and to
// files and between ranks; the passes of the planner with their times and what they changed; the least budget per rank
// and the given one. Collective.
std::string explain(std::span<const Array> arrays);
std::string explain(const Array& array);

// The array as an SVG drawing: a box cut as its chunks are, with its extents; the last three axes of more, the leading
// ones as a number of such boxes. Of many cuts along an axis some are drawn. `size`: pixels of the longest edge.
std::string to_svg(const Array& array, double size = 240);

// The stages of the plan as an SVG drawing, and as a file, which rank 0 writes: a box for each stage and data set, an
// arrow from all that a stage reads, thick where it waits for every chunk. Collective. Throws IoError.
std::string plan_svg(std::span<const Array> arrays);
void visualize(std::span<const Array> arrays, const std::string& file);
void visualize(const Array& array, const std::string& file);

}  // namespace quarry
