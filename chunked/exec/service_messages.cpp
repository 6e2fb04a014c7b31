#include "quarry/chunked/exec/service_messages.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

namespace quarry::exec {

namespace {

constexpr size_t kMostText = 3500;  // of an active message's 4 KiB

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
  }
  void put(const local::Dims& dims) {
    put(static_cast<int32_t>(dims.size()));
    for (const int64_t extent : dims) put(extent);
  }
  void put_text(const std::string& text) {
    const size_t size = std::min(text.size(), kMostText);
    put(static_cast<int32_t>(size));
    const auto* from = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), from, from + size);
  }
  void put_bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  void get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  void get(local::Dims& dims) {
    int32_t size = 0;
    get(size);
    if (size < 0 || size > local::kMaxDims) fail();
    dims.resize(size);
    for (int64_t& extent : dims) get(extent);
  }
  void get_text(std::string& text) {
    int32_t size = 0;
    get(size);
    if (size < 0) fail();
    const auto from = take(static_cast<size_t>(size));
    text.assign(reinterpret_cast<const char*>(from.data()), from.size());
  }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> take(size_t size) {
    if (size > bytes_.size()) fail();
    const auto part = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return part;
  }
  [[noreturn]] static void fail() { throw local::CommError("a control message of another rank cannot be read"); }

  std::span<const std::byte> bytes_;
};

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  Writer out;
  out.put(message.kind);
  out.put(message.path);
  out.put(message.epoch);
  switch (message.kind) {
    case MessageKind::fetch: {
      const Request& r = message.request;
      out.put(r.fetch);
      out.put(r.key);
      out.put(r.hyperslab.shape);
      out.put(r.hyperslab.start);
      out.put(r.hyperslab.count);
      out.put(r.hyperslab.itemsize);
      out.put(r.first_segment);
      out.put(r.segments);
      break;
    }
    case MessageKind::declined:
    case MessageKind::not_on_device:
    case MessageKind::done:
    case MessageKind::unreached:
      out.put(message.request.fetch);
      out.put(message.request.offset);
      break;
    case MessageKind::reply:
      out.put(message.request.fetch);
      out.put(message.request.offset);
      out.put(message.segment.number);
      out.put(message.segment.bytes);
      out.put_text(message.segment.handle);
      break;
    case MessageKind::recall:
    case MessageKind::recalled:
      out.put(message.segment.number);
      break;
    case MessageKind::data:
      out.put(message.request.fetch);
      out.put_bytes(message.data);
      break;
    case MessageKind::steal_request:
    case MessageKind::steal_reply:
      out.put(message.request.fetch);
      out.put(message.request.key);
      out.put(message.request.offset);
      break;
    case MessageKind::failed:
      out.put(message.error.code);
      out.put(message.error.detail);
      out.put_text(message.error.message);
      break;
  }
  return out.take();
}

Message decode(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Message message;
  in.get(message.kind);
  in.get(message.path);
  in.get(message.epoch);
  switch (message.kind) {
    case MessageKind::fetch: {
      Request& r = message.request;
      in.get(r.fetch);
      in.get(r.key);
      in.get(r.hyperslab.shape);
      in.get(r.hyperslab.start);
      in.get(r.hyperslab.count);
      in.get(r.hyperslab.itemsize);
      in.get(r.first_segment);
      in.get(r.segments);
      return message;
    }
    case MessageKind::declined:
    case MessageKind::not_on_device:
    case MessageKind::done:
    case MessageKind::unreached:
      in.get(message.request.fetch);
      in.get(message.request.offset);
      return message;
    case MessageKind::reply:
      in.get(message.request.fetch);
      in.get(message.request.offset);
      in.get(message.segment.number);
      in.get(message.segment.bytes);
      in.get_text(message.segment.handle);
      return message;
    case MessageKind::recall:
    case MessageKind::recalled:
      in.get(message.segment.number);
      return message;
    case MessageKind::data:
      in.get(message.request.fetch);
      message.data = in.rest();
      return message;
    case MessageKind::steal_request:
    case MessageKind::steal_reply:
      in.get(message.request.fetch);
      in.get(message.request.key);
      in.get(message.request.offset);
      return message;
    case MessageKind::failed:
      in.get(message.error.code);
      in.get(message.error.detail);
      in.get_text(message.error.message);
      return message;
  }
  throw local::CommError("a control message of another rank is of no known kind");
}

}  // namespace quarry::exec
