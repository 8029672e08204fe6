// The run folder that `import` leaves: made whole, or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "traces/run_folder.h"

namespace shardscope {

/// A hidden folder beside the run folder takes what is written until all of it is there; it is gone
/// at the end, with what is in it unless `publish` was called.
class ImportTarget {
 public:
  /// `into` must not be there yet, be empty, or be what an earlier import left and no more, and
  /// none of `sources` may lie in it; else Error, and nothing was touched.
  ImportTarget(const std::filesystem::path& into, const std::vector<std::string>& sources);
  ~ImportTarget();
  ImportTarget(const ImportTarget&) = delete;
  ImportTarget& operator=(const ImportTarget&) = delete;

  /// Where files are to be written, made by the first call.
  const RunFolder& files();
  /// Puts them in the place of the run folder, of which nothing stays.
  void publish();

 private:
  std::filesystem::path into_, staging_;
  RunFolder staged_;
};

}  // namespace shardscope
