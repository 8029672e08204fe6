#include "core/pytorch/runtimes/deepspeed/partitioned_parameters.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::deepspeed {
namespace {

constexpr Operator cat_out_op{"aten.cat.out", OperatorKind::copy};

std::int64_t divided_up(std::int64_t elements, std::int64_t ranks) {
  return (elements + ranks - 1) / ranks;
}

Tensor whole(Session& s, const Tensor& buffer, const PartitionedParameter& p) {
  return view(s, narrow(s, buffer, 0, 0, p.elements), p.sizes);
}

}  // namespace

/// AllGatherHandle: the parameter is the buffer's beginning.
class PartitionedParameters::Single final : public GatherHandle {
 public:
  Single(PartitionedParameters& all, std::size_t index, WorkId work)
      : all_(all), indices_{index}, work_(work) {}
  const ParameterIndices& parameters() const override { return indices_; }
  void wait() override {
    for (Watcher* watcher : all_.setup_.watchers) watcher->on_gather_wait(all_.setup_.s, indices_);
    all_.setup_.s.wait_work(std::exchange(work_, {}));
    all_[indices_.front()].status = GatherStatus::available;
  }

 private:
  PartitionedParameters& all_;
  ParameterIndices indices_;
  WorkId work_;
};

/// AllGatherCoalescedHandle: every parameter is put together from the ranks' parts.
class PartitionedParameters::Coalesced final : public GatherHandle {
 public:
  Coalesced(PartitionedParameters& all, ParameterIndices indices, Tensor flat, WorkId work,
            int ranks, bool secondary)
      : all_(all),
        indices_(std::move(indices)),
        flat_(std::move(flat)),
        work_(work),
        ranks_(ranks),
        secondary_(secondary) {}
  const ParameterIndices& parameters() const override { return indices_; }
  void wait() override {
    Session& s = all_.setup_.s;
    for (Watcher* watcher : all_.setup_.watchers) watcher->on_gather_wait(s, indices_);
    if (done_) return;
    done_ = true;
    s.wait_work(work_);
    const std::int64_t part = flat_.numel() / ranks_;
    std::int64_t offset = 0;
    for (const std::size_t index : indices_) {
      PartitionedParameter& p = all_[index];
      const std::int64_t elements =
          secondary_ ? p.partition_elements * all_.world_.size() / ranks_ : p.partition_elements;
      std::vector<Stretch> parts;
      const auto add = [&](std::int64_t rank, std::int64_t length, std::int64_t ranks) {
        const auto times = static_cast<std::uint32_t>(ranks);
        s.repeat(times, [&] {
          parts.push_back({{narrow(s, flat_, 0, rank * part + offset, length)}, times});
        });
      };
      const std::int64_t whole = std::min<std::int64_t>(ranks_, p.elements / elements);
      const std::int64_t rest = whole < ranks_ ? p.elements - whole * elements : 0;
      add(0, elements, whole);
      if (rest > 0) add(whole, rest, 1);
      p.parameter.set_data(view(s, cat(s, std::move(parts)), p.sizes));
      p.status = GatherStatus::available;
      all_.setup_.record_stream(flat_, s.stream);  // for each part, which are all of it
      offset += elements;
    }
  }

 private:
  PartitionedParameters& all_;
  ParameterIndices indices_;
  Tensor flat_;
  WorkId work_;
  int ranks_;
  bool secondary_;
  bool done_ = false;
};

/// MultipleAllGatherHandles: one of each dtype.
class PartitionedParameters::Several final : public GatherHandle {
 public:
  Several(ParameterIndices indices, std::vector<std::shared_ptr<GatherHandle>> handles)
      : indices_(std::move(indices)), handles_(std::move(handles)) {}
  const ParameterIndices& parameters() const override { return indices_; }
  void wait() override {
    for (const std::shared_ptr<GatherHandle>& handle : handles_) handle->wait();
  }

 private:
  ParameterIndices indices_;
  std::vector<std::shared_ptr<GatherHandle>> handles_;
};

/// NoGatherHandle and NoGatherCoalescedHandle: this rank has everything.
class PartitionedParameters::Alone final : public GatherHandle {
 public:
  Alone(PartitionedParameters& all, ParameterIndices indices)
      : all_(all), indices_(std::move(indices)) {}
  const ParameterIndices& parameters() const override { return indices_; }
  void wait() override {
    if (std::exchange(done_, true)) return;
    all_.setup_.synchronize();
    for (const std::size_t index : indices_) all_[index].status = GatherStatus::available;
  }

 private:
  PartitionedParameters& all_;
  ParameterIndices indices_;
  bool done_ = false;
};

PartitionedParameters::PartitionedParameters(const Setup& setup, const ProcessGroup& world,
                                             const ProcessGroup* secondary)
    : setup_(setup), world_(world), secondary_group_(secondary) {
  Session& s = setup_.s;
  const NoGrad no_grad(s);
  for (const NamedParameter& named : setup_.parameters) {
    const Tensor& parameter = named.tensor();
    if (parameter.device() != s.settings.device)
      parameter.set_data(to(s, parameter, {.device = s.settings.device}));
    PartitionedParameter p{.name = named.name,
                           .parameter = parameter,
                           .sizes = parameter.sizes(),
                           .elements = parameter.numel(),
                           .partition_elements = divided_up(parameter.numel(), world_.size()),
                           .persistent = false,
                           .status = GatherStatus::available,
                           .partition = {},
                           .secondary = {},
                           .active_modules = {}};
    broadcast_bytes(s, world_, parameter, 0);
    all_.push_back(std::move(p));
    partition(all_.size() - 1);
  }
}

std::shared_ptr<GatherHandle> PartitionedParameters::gather_one(std::size_t index) {
  Session& s = setup_.s;
  PartitionedParameter& p = all_[index];
  const ProcessGroup& group = p.secondary ? *secondary_group_ : world_;
  const Tensor& source = p.secondary ? p.secondary : p.partition;
  const Tensor buffer = empty(s, {source.numel() * group.size()}, like(p.parameter));
  const WorkId work =
      all_gather_single(s, group, buffer, to(s, source, {.device = s.settings.device}), true);
  p.parameter.set_data(whole(s, buffer, p));
  return std::make_shared<Single>(*this, index, work);
}

/// _no_gather_coalesced.
std::shared_ptr<GatherHandle> PartitionedParameters::take_own(ParameterIndices indices) {
  Session& s = setup_.s;
  for (const std::size_t index : indices) {
    PartitionedParameter& p = all_[index];
    const Tensor own = to(s, p.partition, {.device = s.settings.device, .non_blocking = true});
    p.parameter.set_data(view(s, own, p.sizes));
  }
  return std::make_shared<Alone>(*this, std::move(indices));
}

std::shared_ptr<GatherHandle> PartitionedParameters::gather(ParameterIndices indices) {
  Session& s = setup_.s;
  const NoGrad no_grad(s);
  std::sort(indices.begin(), indices.end());
  for (const std::size_t index : indices) all_[index].status = GatherStatus::inflight;
  if (world_.size() == 1) return take_own(std::move(indices));
  if (indices.size() == 1) return gather_one(indices.front());
  // _all_gather_coalesced: dtypes by their names.
  std::map<std::string_view, ParameterIndices> alike;
  for (const std::size_t index : indices)
    alike[name_of(all_[index].partition.dtype())].push_back(index);
  if (alike.size() == 1) return gather_alike(std::move(indices));
  std::vector<std::shared_ptr<GatherHandle>> handles;
  for (auto& [name, group] : alike) handles.push_back(gather_alike(std::move(group)));
  return std::make_shared<Several>(std::move(indices), std::move(handles));
}

/// _all_gather_dtype.
std::shared_ptr<GatherHandle> PartitionedParameters::gather_alike(ParameterIndices indices) {
  Session& s = setup_.s;
  const bool secondary = static_cast<bool>(all_[indices.front()].secondary);
  const ProcessGroup& group = secondary ? *secondary_group_ : world_;
  const auto source = [&](std::size_t index) -> const Tensor& {
    return secondary ? all_[index].secondary : all_[index].partition;
  };
  std::int64_t elements = 0;
  for (const std::size_t index : indices) elements += source(index).numel();
  const Tensor flat =
      empty(s, {elements * group.size()}, {source(indices.front()).dtype(), s.settings.device});
  Tensors own;
  for (const std::size_t index : indices)
    own.push_back(to(s, source(index), {.device = s.settings.device}));
  const Tensor part = narrow(s, flat, 0, elements * group.rank, elements);
  dispatched(s, cat_out_op, own, Tensors{part});
  const WorkId work = all_gather_single(s, group, flat, part, true);
  return std::make_shared<Coalesced>(*this, std::move(indices), flat, work, group.size(),
                                     secondary);
}

void PartitionedParameters::gather_now(const ParameterIndices& indices) {
  Session& s = setup_.s;
  const NoGrad no_grad(s);
  ParameterIndices missing;
  for (const std::size_t index : indices)
    if (all_[index].status == GatherStatus::not_available) missing.push_back(index);
  const bool several = missing.size() > 1;
  if (several && world_.size() == 1) return take_own(std::move(missing))->wait();
  Tensors buffers;
  for (const std::size_t index : missing)
    buffers.push_back(empty(s, {all_[index].partition_elements * world_.size()},
                            {all_[index].parameter.dtype(), s.settings.device}));
  std::vector<WorkId> works;
  for (std::size_t i = 0; i < missing.size(); ++i)
    works.push_back(all_gather_single(
        s, world_, buffers[i], to(s, all_[missing[i]].partition, {.device = s.settings.device}),
        several));
  for (const WorkId work : works) s.wait_work(work);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    PartitionedParameter& p = all_[missing[i]];
    p.parameter.set_data(whole(s, buffers[i], p));
    p.status = GatherStatus::available;
  }
  if (several) setup_.synchronize();
}

void PartitionedParameters::partition(std::size_t index) {
  const NoGrad no_grad(setup_.s);
  PartitionedParameter& p = all_[index];
  if (p.status != GatherStatus::available) return;
  if (secondary_group_ && !p.secondary) secondary_partition(p);
  if (!p.partition) first_partition(p);
  free(p);
}

void PartitionedParameters::first_partition(PartitionedParameter& p) {
  Session& s = setup_.s;
  const bool offloaded = setup_.settings.offload_param.device != OffloadDevice::none;
  p.partition = empty(s, {p.partition_elements},
                      {.dtype = p.parameter.dtype(),
                       .device = offloaded && !p.persistent ? Device::cpu : s.settings.device});
  const std::int64_t start = p.partition_elements * world_.rank;
  const std::int64_t elements = std::min(p.partition_elements, p.elements - start);
  if (elements <= 0) return;
  const Tensor flat = view(s, contiguous(s, detach(s, p.parameter)), {-1});
  const bool full = elements == p.partition_elements;
  copy_(s, full ? p.partition : narrow(s, p.partition, 0, 0, elements),
        narrow(s, flat, 0, start, elements));
}

void PartitionedParameters::secondary_partition(PartitionedParameter& p) {
  Session& s = setup_.s;
  const std::int64_t padded = p.partition_elements * world_.size();
  const std::int64_t elements = padded / secondary_group_->size();
  p.secondary = empty(s, {elements}, like(p.parameter));
  const std::int64_t start = elements * secondary_group_->rank;
  const Tensor flat = view(s, contiguous(s, detach(s, p.parameter)), {-1});
  const std::int64_t real = std::clamp(p.elements - start, std::int64_t{0}, elements);
  zero_(s, p.secondary);
  if (real > 0) copy_(s, narrow(s, p.secondary, 0, 0, real), narrow(s, flat, 0, start, real));
  setup_.synchronize();
}

void PartitionedParameters::free(PartitionedParameter& p) {
  Session& s = setup_.s;
  setup_.record_stream(p.parameter, s.stream);
  p.parameter.set_data(empty(s, {0}, like(p.parameter)));
  p.status = GatherStatus::not_available;
}

void PartitionedParameters::drop_secondary() {
  for (PartitionedParameter& p : all_) p.secondary.reset();
}

}  // namespace shardscope::eager::deepspeed
