#include "quarry/chunked/api/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/text_file.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/escape.h"
#include "quarry/local/base/message.h"
#include "quarry/local/base/sizes.h"

namespace quarry {
namespace {

struct Point {
  double x, y;
};

// A drawing of its own: colours and fonts are in it.
class Drawing {
 public:
  void polygon(std::initializer_list<Point> points, std::string_view fill) {
    fmt::format_to(to(), "<polygon points=\"");
    for (const Point& point : points) {
      fmt::format_to(to(), "{:.1f},{:.1f} ", point.x, point.y);
      reach(point);
    }
    fmt::format_to(to(), "\" fill=\"{}\" stroke=\"#24527a\" stroke-width=\"1.5\"/>\n", fill);
  }
  void line(Point from, Point to_point, std::string_view style = "stroke-width=\"0.6\"") {
    fmt::format_to(to(), "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#24527a\" {}/>\n",
                   from.x, from.y, to_point.x, to_point.y, style);
    reach(from), reach(to_point);
  }
  void text(Point at, std::string_view words, std::string_view anchor = "middle", std::string_view style = "") {
    fmt::format_to(to(), "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", at.x, at.y, anchor, style,
                   local::escape_html(words));
    const double width = 7.0 * static_cast<double>(words.size()), left = anchor == "middle" ? width / 2 : 0;
    reach({at.x + width - left, at.y + 4});
  }
  std::string take(std::string_view title) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" "
        "font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>{2}</title>\n<defs><marker id=\"tip\" "
        "viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" "
        "orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#24527a\"/></marker></defs>\n{3}</svg>\n",
        right_ + kMargin, bottom_ + kMargin, local::escape_html(title), body_);
  }

  static constexpr double kMargin = 12;

 private:
  std::back_insert_iterator<std::string> to() { return std::back_inserter(body_); }
  void reach(Point point) {
    right_ = std::max(right_, point.x);
    bottom_ = std::max(bottom_, point.y);
  }
  std::string body_;
  double right_ = 0, bottom_ = 0;
};

// Where an axis of `extent` is cut, from 0 to 1; no more than can be told apart.
std::vector<double> cuts_of(const AxisChunks& axis) {
  constexpr int64_t kMost = 40;
  std::vector<double> cuts;
  const int64_t step = std::max<int64_t>(1, (axis.count() + kMost - 1) / kMost);
  if (axis.extent() > 0)
    for (int64_t i = step; i < axis.count(); i += step)
      cuts.push_back(static_cast<double>(axis.start(i)) / static_cast<double>(axis.extent()));
  return cuts;
}

// Lengths of edges: the longest has `size`, none is less than a tenth of it.
double edge(int64_t extent, int64_t longest, double size) {
  constexpr double kLeast = 0.1;
  return size * std::max(kLeast, static_cast<double>(extent) / static_cast<double>(std::max<int64_t>(longest, 1)));
}

// A parallelogram from `corner` along u and v, cut along both.
void draw_face(Drawing& drawing, Point corner, Point u, Point v, const std::vector<double>& along_u,
               const std::vector<double>& along_v, std::string_view fill) {
  const auto at = [&](double a, double b) { return Point{corner.x + a * u.x + b * v.x, corner.y + a * u.y + b * v.y}; };
  drawing.polygon({at(0, 0), at(1, 0), at(1, 1), at(0, 1)}, fill);
  for (const double cut : along_u) drawing.line(at(cut, 0), at(cut, 1));
  for (const double cut : along_v) drawing.line(at(0, cut), at(1, cut));
}

constexpr std::string_view kFront = "#cfe3f5", kSide = "#b3d1ea", kTop = "#e4f0fa";

}  // namespace

std::string explain(std::span<const Array> arrays) {
  const exec::PlanSummary summary = exec::summarize(nodes_of(arrays), /*write=*/false);
  std::string text;
  for (const Array& array : arrays) text += fmt::format("result {}\n", array.repr());
  text += exec::describe(summary);
  for (size_t s = 0; s < summary.each.size(); ++s) {
    const exec::StageSummary& stage = summary.each[s];
    std::vector<std::string> sources = stage.data;
    for (const int source : stage.stages) sources.push_back(fmt::format("stage {}", source));
    text +=
        fmt::format("stage {} reads {}{}\n", s, sources.empty() ? "nothing" : fmt::to_string(fmt::join(sources, ", ")),
                    stage.is_barrier ? "; what follows waits for all of its chunks" : "");
  }
  return text;
}
std::string explain(const Array& array) { return explain(std::span<const Array>(&array, 1)); }

std::string to_svg(const Array& array, double size) {
  if (!(size > 0)) throw local::InvalidArgument(fmt::format("to_svg: a size of {} pixels", size));
  const Grid& grid = array.chunks();
  const int ndim = array.ndim(), shown = std::min(ndim, 3);
  int64_t longest = 1;
  for (int d = ndim - shown; d < ndim; ++d) longest = std::max(longest, array.shape(d));
  // Axes from the last: to the right, down, and to the back.
  const auto length = [&](int back) {
    return back < shown ? edge(array.shape(ndim - 1 - back), longest, size) : edge(0, longest, size);
  };
  const auto cuts = [&](int back) {
    return back < shown ? cuts_of(grid.axis(ndim - 1 - back)) : std::vector<double>();
  };
  const auto extent = [&](int back) { return fmt::to_string(array.shape(ndim - 1 - back)); };
  Drawing drawing;
  const double width = length(0), height = length(1), depth = shown == 3 ? 0.5 * length(2) : 0;
  const Point corner{Drawing::kMargin, Drawing::kMargin + depth};
  constexpr double kLine = 16;
  if (depth > 0) {
    draw_face(drawing, corner, {width, 0}, {depth, -depth}, cuts(0), cuts(2), kTop);
    draw_face(drawing, {corner.x + width, corner.y}, {depth, -depth}, {0, height}, cuts(2), cuts(1), kSide);
    drawing.text({corner.x + width + depth + 8, corner.y - depth / 2}, extent(2), "start");
  }
  draw_face(drawing, corner, {width, 0}, {0, height}, cuts(0), cuts(1), kFront);
  if (shown > 0) drawing.text({corner.x + width / 2, corner.y + height + kLine}, extent(0));
  if (shown > 1) drawing.text({corner.x + width + depth + 8, corner.y + height / 2 - depth}, extent(1), "start");
  std::string below = fmt::format("{} {}, {} chunk{}", local::name(array.dtype()), local::format_bytes(array.nbytes()),
                                  local::format_count(grid.count()), grid.count() == 1 ? "" : "s");
  if (ndim > shown) {
    Dims leading;
    for (int d = 0; d < ndim - shown; ++d) leading.push_back(array.shape(d));
    below = fmt::format("{} such boxes, {}", local::to_string(leading), below);
  }
  drawing.text({corner.x, corner.y + height + 2 * kLine + 4}, below, "start");
  return drawing.take(array.repr());
}

std::string plan_svg(std::span<const Array> arrays) {
  const exec::PlanSummary summary = exec::summarize(nodes_of(arrays), /*write=*/false);
  // Rows of boxes: data sets first, then each stage below all that it reads.
  struct Box {
    std::string first, second, third;
    int row = 0;
    Point at{};
  };
  constexpr double kWidth = 300, kHeight = 64, kGap = 28, kBetween = 46;
  std::vector<Box> boxes;
  std::map<std::string, size_t> data;
  std::vector<size_t> of_stage;
  for (size_t s = 0; s < summary.each.size(); ++s) {
    const exec::StageSummary& stage = summary.each[s];
    int row = 0;
    for (const std::string& name : stage.data) {
      if (data.try_emplace(name, boxes.size()).second) boxes.push_back({name, "", "", 0});
      row = 1;
    }
    for (const int source : stage.stages) row = std::max(row, boxes[of_stage[static_cast<size_t>(source)]].row + 1);
    of_stage.push_back(boxes.size());
    boxes.push_back(
        {fmt::format("{}  {}  {}", s, stage.kind, local::to_string(stage.shape)),
         fmt::format("{} chunk{} of {}, makes {}", local::format_count(stage.chunks), stage.chunks == 1 ? "" : "s",
                     local::to_string(stage.chunk), local::format_bytes(stage.made_bytes)),
         stage.label, row});
  }
  std::map<int, int> in_row;
  for (Box& box : boxes) {
    const int column = in_row[box.row]++;
    box.at = {Drawing::kMargin + column * (kWidth + kGap), Drawing::kMargin + box.row * (kHeight + kBetween)};
  }
  Drawing drawing;
  const auto arrow = [&](const Box& from, const Box& to, bool waits) {
    drawing.line({from.at.x + kWidth / 2, from.at.y + kHeight}, {to.at.x + kWidth / 2, to.at.y},
                 waits ? "stroke-width=\"3\" marker-end=\"url(#tip)\"" : "stroke-width=\"1\" marker-end=\"url(#tip)\"");
  };
  for (size_t s = 0; s < summary.each.size(); ++s) {
    const Box& box = boxes[of_stage[s]];
    for (const std::string& name : summary.each[s].data) arrow(boxes[data.at(name)], box, false);
    for (const int source : summary.each[s].stages) {
      const auto from = static_cast<size_t>(source);
      arrow(boxes[of_stage[from]], box, summary.each[from].is_barrier);
    }
  }
  constexpr size_t kLetters = 46;
  constexpr double kText = 7, kRow = 18;
  for (const Box& box : boxes) {
    const Point a = box.at, b{a.x + kWidth, a.y + kHeight};
    drawing.polygon({a, {b.x, a.y}, b, {a.x, b.y}}, box.second.empty() ? kTop : kFront);
    drawing.text({a.x + kText, a.y + kRow}, local::excerpt(box.first, kLetters), "start", "font-weight=\"bold\"");
    drawing.text({a.x + kText, a.y + 2 * kRow}, local::excerpt(box.second, kLetters), "start");
    drawing.text({a.x + kText, a.y + 3 * kRow}, local::excerpt(box.third, kLetters), "start");
  }
  return drawing.take("plan");
}

void visualize(std::span<const Array> arrays, const std::string& file) {
  const std::string drawing = plan_svg(arrays);
  comm::on_rank_0(Runtime::current().communicator(), {"visualize"}, [&] { io::write_file(file, drawing); });
}
void visualize(const Array& array, const std::string& file) { visualize(std::span<const Array>(&array, 1), file); }

}  // namespace quarry
