// Recordings of the real libraries, run through the product's own code: what a kind of recording
// has to provide.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardscope::recordings {

/// What came of one case.
struct Outcome {
  /// The first difference in words ("parameters[3].shape: expected [24, 72], got [72, 24]"); empty:
  /// the case passes.
  std::string difference;
  /// Of a case with a tolerance: its largest error as a share of what is allowed (1 is the limit);
  /// else absent.
  std::optional<double> worst_share;
  /// Of a case with a tolerance: that error in words ("loss 3.1e-8 relative at step 12"); may be
  /// empty.
  std::string worst;
};

/// The options of a run that a kind must respect.
struct Options {
  std::vector<std::string> except;  ///< fields not to be compared
  bool leaves_out(const std::string& field) const;
};

/// One kind of recording (a folder of ../shared/data/pytorch, for instance). `cases` and `check`
/// may throw Error; what `check` throws counts as the case's difference.
struct Kind {
  std::string name;                 ///< "parameters"
  std::vector<std::string> fields;  ///< what --except may name
  /// Names of the cases in `folder`, in a fixed order.
  std::vector<std::string> (*cases)(const std::filesystem::path& folder);
  Outcome (*check)(const std::filesystem::path& folder, const std::string& name,
                   const Options& options);
};

/// The kinds known, one file each; listed in recordings.cpp.
const std::vector<Kind>& kinds();

Kind allocator_kind();
Kind collectives_kind();
Kind configs_kind();
Kind finetune_kind();
Kind flat_parameters_kind();
Kind kineto_kind();
Kind memory_kind();
Kind operators_kind();
Kind ops_kind();
Kind parallel_kind();
Kind parameters_kind();
Kind parameters_v4_kind();
Kind pipeline_kind();
Kind snapshots_kind();
Kind traces_kind();
Kind training_kind();

/// Shell pattern (*, ?, [a-z]) over the whole text.
bool matches(const std::string& pattern, const std::string& text);

}  // namespace shardscope::recordings
