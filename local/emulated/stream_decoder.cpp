#include "quarry/local/emulated/stream_decoder.h"

namespace quarry::local {
namespace {

class EmulatedStreamDecoder final : public StreamDecoder {
 public:
  void decode(StreamFormat /*format*/, const EncodedStream* streams, int64_t count, StreamStatus* statuses,
              OnHost on_host, detail::DeviceStream& stream) override {
    stream.host_callback([streams, count, statuses, on_host] {
      for (int64_t i = 0; i < count; ++i) statuses[i] = on_host(streams[i]);
    });
  }
};

}  // namespace

StreamDecoder& emulated_stream_decoder() {
  static EmulatedStreamDecoder decoder;
  return decoder;
}

}  // namespace quarry::local
