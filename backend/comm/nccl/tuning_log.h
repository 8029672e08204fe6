// What NCCL says of the algorithm and protocol that it chose for each collective.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "backend/rendezvous/environment.h"
#include "core/schedule/samples.h"

namespace shardscope {

/// Make NCCL write its choices to `file`; before it is loaded. The first rank of each group does: a
/// line for each call, while the device works on earlier ones.
Variables nccl_tuning_variables(const std::filesystem::path& file);

/// One choice.
struct NcclTuningLine {
  OperationKind kind = OperationKind::all_gather;
  Bytes bytes;  ///< of one rank for a gather or reduce-scatter, of all for the others
  CollectiveChoice choice;
  bool operator==(const NcclTuningLine&) const = default;
};

/// Reads "...NCCL INFO AllGather: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"; nothing
/// for any other line. Source: NCCL 2.28 src/enqueue.cc, scheduleCollTasksToPlan.
std::optional<NcclTuningLine> parse_nccl_tuning(std::string_view line);

/// The file as it grows.
class NcclTuningLog {
 public:
  /// `file` need not be there: then nothing was chosen.
  explicit NcclTuningLog(std::filesystem::path file) : path_(std::move(file)) {}

  /// The last choice for `kind` and as many bytes of `ranks` ranks (as Operation::bytes) since the
  /// last call; empty where there was none.
  CollectiveChoice last_of(OperationKind kind, int ranks, Bytes bytes);

 private:
  std::filesystem::path path_;
  std::streamoff read_ = 0;  ///< bytes of whole lines
};

}  // namespace shardscope
