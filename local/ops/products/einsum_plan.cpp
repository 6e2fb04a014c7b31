#include "quarry/local/ops/products/einsum_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "quarry/local/base/detail.h"
#include "quarry/local/ops/numerical/gufunc.h"

namespace quarry::local::ops {
namespace {

[[noreturn]] void fail(const std::string& message) { throw InvalidArgument(message); }

// ---- Subscripts ----

constexpr char kEllipsis = '.';  // stands for "..." in parsed terms

// The letters of one term, with kEllipsis for an ellipsis.
std::string parse_term(std::string_view text, std::string_view where) {
  std::string labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == '.') {
      if (text.substr(i, 3) != "..." || labels.find(kEllipsis) != std::string::npos)
        fail(fmt::format("einstein sum subscripts string contains a '.' that is not part of an ellipsis ('...') in {}",
                         where));
      labels += kEllipsis;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      labels += text[i];
    } else {
      fail(
          fmt::format("invalid subscript '{}' in einstein sum subscripts string, subscripts must be letters", text[i]));
    }
  }
  return labels;
}

struct Subscripts {
  std::vector<std::string> inputs;
  std::optional<std::string> output;
  std::vector<NdArray> operands;
};

Subscripts from_text(const std::string& text) {
  Subscripts result;
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  size_t begin = 0;
  for (;;) {
    const size_t comma = left.find(',', begin);
    result.inputs.push_back(parse_term(std::string_view(left).substr(begin, comma - begin),
                                       fmt::format("operand {}", result.inputs.size())));
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  if (arrow != std::string::npos) result.output = parse_term(std::string_view(text).substr(arrow + 2), "the output");
  return result;
}

Subscripts from_text(const EinsumOperands& operands) {
  Subscripts result = from_text(std::get<std::string>(operands[0]));
  for (size_t i = 1; i < operands.size(); ++i) {
    const NdArray* array = std::get_if<NdArray>(&operands[i]);
    if (!array) throw TypeError("einsum: only the first argument may be a string");
    result.operands.push_back(*array);
  }
  return result;
}

std::string from_numbers(const EinsumOperands::value_type& list) {
  if (const EinsumLabels* given = std::get_if<EinsumLabels>(&list)) return letters_of(*given);
  const NdArray* array = std::get_if<NdArray>(&list);
  if (!array || array->ndim() != 1 || (array->size() > 0 && !is_integer(array->dtype())))
    throw TypeError("each subscript must be either an integer or an ellipsis");
  EinsumLabels numbers;
  for (int64_t label : to_vector<int64_t>(array->astype(DType::int64))) numbers.emplace_back(label);
  return letters_of(numbers);
}

Subscripts from_lists(const EinsumOperands& operands) {
  Subscripts result;
  size_t i = 0;
  for (; i + 1 < operands.size(); i += 2) {
    const NdArray* array = std::get_if<NdArray>(&operands[i]);
    if (!array) throw TypeError(fmt::format("einsum: argument {} must be an array", i));
    result.operands.push_back(*array);
    result.inputs.push_back(from_numbers(operands[i + 1]));
  }
  if (i < operands.size()) result.output = from_numbers(operands[i]);
  return result;
}

void replace_ellipsis(std::string& labels, std::string_view letters) {
  const size_t place = labels.find(kEllipsis);
  if (place != std::string::npos) labels.replace(place, 1, letters);
}

// How NumPy shows an operand whose axes do not fit: its axes in the order of the whole iteration.
std::string remapped(const Dims& shape, const std::string& labels, const std::string& order) {
  std::string text = compact_shape(shape) + "->(";
  bool first = true;
  for (char label : order) {
    const size_t axis = labels.find(label);
    if (axis == std::string::npos && first) continue;
    text += fmt::format("{}{}", first ? "" : ",",
                        axis == std::string::npos ? "newaxis" : fmt::format("{}", shape[static_cast<int>(axis)]));
    first = false;
  }
  return text + ")";
}

void find_extents(EinsumTerms& terms) {
  terms.extents.fill(-1);
  std::string order = terms.output;
  for (char letter = 'A'; letter <= 'z'; ++letter) {
    const bool used = std::any_of(terms.inputs.begin(), terms.inputs.end(),
                                  [&](const std::string& x) { return x.find(letter) != std::string::npos; });
    if (used && order.find(letter) == std::string::npos) order += letter;
  }
  for (size_t i = 0; i < terms.inputs.size(); ++i) {
    const std::string& labels = terms.inputs[i];
    const Dims& shape = terms.shapes[i];
    for (int d = 0; d < shape.size(); ++d) {
      const char label = labels[static_cast<size_t>(d)];
      const int first = static_cast<int>(labels.find(label));
      if (shape[first] != shape[d]) {
        fail(fmt::format("dimensions in {} for collapsing index '{}' don't match ({} != {})",
                         terms.inputs.size() == 1 ? "single operand" : fmt::format("operand {}", i), label,
                         shape[first], shape[d]));
      }
      int64_t& extent = terms.extents[static_cast<size_t>(label)];
      if (extent < 0 || extent == 1) {
        extent = shape[d];
      } else if (shape[d] != 1 && shape[d] != extent) {
        std::string text = "operands could not be broadcast together with remapped shapes [original->remapped]: ";
        for (size_t j = 0; j < terms.inputs.size(); ++j)
          text += remapped(terms.shapes[j], terms.inputs[j], order) + " ";
        fail(text);
      }
    }
  }
}

// ---- Paths ----

using Set = uint64_t;  // bit per letter

Set bit_of(char letter) { return Set{1} << (letter - 'A'); }  // 'A' to 'z' are 58 letters
Set set_of(const std::string& labels) {
  Set set = 0;
  for (char letter : labels) set |= bit_of(letter);
  return set;
}

// The products of extents, which may exceed 64 bits.
class Sizes {
 public:
  explicit Sizes(const EinsumTerms& terms) : terms_(terms) {}
  double of(Set set) const {
    double product = 1;
    for (char letter = 'A'; letter <= 'z'; ++letter)
      if (set & bit_of(letter)) product *= static_cast<double>(terms_.extents[static_cast<size_t>(letter)]);
    return product;
  }
  double of(const std::string& labels) const {  // repeated ones count each time
    double product = 1;
    for (char letter : labels) product *= static_cast<double>(terms_.extents[static_cast<size_t>(letter)]);
    return product;
  }
  double flops(Set all, bool sums, size_t terms) const {
    return of(all) * (static_cast<double>(std::max<size_t>(1, terms - 1)) + (sums ? 1 : 0));
  }

 private:
  const EinsumTerms& terms_;
};

struct Step {
  Set result, all;
  bool sums() const { return all != result; }
};
// What contracting the terms at `positions` leaves.
Step step_of(std::span<const int64_t> positions, const std::vector<Set>& sets, Set output) {
  Step step{0, 0};
  Set kept = output;
  for (size_t i = 0; i < sets.size(); ++i) {
    const bool taken = std::find(positions.begin(), positions.end(), static_cast<int64_t>(i)) != positions.end();
    (taken ? step.all : kept) |= sets[i];
  }
  step.result = step.all & kept;
  return step;
}
void take_step(std::span<const int64_t> positions, const Step& step, std::vector<Set>& sets) {
  std::vector<int64_t> descending(positions.begin(), positions.end());
  std::sort(descending.rbegin(), descending.rend());
  for (int64_t position : descending) sets.erase(sets.begin() + position);
  sets.push_back(step.result);
}

std::vector<int64_t> all_positions(size_t count) {
  std::vector<int64_t> positions(count);
  for (size_t i = 0; i < count; ++i) positions[i] = static_cast<int64_t>(i);
  return positions;
}

std::vector<Set> sets_of(const EinsumTerms& terms) {
  std::vector<Set> sets;
  for (const std::string& labels : terms.inputs) sets.push_back(set_of(labels));
  return sets;
}

// Contracts the pair that frees most elements, then the cheapest one, first pairs that share a label; stops where every
// pair is too large or no pair is cheaper than all that is left at once.
ContractionPath greedy_path(const EinsumTerms& terms, double limit) {
  const Sizes sizes(terms);
  std::vector<Set> sets = sets_of(terms);
  const Set output = set_of(terms.output);
  if (sets.size() <= 2) return {all_positions(sets.size())};
  const Step whole = step_of(all_positions(sets.size()), sets, output);
  const double naive = sizes.flops(whole.all, whole.sums(), sets.size());

  struct Candidate {
    double freed, cost;
    std::array<int64_t, 2> pair;
  };
  std::vector<Candidate> known;
  double spent = 0;
  const auto consider = [&](int64_t i, int64_t j) {
    const std::array pair{i, j};
    const Step step = step_of(pair, sets, output);
    const double size = sizes.of(step.result);
    if (size > limit) return;
    const double cost = sizes.flops(step.all, step.sums(), 2);
    if (spent + cost > naive) return;
    const double freed = sizes.of(sets[static_cast<size_t>(i)]) + sizes.of(sets[static_cast<size_t>(j)]) - size;
    known.push_back({freed, cost, pair});
  };
  const auto disjoint = [&](int64_t i, int64_t j) {
    return (sets[static_cast<size_t>(i)] & sets[static_cast<size_t>(j)]) == 0;
  };

  ContractionPath path;
  for (size_t round = 0; sets.size() > 1; ++round) {
    const auto count = static_cast<int64_t>(sets.size());
    if (round == 0) {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = i + 1; j < count; ++j)
          if (!disjoint(i, j)) consider(i, j);
    } else {
      for (int64_t i = 0; i + 1 < count; ++i)
        if (!disjoint(i, count - 1)) consider(i, count - 1);
    }
    if (known.empty())
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = i + 1; j < count; ++j) consider(i, j);
    if (known.empty()) {
      path.push_back(all_positions(sets.size()));
      break;
    }
    const Candidate best = *std::min_element(known.begin(), known.end(), [](const Candidate& x, const Candidate& y) {
      return x.freed != y.freed ? x.freed > y.freed : x.cost < y.cost;
    });
    const int64_t x = best.pair[0], y = best.pair[1];
    std::erase_if(known, [&](const Candidate& c) {
      return c.pair[0] == x || c.pair[0] == y || c.pair[1] == x || c.pair[1] == y;
    });
    for (Candidate& c : known)
      for (int64_t& position : c.pair) position -= (position > x) + (position > y);
    take_step(best.pair, step_of(best.pair, sets, output), sets);
    path.push_back({x, y});
    spent += best.cost;
  }
  return path;
}

// The cheapest of all sequences of pairs whose results fit the limit; what cannot be paired comes in one last step.
class OptimalSearch {
 public:
  OptimalSearch(const EinsumTerms& terms, double limit) : sizes_(terms), limit_(limit), output_(set_of(terms.output)) {
    const std::vector<Set> sets = sets_of(terms);
    count_ = sets.size();
    best_.resize(count_);
    if (count_ > 0) search(sets, 0);
  }
  ContractionPath path() const {
    size_t depth = count_ - 1;
    while (depth > 0 && !best_[depth].found) --depth;
    ContractionPath path = depth > 0 ? best_[depth].path : ContractionPath{};
    if (depth + 1 < count_ || count_ == 1) path.push_back(all_positions(count_ - depth));
    return path;
  }

 private:
  struct Best {
    bool found = false;
    double cost = 0;
    ContractionPath path;
  };
  void search(const std::vector<Set>& sets, double cost) {
    const size_t depth = count_ - sets.size();
    if (best_[count_ - 1].found && cost >= best_[count_ - 1].cost) return;
    if (!best_[depth].found || cost < best_[depth].cost) best_[depth] = {true, cost, path_};
    const auto n = static_cast<int64_t>(sets.size());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) {
        const std::array pair{i, j};
        const Step step = step_of(pair, sets, output_);
        if (sizes_.of(step.result) > limit_) continue;
        std::vector<Set> left = sets;
        take_step(pair, step, left);
        path_.push_back({i, j});
        search(left, cost + sizes_.flops(step.all, step.sums(), 2));
        path_.pop_back();
      }
  }

  const Sizes sizes_;
  const double limit_;
  const Set output_;
  size_t count_ = 0;
  std::vector<Best> best_;  // by the number of steps taken
  ContractionPath path_;
};

ContractionPath given_path(const std::vector<std::variant<std::string, Ints>>& list, size_t terms) {
  ContractionPath path;
  if (list.empty() || !std::holds_alternative<std::string>(list[0]) || std::get<std::string>(list[0]) != "einsum_path")
    throw TypeError("Did not understand the path: a list must begin with 'einsum_path'");
  for (size_t i = 1; i < list.size(); ++i) {
    const Ints* positions = std::get_if<Ints>(&list[i]);
    if (!positions) throw TypeError("Did not understand the path: its steps are tuples of positions");
    std::vector<int64_t> step = positions->values();
    for (int64_t position : step) {
      if (position < 0 || position >= static_cast<int64_t>(terms) || std::count(step.begin(), step.end(), position) > 1)
        throw IndexError(fmt::format("einsum_path: position {} of step {} with {} operands", position, i, terms));
    }
    if (step.empty()) fail("einsum_path: a step without operands");
    terms -= step.size() - 1;
    path.push_back(std::move(step));
  }
  if (terms != 1)
    fail(fmt::format("Invalid einsum_path is specified: {} more operands has to be contracted.", terms - 1));
  return path;
}

}  // namespace

namespace {

EinsumTerms terms_of(Subscripts subscripts, std::vector<Dims> shapes) {
  if (subscripts.inputs.size() != shapes.size()) {
    fail(fmt::format("{} operands provided to einstein sum function than specified in the subscripts string",
                     subscripts.inputs.size() > shapes.size() ? "fewer" : "more"));
  }
  EinsumTerms terms{std::move(subscripts.inputs), {}, {}, std::move(shapes), std::move(subscripts.operands)};

  // Letters for the axes of ellipses, counted from the last.
  std::string used;
  for (const std::string& labels : terms.inputs) used += labels;
  if (subscripts.output) used += *subscripts.output;
  int64_t most = 0;
  for (size_t i = 0; i < terms.inputs.size(); ++i) {
    const int ndim = terms.shapes[i].size();
    const bool open = terms.inputs[i].find(kEllipsis) != std::string::npos;
    const int named = static_cast<int>(terms.inputs[i].size()) - (open ? 1 : 0);
    if (named > ndim)
      fail(fmt::format("einstein sum subscripts string contains too many subscripts for operand {}", i));
    if (named < ndim && !open)
      fail(
          "operand has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided to "
          "broadcast the extra dimensions.");
    if (open) most = std::max<int64_t>(most, ndim - named);
  }
  std::string free;
  for (char letter = 'a'; letter <= 'z'; ++letter) free += letter;
  for (char letter = 'A'; letter <= 'Z'; ++letter) free += letter;
  std::erase_if(free, [&](char letter) { return used.find(letter) != std::string::npos; });
  if (most > static_cast<int64_t>(free.size())) fail("einsum: too many different axes");
  const std::string extra = free.substr(0, static_cast<size_t>(most));
  for (size_t i = 0; i < terms.inputs.size(); ++i) {
    const size_t count = static_cast<size_t>(terms.shapes[i].size()) - (terms.inputs[i].size() - 1);
    if (terms.inputs[i].find(kEllipsis) != std::string::npos)
      replace_ellipsis(terms.inputs[i], std::string_view(extra).substr(extra.size() - count));
  }

  if (subscripts.output) {
    terms.output = *subscripts.output;
    for (char letter : terms.output) {
      if (letter == kEllipsis) continue;
      if (std::count(terms.output.begin(), terms.output.end(), letter) > 1)
        fail(fmt::format("einstein sum subscripts string includes output subscript '{}' multiple times", letter));
      if (std::none_of(terms.inputs.begin(), terms.inputs.end(),
                       [&](const std::string& x) { return x.find(letter) != std::string::npos; }))
        fail(
            fmt::format("einstein sum subscripts string included output subscript '{}' which never appeared in an "
                        "input",
                        letter));
    }
    if (most > 0 && terms.output.find(kEllipsis) == std::string::npos)
      fail(
          "output has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided to "
          "broadcast the extra dimensions.");
    replace_ellipsis(terms.output, extra);
  } else {
    // The ellipsis, then every letter that appears once, in order.
    terms.output = extra;
    for (char letter = 'A'; letter <= 'z'; ++letter)
      if (letter != kEllipsis && std::count(used.begin(), used.end(), letter) == 1) terms.output += letter;
  }
  find_extents(terms);
  return terms;
}

}  // namespace

std::string letters_of(const EinsumLabels& numbers) {
  std::string letters;
  for (const auto& number : numbers) {
    const int64_t* label = std::get_if<int64_t>(&number);
    if (!label) {
      if (letters.find(kEllipsis) != std::string::npos) fail("each subscripts list may have one ellipsis");
      letters += kEllipsis;
      continue;
    }
    if (*label < 0 || *label >= 52) fail("subscript is not within the valid range [0, 52)");
    letters += static_cast<char>(*label < 26 ? 'A' + *label : 'a' + (*label - 26));
  }
  return letters;
}

EinsumTerms parse_einsum(const EinsumOperands& operands) {
  if (operands.empty() || (operands.size() == 1 && std::holds_alternative<std::string>(operands[0])))
    fail(
        "must specify the einstein sum subscripts string and at least one operand, or at least one operand and its "
        "corresponding subscripts list");
  Subscripts subscripts = std::holds_alternative<std::string>(operands[0]) ? from_text(operands) : from_lists(operands);
  std::vector<Dims> shapes;
  for (const NdArray& operand : subscripts.operands) shapes.push_back(operand.shape());
  return terms_of(std::move(subscripts), std::move(shapes));
}

EinsumTerms parse_einsum(const std::string& subscripts, const std::vector<Dims>& shapes) {
  if (shapes.empty()) fail("must specify the einstein sum subscripts string and at least one operand");
  return terms_of(from_text(subscripts), shapes);
}

ContractionPath find_path(const EinsumTerms& terms, const EinsumOptimize& optimize) {
  const Sizes sizes(terms);
  std::string method = "greedy";
  double limit = sizes.of(terms.output);
  for (const std::string& labels : terms.inputs) limit = std::max(limit, sizes.of(labels));
  const size_t count = terms.inputs.size();
  if (const auto* list = std::get_if<std::vector<std::variant<std::string, Ints>>>(&optimize))
    return given_path(*list, count);
  if (const bool* yes = std::get_if<bool>(&optimize)) {
    if (!*yes) return {all_positions(count)};
  } else if (std::holds_alternative<std::monostate>(optimize)) {
    return {all_positions(count)};
  } else if (const auto* limited = std::get_if<std::pair<std::string, double>>(&optimize)) {
    method = limited->first;
    limit = std::trunc(limited->second);
  } else {
    method = std::get<std::string>(optimize);
  }
  Set all = 0;
  for (const std::string& labels : terms.inputs) all |= set_of(labels);
  if (count <= 2 || all == set_of(terms.output)) return {all_positions(count)};
  if (method == "greedy") return greedy_path(terms, limit);
  if (method == "optimal") return OptimalSearch(terms, limit).path();
  fail(fmt::format("Path name {} not found", method));
}

std::string kept_letters(const std::vector<std::string>& taken, const std::vector<std::string>& left,
                         const std::string& output) {
  std::string needed = output, kept;
  for (const std::string& labels : left) needed += labels;
  for (const std::string& labels : taken)
    for (char letter : labels)
      if (needed.find(letter) != std::string::npos && kept.find(letter) == std::string::npos) kept += letter;
  return kept;
}

std::string describe_path(const EinsumTerms& terms, const ContractionPath& path) {
  const Sizes sizes(terms);
  const Set output = set_of(terms.output);
  const auto join = [](const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& item : list) text += (&item == list.data() ? "" : ",") + item;
    return text;
  };
  const auto width = [](Set set) { return std::popcount(set); };

  std::vector<std::string> left = terms.inputs;
  std::vector<Set> sets = sets_of(terms);
  double cost = 0, largest = 0;
  int scaling = 0, distinct_total = 0;
  std::string lines;
  for (size_t i = 0; i < path.size(); ++i) {
    std::vector<int64_t> positions = path[i];
    std::sort(positions.rbegin(), positions.rend());
    const Step step = step_of(positions, sets, output);
    cost += sizes.flops(step.all, step.sums(), positions.size());
    scaling = std::max(scaling, width(step.all));
    largest = std::max(largest, sizes.of(step.result));
    std::vector<std::string> taken;
    for (int64_t position : positions) {
      taken.push_back(left[static_cast<size_t>(position)]);
      left.erase(left.begin() + position);
    }
    take_step(positions, step, sets);
    std::string result;
    if (i + 1 == path.size()) {
      result = terms.output;
    } else {  // by extent, then by letter
      for (char letter = 'A'; letter <= 'z'; ++letter)
        if (step.result & bit_of(letter)) result += letter;
      std::stable_sort(result.begin(), result.end(), [&](char x, char y) {
        return terms.extents[static_cast<size_t>(x)] < terms.extents[static_cast<size_t>(y)];
      });
    }
    left.push_back(result);
    lines += fmt::format("\n{:4d}    {:>24} {:>40}", width(step.all), join(taken) + "->" + result,
                         join(left) + "->" + terms.output);
  }
  Set all = 0;
  for (const std::string& labels : terms.inputs) {
    all |= set_of(labels);
    distinct_total += width(set_of(labels));
  }
  const double naive = sizes.flops(all, distinct_total > width(all), terms.inputs.size());
  cost += 1;
  const std::string rule(74, '-');
  return fmt::format(
             "  Complete contraction:  {}->{}\n         Naive scaling:  {}\n     Optimized scaling:  {}\n"
             "      Naive FLOP count:  {:.3e}\n  Optimized FLOP count:  {:.3e}\n   Theoretical speedup:  {:.3f}\n"
             "  Largest intermediate:  {:.3e} elements\n{}\n",
             join(terms.inputs), terms.output, width(all), scaling, naive, cost, naive / cost, largest, rule) +
         fmt::format("{:>6} {:>24} {:>40}\n{}", "scaling", "current", "remaining", rule) + lines;
}

}  // namespace quarry::local::ops
