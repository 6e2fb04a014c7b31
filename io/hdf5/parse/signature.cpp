#include "quarry/io/hdf5/parse/signature.h"

#include <array>

namespace quarry::io::hdf5 {
namespace {

using Bytes = std::array<unsigned char, 8>;
constexpr Bytes kWhole = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr Bytes kUnfinished = {0x89, 'Q', 'R', 'Y', '\r', '\n', 0x1a, '\n'};

}  // namespace

std::optional<Signature> find_signature(const ByteSource& file) {
  constexpr int64_t kLeastUserBlock = 512;
  Bytes found;
  for (int64_t at = 0; at + std::ssize(found) <= file.size(); at = at == 0 ? kLeastUserBlock : 2 * at) {
    file.read_at(at, std::as_writable_bytes(std::span(found)));
    if (found == kWhole) return Signature{FileState::whole, at};
    if (found == kUnfinished) return Signature{FileState::unfinished, at};
  }
  return std::nullopt;
}

std::span<const std::byte> signature_bytes(FileState state) {
  return std::as_bytes(std::span(state == FileState::whole ? kWhole : kUnfinished));
}

void put_signature(const ByteFile& file, const Signature& signature) {
  file.write_at(signature.at, signature_bytes(signature.state));
}

}  // namespace quarry::io::hdf5
