// The keys of a recipe: each is read, known to have no bearing on a step, known and not modelled,
// or unknown.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/config/values/config_value.h"
#include "core/config/values/finding_list.h"

namespace shardscope::recipes {

/// A key that changes memory or time of a step in a way that is not modelled.
struct LeftOut {
  std::string_view key;
  std::string_view effect;  ///< "Liger's kernels need less memory than is predicted"
};

/// What a tool does with a key that it does not have.
enum class UnknownKeys : std::uint8_t { ignored, refused };

class Keys {
 public:
  /// `dict` must outlive this; anything but a dict has no keys. `section` is its key path.
  Keys(const ConfigValue& dict, std::string file, std::string section = {});

  /// Whether the key stands there with a value other than None.
  bool has(std::string_view key) const;
  /// The value, or None. The key counts as read.
  ConfigValue take(std::string_view key);
  /// The value of the first of the names that is there.
  ConfigValue take(std::initializer_list<std::string_view> names);
  // Each throws Error with file, line and key where another kind stands.
  bool flag(std::string_view key, bool otherwise);
  std::int64_t count(std::string_view key, std::int64_t otherwise);  ///< 1 to 2^31 - 1
  double number(std::string_view key, double otherwise);
  std::string text(std::string_view key, std::string_view otherwise);
  /// A list of texts, or one text with commas.
  std::vector<std::string> names(std::string_view key);

  Error error(std::string_view key, std::string what, std::string way_out) const;
  void warn(std::string_view key, std::string rule, std::string message, std::string mend);

  /// Says something of every key that was not read: `left_out` where it is set; nothing of those
  /// in `no_bearing`; that `tool` knows no such key, where it is none of `others` either.
  void finish(std::span<const LeftOut> left_out, std::span<const std::string_view> no_bearing,
              std::span<const std::string_view> others, std::string_view tool,
              UnknownKeys unknown = UnknownKeys::ignored);
  std::vector<Finding> take_findings() { return findings_.take(); }

 private:
  std::string path(std::string_view key) const;
  int line(std::string_view key) const;

  const ConfigValue& dict_;
  std::string file_, section_;
  std::set<std::string, std::less<>> read_;
  FindingList findings_;
};

/// Findings of two readers of one file, in the order of its lines.
std::vector<Finding> by_line(std::vector<Finding> findings, std::span<const Finding> more);

/// None, false, 0, "", an empty list or dict: what leaves a switch off.
bool is_off(const ConfigValue& value);

/// LoraConfig's arguments, for a Recipe.
struct LoraArguments {
  std::int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  bool all_linear = false;
  bool lists_linear = false;         ///< the tool finds their names itself
  std::vector<std::string> targets;  ///< empty, and not all_linear: PEFT's for the model
  std::vector<std::string> target_parameters;
  std::vector<std::string> modules_to_save;
  bool rank_stabilized = false;
  bool dora = false;
};
ConfigValue adapter_of(const LoraArguments& lora);

/// Takes the arguments that decide how the Trainer trains a step as they stand; those that it has
/// no use for stay where they are.
void take_training_arguments(Keys& keys, ConfigValue& arguments);
/// Fields of TrainingArguments, and those that transformers 5 has no longer.
std::span<const std::string_view> trainer_keys();

}  // namespace shardscope::recipes
