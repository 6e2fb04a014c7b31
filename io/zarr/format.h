// Zarr arrays and groups, versions 2 and 3: folders with a file for each chunk. They are read, not written.
#pragma once

#include "quarry/io/format.h"

namespace quarry::io::zarr {

const Format& format();

}  // namespace quarry::io::zarr
