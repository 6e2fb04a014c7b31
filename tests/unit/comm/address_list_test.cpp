#include "quarry/comm/mpi/address_list.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::comm::mpi {
namespace {

void expect_round_trip(const std::vector<std::string>& addresses) {
  const std::vector<std::string_view> views(addresses.begin(), addresses.end());
  const std::string packed = pack_addresses(views);
  for (size_t r = 0; r < addresses.size(); ++r) {
    EXPECT_EQ(unpack_address(reinterpret_cast<const std::byte*>(packed.data()), static_cast<int>(r)), addresses[r])
        << r;
  }
}

// As UCX's over TCP: a number of the process, of the host, a port, and much that is the same everywhere.
std::string address_of(int rank, std::mt19937_64& random) {
  std::string address(79, 'u');
  for (size_t i = 0; i < 8; ++i) address[i] = static_cast<char>(random());
  address[40] = static_cast<char>(rank / 64);
  address[41] = static_cast<char>(random());
  address[42] = static_cast<char>(random());
  return address;
}

TEST(AddressList, TenThousandRanksHaveTwentyBytesEach) {
  std::mt19937_64 random(1);
  std::vector<std::string> addresses;
  for (int rank = 0; rank < 10000; ++rank) addresses.push_back(address_of(rank, random));
  expect_round_trip(addresses);
  const std::vector<std::string_view> views(addresses.begin(), addresses.end());
  EXPECT_LE(pack_addresses(views).size(), 20 * addresses.size());
}

TEST(AddressList, AwkwardOnes) {
  using namespace std::string_literals;
  expect_round_trip({});
  expect_round_trip({""});
  expect_round_trip({"", "a", ""});
  expect_round_trip({"same", "same", "same"});
  expect_round_trip({"alone"});
  expect_round_trip({"\0\0"s, "\0\1"s, "\xff\0"s});
  // Of several lengths, as where hosts have other networks: each length with its own places that differ.
  expect_round_trip({"aaaa", "aaba", "bbbbbbbb", "bbbbbbbc", "aaca", "c", "xbbbbbbb", "d"});
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> addresses(random() % 40);
    for (std::string& address : addresses) {
      address.resize(random() % 6);
      for (char& letter : address) letter = static_cast<char>('a' + random() % 3);
    }
    expect_round_trip(addresses);
  }
}

}  // namespace
}  // namespace quarry::comm::mpi
