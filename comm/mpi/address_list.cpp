#include "quarry/comm/mpi/address_list.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>

namespace quarry::comm::mpi {
namespace {

// The head, where each pattern begins, the patterns, the ranks' records. A pattern: its length, how many places differ,
// these places, the bytes of its first address. A record: the pattern's number, and the bytes at the places that
// differ; all records have `stride` bytes.
struct Head {
  uint32_t stride;
  uint32_t records_at;
};

struct Pattern {
  uint32_t number = 0;
  std::string_view first;
  std::vector<uint32_t> places;  // that differ, in order

  void compare(std::string_view address) {
    for (uint32_t i = 0; i < address.size(); ++i) {
      if (address[i] == first[i]) continue;
      const auto at = std::ranges::lower_bound(places, i);
      if (at == places.end() || *at != i) places.insert(at, i);
    }
  }
};

void put(std::string& out, const auto& value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }

uint32_t get(const std::byte* from) {
  uint32_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

std::string pack_addresses(std::span<const std::string_view> addresses) {
  std::map<size_t, Pattern> patterns;  // by length
  for (const std::string_view address : addresses) {
    const auto [at, is_new] = patterns.try_emplace(address.size());
    if (is_new) {
      at->second.number = static_cast<uint32_t>(patterns.size() - 1);
      at->second.first = address;
    }
    at->second.compare(address);
  }
  std::string described;
  std::vector<uint32_t> begins(patterns.size());
  Head head{sizeof(uint32_t), 0};
  const size_t patterns_at = sizeof head + begins.size() * sizeof(uint32_t);
  for (const auto& [length, pattern] : patterns) {
    begins[pattern.number] = static_cast<uint32_t>(patterns_at + described.size());
    put(described, static_cast<uint32_t>(length));
    put(described, static_cast<uint32_t>(pattern.places.size()));
    for (const uint32_t place : pattern.places) put(described, place);
    described += pattern.first;
    head.stride = std::max(head.stride, static_cast<uint32_t>(sizeof(uint32_t) + pattern.places.size()));
  }
  head.records_at = static_cast<uint32_t>(patterns_at + described.size());
  std::string packed;
  packed.reserve(head.records_at + addresses.size() * head.stride);
  put(packed, head);
  for (const uint32_t begin : begins) put(packed, begin);
  packed += described;
  for (const std::string_view address : addresses) {
    const Pattern& pattern = patterns.at(address.size());
    const size_t end = packed.size() + head.stride;
    put(packed, pattern.number);
    for (const uint32_t place : pattern.places) packed += address[place];
    packed.resize(end);
  }
  return packed;
}

std::string unpack_address(const std::byte* packed, int rank) {
  const uint32_t stride = get(packed), records_at = get(packed + sizeof(uint32_t));
  const std::byte* const record = packed + records_at + static_cast<size_t>(rank) * stride;
  const std::byte* const pattern = packed + get(packed + sizeof(Head) + get(record) * sizeof(uint32_t));
  const uint32_t length = get(pattern), differing = get(pattern + sizeof(uint32_t));
  const std::byte* const places = pattern + 2 * sizeof(uint32_t);
  std::string address(reinterpret_cast<const char*>(places + differing * sizeof(uint32_t)), length);
  for (uint32_t i = 0; i < differing; ++i)
    address[get(places + i * sizeof(uint32_t))] = static_cast<char>(record[sizeof(uint32_t) + i]);
  return address;
}

}  // namespace quarry::comm::mpi
