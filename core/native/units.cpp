#include "core/native/units.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace shardscope {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

bool inside(const std::string& name, const std::string& module) {
  return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
}

std::string class_of(const Model& model, const std::string& module) {
  for (const Module& m : model.modules)
    if (m.name == module) return m.class_name;
  return {};
}

/// Block of each parameter; -1 for those of the root.
std::vector<int> blocks_of_parameters(const Model& model) {
  std::vector<int> block_of(model.parameters.size(), -1);
  const auto& blocks = model.decoder->blocks;
  for (std::size_t p = 0; p < model.parameters.size(); ++p)
    for (std::size_t b = 0; b < blocks.size() && block_of[p] < 0; ++b)
      if (inside(model.parameters[p].name, blocks[b].module)) block_of[p] = static_cast<int>(b);
  return block_of;
}

std::vector<std::int64_t> elements_of_blocks(const Model& model, const std::vector<int>& block_of) {
  std::vector<std::int64_t> elements(model.decoder->blocks.size(), 0);
  for (std::size_t p = 0; p < block_of.size(); ++p)
    if (block_of[p] >= 0)
      elements[static_cast<std::size_t>(block_of[p])] += model.parameters[p].elements();
  return elements;
}

void check_blocks(const Wrap& wrap, std::size_t count) {
  for (const std::vector<int>& unit : wrap.blocks)
    if (static_cast<std::size_t>(unit.back()) >= count)
      throw Error({.where = "wrap " + text_of(wrap),
                   .what = "the model has no block " + std::to_string(unit.back()),
                   .way_out = "give blocks from 0 to " + std::to_string(count - 1)});
}

/// The blocks of each unit besides the root, units by their first block.
std::vector<std::vector<int>> blocks_of_units(const Wrap& wrap,
                                              const std::vector<std::int64_t>& elements) {
  if (wrap.policy == WrapPolicy::by_hand) {
    check_blocks(wrap, elements.size());
    std::vector<std::vector<int>> units = wrap.blocks;
    std::ranges::sort(units);
    return units;
  }
  std::vector<std::vector<int>> units;
  if (wrap.policy == WrapPolicy::none) return units;
  const std::int64_t enough = wrap.policy == WrapPolicy::size ? wrap.min_elements : 0;
  std::int64_t sum = 0;
  bool open = false;
  for (int b = 0; b < static_cast<int>(elements.size()); ++b) {
    if (!open) units.emplace_back(), sum = 0;
    units.back().push_back(b);
    sum += elements[static_cast<std::size_t>(b)];
    open = sum < enough;
  }
  return units;
}

/// "transformer.h.0", "transformer.h.0..transformer.h.2" of neighbours, else
/// "transformer.h.0+transformer.h.3".
std::string name_of_blocks(const Model& model, const std::vector<int>& blocks) {
  const auto module = [&](int block) {
    return model.decoder->blocks[static_cast<std::size_t>(block)].module;
  };
  const int first = blocks.front(), last = blocks.back();
  if (first == last) return module(first);
  if (static_cast<std::size_t>(last - first) + 1 == blocks.size())
    return module(first) + ".." + module(last);
  std::string name;
  for (const int block : blocks) name += (name.empty() ? "" : "+") + module(block);
  return name;
}

/// Where the unit has trained parameters and frozen ones, these become a unit of their own.
void set_frozen_apart(UnitId id, const Model& model, UnitPlan& plan) {
  Unit& unit = plan.units[id.value];
  const auto frozen = std::ranges::stable_partition(unit.slots, [&](const FlatSlot& slot) {
    return model.parameters[slot.parameter.value].trainable;
  });
  if (frozen.empty() || frozen.size() == unit.slots.size()) return;
  Unit apart{.name = (unit.name.empty() ? "root" : unit.name) + " (frozen)",
             .class_name = unit.class_name,
             .slots = {frozen.begin(), frozen.end()}};
  unit.slots.erase(frozen.begin(), frozen.end());
  plan.frozen_beside[id.value] = UnitId::of(plan.units.size());
  plan.frozen_beside.emplace_back();
  plan.units.push_back(std::move(apart));
}

void lay_out(Unit& unit, const Model& model, const Strategy& strategy) {
  std::int64_t offset = 0;
  for (FlatSlot& slot : unit.slots) {
    slot.elements = model.parameters[slot.parameter.value].elements();
    slot.offset = offset;
    unit.elements += slot.elements;
    offset = round_up(offset + slot.elements, piece_elements);
  }
  const std::int64_t ranks = strategy.mesh.replicate * strategy.mesh.shard;
  unit.unpadded_elements = offset;
  unit.padded_elements = round_up(offset, piece_elements * ranks);
  unit.shard_elements = unit.padded_elements / strategy.mesh.shard;
  for (int shard = 0; shard < strategy.mesh.shard; ++shard) {
    const std::int64_t end = (shard + 1) * unit.shard_elements;
    unit.padding_elements_by_rank.push_back(
        std::clamp<std::int64_t>(end - offset, 0, unit.shard_elements));
  }
}

}  // namespace

UnitPlan plan_units(const Model& model, const Strategy& strategy,
                    const std::vector<bool>& has_parameter) {
  if (!model.decoder) {
    throw Error({.where = model.class_name,
                 .what = "the native runtime cannot run this model: " + model.why_no_decoder,
                 .way_out = "give a GPT2LMHeadModel or LlamaForCausalLM"});
  }
  const auto& blocks = model.decoder->blocks;
  const std::vector<int> block_of = blocks_of_parameters(model);
  const auto units = blocks_of_units(strategy.wrap, elements_of_blocks(model, block_of));

  UnitPlan plan;
  plan.unit_of_block.assign(blocks.size(), UnitId::of(0));
  plan.units.push_back({.class_name = class_of(model, "")});
  for (const std::vector<int>& unit : units) {
    plan.units.push_back(
        {.name = name_of_blocks(model, unit),
         .class_name = class_of(model, blocks[static_cast<std::size_t>(unit.front())].module)});
    for (const int block : unit)
      plan.unit_of_block[static_cast<std::size_t>(block)] = UnitId::of(plan.units.size() - 1);
  }
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    if (!has_parameter.empty() && !has_parameter[p]) continue;
    const UnitId unit =
        block_of[p] < 0 ? UnitId::of(0) : plan.unit_of_block[static_cast<std::size_t>(block_of[p])];
    plan.units[unit.value].slots.push_back({ParameterId::of(p)});
  }
  plan.frozen_beside.resize(plan.units.size());
  for (std::size_t u = 0, wrapped = plan.units.size(); u < wrapped; ++u)
    set_frozen_apart(UnitId::of(u), model, plan);
  plan.unit_of_parameter.resize(model.parameters.size());
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    for (const FlatSlot& slot : plan.units[u].slots)
      plan.unit_of_parameter[slot.parameter.value] = UnitId::of(u);
    lay_out(plan.units[u], model, strategy);
  }
  return plan;
}

ShardPosition shard_position(const Strategy& strategy, int rank) {
  return {rank % strategy.mesh.shard, strategy.mesh.shard};
}

std::vector<Slice> slices_in(const Model& model, const Unit& unit, std::int64_t first,
                             std::int64_t elements, std::int64_t first_piece) {
  std::vector<Slice> slices;
  for (const FlatSlot& slot : unit.slots) {
    const Parameter& parameter = model.parameters[slot.parameter.value];
    const std::int64_t begin = std::max(slot.offset, first);
    const std::int64_t end = std::min(slot.offset + slot.elements, first + elements);
    if (begin >= end) continue;
    slices.push_back({.parameter = slot.parameter,
                      .offset = begin - first,
                      .elements = end - begin,
                      .parameter_offset = begin - slot.offset,
                      .piece = first_piece + (begin - first) / piece_elements,
                      .decay = parameter.shape.size() >= 2});
  }
  return slices;
}

}  // namespace shardscope
