// The units that the annotations of FSDP and DDP show in an imported trace.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/imported_trace.h"
#include "traces/match/host_tree.h"

namespace shardscope {

/// Whose annotations there are.
enum class ProfiledRuntime : std::uint8_t { none, ddp, fsdp1, fsdp2 };
std::string_view name_of(ProfiledRuntime runtime);

/// One unit as it shows. FSDP2 names its units; of FSDP1 they follow from how the forwards of a
/// step are nested, in the order in which they begin.
struct ProfiledUnit {
  std::string name;  ///< FSDP2: of the module, "" is the root; FSDP1: ""
  int depth = 0;     ///< FSDP1: units around it
  bool operator==(const ProfiledUnit&) const = default;
};

class ProfiledUnits {
 public:
  ProfiledUnits(const ImportedTrace& trace, const HostTree& tree);

  ProfiledRuntime runtime() const { return runtime_; }
  /// FSDP1: in the order of the first whole forward; FSDP2: in that of first appearance.
  const std::vector<ProfiledUnit>& units() const { return units_; }
  /// The unit that an event of a host's thread works for, where an annotation around it says so:
  /// index into units().
  std::optional<std::size_t> unit_of(std::uint32_t event) const;

 private:
  void read_fsdp1();
  void read_fsdp2();
  bool has(std::string_view prefix) const;
  std::optional<std::size_t> index_of(const std::string& name) const;

  const ImportedTrace* trace_;
  const HostTree* tree_;
  ProfiledRuntime runtime_ = ProfiledRuntime::none;
  std::vector<ProfiledUnit> units_;
  std::map<std::uint32_t, std::size_t> unit_of_forward_;  ///< FSDP1: by event
};

/// Of an annotation of FSDP2, "FSDP::all_gather (layers.0)", the unit; "" is the root. None of
/// other names, and of those that are no unit's ("FSDP::backward_prefetch for layers.0").
std::optional<std::string> fsdp2_unit_of(std::string_view annotation);

/// The name that a module has without the wrappers around it and its parents, or of several that
/// are one unit: "h.0._checkpoint_wrapped_module, h.1" is "h.0, h.1".
std::string without_wrappers(std::string_view names);

}  // namespace shardscope
