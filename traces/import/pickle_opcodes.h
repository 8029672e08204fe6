// The opcodes of Python's pickles: their names, what follows them, and what they do.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shardscope {

enum class PickleStep : std::uint8_t {
  unknown,
  refused,  ///< looks up, builds or calls something, or is not written by protocols 2 to 5
  ignored,
  protocol,
  stop,
  mark,
  pop,
  pop_mark,
  none,
  boolean,
  integer,
  long_integer,
  real,
  text,
  bytes,
  new_list,
  new_tuple,
  new_dict,
  last_tuple,  ///< of the last 1 to 3 values
  marked_tuple,
  marked_list,
  marked_dict,
  append,
  set_item,
  get,
  put,
  memoize,
  // What these would do is noted as data where objects are kept, else they are refused:
  global,         ///< a class by two lines
  stack_global,   ///< a class by two texts
  call,           ///< of a class with arguments
  build,          ///< a state for an object
  persistent_id,  ///< of something outside of the pickle
};

struct PickleOpcode {
  std::string_view name;
  PickleStep step = PickleStep::unknown;
  std::uint8_t width = 0;   ///< bytes of the number that follows
  bool is_counted = false;  ///< that number is a length, and so many bytes follow it
  std::uint8_t count = 0;   ///< values taken; 0 for append and set_item: all since the mark
};

/// By code. Source: CPython 3.11, Lib/pickletools.py.
const std::array<PickleOpcode, 256>& pickle_opcodes();

}  // namespace shardscope
