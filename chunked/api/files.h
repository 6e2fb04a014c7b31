// Files of any format that quarry has, by NumPy's names; store() of array.h writes several arrays, or with options.
#pragma once

#include <string>

#include "quarry/chunked/api/array.h"

namespace quarry {

// A lazy array over an object of a file: `/x` of an HDF5 or .npz file, the array of a .npy file, the table or a column
// (`/close`) of a CSV file. What the file holds says its format, else its name. Shape and dtype are the file's.
// Collective: rank 0 reads what there is to know. Throws as io::Dataset::open.
Array load(const std::string& file, const std::string& object = "/");

// Computes the array and writes it in the format of the file's name: .npy and .csv files are replaced by it; in .npz
// and HDF5 files it becomes `/data`. Collective, blocking. Throws InvalidArgument where the format cannot hold it,
// IoError.
void save(const std::string& file, const Array& array);

}  // namespace quarry
