// The emulated device's decoder of streams: the host's, queued.
#pragma once

#include "quarry/local/device/stream_decoding.h"

namespace quarry::local {

StreamDecoder& emulated_stream_decoder();

}  // namespace quarry::local
