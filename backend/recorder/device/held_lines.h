// Lines of the log that are held back until it is known how to write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::recorder {

/// Blocks that torch's allocator gets back one after another. Which one comes first can follow from
/// addresses in the host's memory, which differ from run to run (autocast keeps its copies of
/// weights by them). No order leaves the allocator in another state, so they are written by their
/// own address.
class GivenBack {
 public:
  /// False: the line is no part of what is held, which has to be written first.
  bool take(std::string_view line);
  /// What is held, and lets go of it.
  std::string lines();

 private:
  struct Pair {
    std::string block;  ///< address, bytes and stream, with the end of the line
    bool is_complete = false;
  };
  std::string thread_;
  std::vector<Pair> pairs_;
};

/// Operators that follow each other on a thread and do nothing but make views become one line,
/// `views` and how many: slices of parameters for many ranks are most of a large model's
/// operators. An operator that autograd numbers is none of them.
class Views {
 public:
  /// False: the line is no part of what is held, which has to be written first.
  bool take(std::string_view line);
  /// What is held, and lets go of it.
  std::vector<std::string> lines();

 private:
  struct Operator {
    std::string begin;       ///< its line
    std::int64_t views = 0;  ///< made inside it
  };
  std::string thread_;
  std::int64_t views_ = 0;           ///< before the running operators
  std::vector<Operator> operators_;  ///< that run and are not written, outermost first
};

}  // namespace shardscope::recorder
