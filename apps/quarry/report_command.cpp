// quarry report TRACE: what a file of --trace says, as a few lines and as the page of --report.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/chunked/report/report.h"

namespace quarry::apps {

namespace {

struct ReportOptions {
  std::string trace, output;
};

int run_report(const ReportOptions& options) {
  if (launcher_rank() != 0) return 0;
  const report::RunReport found = report::read_trace(options.trace);
  fmt::print("{}", report::summary(found));
  if (!options.output.empty()) report::write_report(options.output, found);
  return 0;
}

}  // namespace

RunCommand add_report_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand("report", "Say what a file of --trace holds; write its page");
  const auto options = std::make_shared<ReportOptions>();
  command->add_option("trace", options->trace, "A file that --trace wrote")->type_name("TRACE")->required();
  command->add_option("-o,--output", options->output, "Where the HTML page is written")->type_name("FILE");
  return [options](int& /*argc*/, char**& /*argv*/) { return run_report(*options); };
}

}  // namespace quarry::apps
