// Recordings of a choice on several meshes: where the meshes only change sizes, two are recorded
// and the others follow from these.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/planner/choice.h"

namespace shardscope::planner {

/// A recording of a job in which groups of `ranks` neighbours share something.
struct SizedRecording {
  int ranks = 1;
  std::shared_ptr<const Schedule> schedule;
};

/// The recording with groups of `ranks`, from those of two other sizes. A number of bytes or
/// elements is a + b / ranks, the times that something is repeated are a + b x ranks. None where
/// the two differ in anything else, or where a number would not be whole.
std::optional<Schedule> schedule_between(const SizedRecording& one, const SizedRecording& other,
                                         int ranks);

/// Whether a mesh changes nothing but sizes in the program of this choice: DeepSpeed's second copy
/// of the parameters (zero_hpz_partition_size), where each rank of the world has an equal part of
/// every parameter. Then nothing is padded, a part of the second copy has elements / ranks, and no
/// branch of partition_parameters.py depends on how many they are.
bool mesh_only_sizes(const Choice& choice, const Model& model);

/// Keeps the recordings of the families that were used last. Safe to use from several threads.
class MeshRecordings {
 public:
  /// The recording of a choice that `mesh_only_sizes`. `family`: equal for choices that differ in
  /// their mesh alone, recorded in the same way. Throws as `record` does.
  std::shared_ptr<const Schedule> of(const std::string& family, int ranks,
                                     const std::function<Schedule()>& record);

 private:
  struct Family {
    std::string name;
    std::vector<SizedRecording> known = {};  ///< two at most
    bool is_alike = true;                    ///< as far as is known
  };
  Family& family_of(const std::string& name);
  void keep_to_limit();

  std::mutex mutex_;
  std::list<Family> families_;  ///< the last used first
};

}  // namespace shardscope::planner
