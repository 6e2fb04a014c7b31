#include "quarry/local/base/message.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace quarry::local {

// Optimal string alignment distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return "";
  const size_t limit = word.size() <= 2 ? 1 : std::max<size_t>(2, word.size() / 3);
  const std::string* best = nullptr;
  size_t least = limit + 1;
  for (const std::string& candidate : candidates) {
    const size_t edits = edit_distance(word, candidate);
    if (edits < least && edits < std::max(word.size(), candidate.size())) {
      least = edits;
      best = &candidate;
    }
  }
  return best != nullptr ? "; did you mean '" + *best + "'?" : "";
}

std::string excerpt(std::string_view text, size_t most) {
  constexpr std::string_view kGap = "...";
  if (text.size() <= most) return std::string(text);
  const auto inside = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u; };
  const size_t shown = most > kGap.size() ? most - kGap.size() : 0;
  size_t head = shown - shown / 4, tail = text.size() - shown / 4;
  while (head > 0 && inside(head)) --head;
  while (tail < text.size() && inside(tail)) ++tail;
  return std::string(text.substr(0, head)) + std::string(kGap) + std::string(text.substr(tail));
}

}  // namespace quarry::local
