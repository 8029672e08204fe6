// Any bytes as a table: either an Error, or rows whose fields can all be asked for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/format/csv_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using shardscope::CsvTable;
  try {
    const CsvTable table = CsvTable::parse({reinterpret_cast<const char*>(data), size}, "fuzz.csv");
    std::size_t bytes = 0;
    for (std::size_t row = 0; row < table.rows(); ++row)
      for (std::size_t column = 0; column < table.columns().size(); ++column)
        bytes += table.field(row, column).size();
    if (bytes > size) std::abort();
  } catch (const shardscope::Error&) {
  }
  return 0;
}
