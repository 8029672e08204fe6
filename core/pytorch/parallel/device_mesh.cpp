#include "core/pytorch/parallel/device_mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace shardscope::eager::parallel {
namespace {

std::vector<int> sizes_of(const std::vector<MeshAxis>& axes) {
  std::vector<int> sizes;
  for (const MeshAxis& axis : axes) sizes.push_back(axis.size);
  return sizes;
}

void check(const std::vector<MeshAxis>& axes, int world) {
  int product = 1;
  for (const MeshAxis& axis : axes) product *= axis.size;
  if (product == world) return;
  throw Error(
      {.where = "mesh",
       .what = fmt::format("its axes multiply to {} ranks of a world of {}", product, world),
       .way_out = "give axes whose product is the world"});
}

}  // namespace

int size_of_axis(const std::vector<MeshAxis>& axes, std::string_view name) {
  const auto found = std::ranges::find(axes, name, &MeshAxis::name);
  return found == axes.end() ? 1 : found->size;
}

DeviceMesh::DeviceMesh(ProcessGroups& groups, std::vector<MeshAxis> axes)
    : all_(groups), axes_(std::move(axes)) {
  check(axes_, groups.world().size());
  groups_ = groups.mesh(sizes_of(axes_));
}

std::size_t DeviceMesh::place_of(std::string_view axis) const {
  const auto at = std::find_if(axes_.begin(), axes_.end(),
                               [&](const MeshAxis& known) { return known.name == axis; });
  return static_cast<std::size_t>(at - axes_.begin());
}

bool DeviceMesh::has(std::string_view axis) const { return place_of(axis) < axes_.size(); }

int DeviceMesh::size(std::string_view axis) const { return size_of_axis(axes_, axis); }

const ProcessGroup& DeviceMesh::group(std::string_view axis) const {
  if (!has(axis))
    throw Error({.where = "mesh", .what = fmt::format("it has no axis {}", axis), .way_out = {}});
  return *groups_[place_of(axis)];
}

int DeviceMesh::stride_after(std::size_t place) const {
  int stride = 1;
  for (std::size_t i = place + 1; i < axes_.size(); ++i) stride *= axes_[i].size;
  return stride;
}

const ProcessGroup& DeviceMesh::flatten(std::string_view outer, std::string_view inner) {
  const int stride = stride_after(place_of(inner));
  int count = 1;
  for (std::size_t i = place_of(outer); i <= place_of(inner); ++i) count *= axes_[i].size;
  const int place = all_.rank() / stride % count;
  if (count == all_.world().size()) return all_.world();
  return all_.add(
      Ranks::spaced(all_.rank() - place * stride, stride, static_cast<std::size_t>(count)));
}

}  // namespace shardscope::eager::parallel
