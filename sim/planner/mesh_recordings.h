// Recordings of a choice on several meshes: where the meshes only change sizes, two are recorded
// and the others follow from these.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/planner/choice.h"

namespace shardscope::planner {

/// Rows of host programs that a store of recordings keeps, each with what it points at some 60
/// bytes: a recording of 8 billion parameters has 170,000.
inline constexpr std::size_t most_kept_rows = 1'600'000;

/// A recording of a job in which groups of `ranks` neighbours share something.
struct SizedRecording {
  int ranks = 1;
  std::shared_ptr<const Schedule> schedule;
};

/// The recording with groups of `ranks`, from those of a smaller and a larger size. A number of
/// bytes or elements is a + b / ranks, the times that something is repeated are a + b x ranks.
/// Shapes of operators, which are for readers alone, are left out. None where the two differ in
/// anything else, or where a number would not be whole.
std::optional<Schedule> schedule_between(const SizedRecording& smaller,
                                         const SizedRecording& larger, int ranks);

/// Ranks of the largest group into which so many ranks divide, less than all of them. 1 where none
/// is.
int largest_group(int world);

/// The smallest group from which on a mesh changes nothing but sizes in the program of this choice,
/// up to the largest group: DeepSpeed's second copy of the parameters (zero_hpz_partition_size).
/// A part of it has padded elements / ranks. Parts that are whole grow with the ranks, or are all
/// but one, and so a number of them is a + b x ranks. None where no group has that. A branch that
/// compares a size with a limit goes in between as it does at both ends, where it goes the same
/// way. Example: 768 elements over 1,024 ranks: a part of 4 ranks has 256, and 3 are whole; one of
/// 2 ranks has 512, and one is whole, beside half of one. So 4.
std::optional<int> smallest_alike_group(const Choice& choice, const Model& model);

/// Whether the choice's own mesh is one of these.
bool mesh_only_sizes(const Choice& choice, const Model& model);

/// Keeps the recordings of the families that were used last. Safe to use from several threads.
class MeshRecordings {
 public:
  /// A choice that `mesh_only_sizes`, without its mesh.
  struct Family {
    std::string name;               ///< equal for choices that differ in their mesh alone
    int smallest = 1, largest = 1;  ///< groups that differ in nothing but sizes
    std::function<Schedule(int ranks)> record;
  };
  /// The recording of the family with groups of `ranks`. Throws as its `record` does.
  std::shared_ptr<const Schedule> of(const Family& family, int ranks);

 private:
  struct Known {
    std::string name;
    std::vector<SizedRecording> recordings = {};  ///< by size
    bool is_alike = true;                         ///< as far as is known
  };
  /// The sizes next to one that is neither recorded nor being recorded; none: there is no such.
  struct Neighbours {
    std::optional<int> smaller, larger;
    bool are_alike = true;
  };
  /// Recorded once, however many threads ask for it at a time.
  SizedRecording recorded(const Family& family, int ranks);
  SizedRecording recorded_by_other(const std::shared_future<SizedRecording>& other,
                                   const Family& family, int ranks);
  std::optional<SizedRecording> kept(const std::string& name, int ranks);
  Neighbours neighbours_of(const std::string& name, int ranks);
  void keep(const std::string& name, const SizedRecording& recording);
  void keep_not_alike(const std::string& name);
  Known& latest(const std::string& name);
  void keep_to_limit();

  std::mutex mutex_;
  std::list<Known> families_;  ///< the last used first
  /// That a thread is making, by family and size.
  std::map<std::pair<std::string, int>, std::shared_future<SizedRecording>> in_work_;
};

}  // namespace shardscope::planner
