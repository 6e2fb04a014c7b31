// Opens the internals to the sources of the library and of its tests, which then need no detail:: before them. Never
// included by a header that is installed (docs/adr/0024-internals-in-detail.md).
#pragma once

namespace quarry::local {
namespace detail {}
using namespace detail;
}  // namespace quarry::local

namespace quarry {
namespace detail {}
using namespace detail;
}  // namespace quarry
