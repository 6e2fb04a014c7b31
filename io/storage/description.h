// Descriptions of jobs (io/saved_job.h) as bytes.
#pragma once

#include "quarry/io/saved_job.h"
#include "quarry/io/storage/bytes.h"

namespace quarry::io {

void put_description(const JobDescription& description, ByteWriter& out);
JobDescription get_description(ByteReader& in);

}  // namespace quarry::io
