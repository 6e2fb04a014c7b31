// Text files of columns (CSV, TSV) as a file format.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quarry/io/format.h"

namespace quarry::io::csv {

// The object `/` is the whole table, (rows, columns); `/close` is a column, (rows,); `/open,close` several, (rows, 2);
// options stand behind a question mark (dialect.h). The first line has the columns' names, unless all in it is numbers:
// then they are 0, 1 ... Numbers are float64 with NaN for missing ones, columns of True and False are bool, dates are
// int64 with the attribute `units`. Which a column is, its first rows say; what does not fit later is an error that
// names line and column, as lines of another number of fields are.
const Format& format();

std::shared_ptr<Dataset> open_dataset(const std::string& file, const std::string& object);
std::vector<ObjectInfo> list_objects(const std::string& file, const std::string& object);
std::shared_ptr<Dataset> dataset_of(const std::string& layout);

// Arrays of one axis are columns called as they are; those of two are columns NAME.0, NAME.1 ...; all have the same
// number of rows. NaN and masked elements are empty fields.
void prepare(OutputSpec& spec);
std::unique_ptr<OutputFile> create_output(const std::string& file, std::vector<OutputSpec> specs, bool overwrite);
std::shared_ptr<Writer> writer_of(const std::string& layout);

}  // namespace quarry::io::csv
