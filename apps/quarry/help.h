// `quarry help options`: the option table for readers.
#pragma once

#include <string>

namespace quarry::apps {

// Every row of the option table, by scope, for a terminal.
std::string options_text();
// The same as Markdown, of which scripts/options_page makes docs/options.md.
std::string options_markdown();

}  // namespace quarry::apps
