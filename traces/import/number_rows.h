// JSON that is arrays of numbers and nothing else, row by row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "traces/import/text_input.h"

namespace shardscope {

/// The numbers of one innermost array.
struct NumberRow {
  int depth = 0;                          ///< of arrays around the numbers: 1 for [1, 2]
  std::span<const std::int64_t> numbers;  ///< fractions cut off
  bool is_damaged = false;                ///< something in it is no number that 64 bits hold
};

/// How a text ended.
struct NumberRowsEnd {
  std::int64_t text_bytes = 0;
  std::string problem;  ///< "cut off after 17 bytes"; empty: nothing was wrong
};

/// Calls `visit` for every array that holds no other, in the order of the text. What is neither
/// bracket, comma nor number damages the row that it stands in. Of a row only the first
/// `max_numbers` are kept, and it counts as damaged beyond them.
NumberRowsEnd for_each_number_row(TextInput& input, std::size_t max_numbers,
                                  const std::function<void(const NumberRow&)>& visit);

}  // namespace shardscope
